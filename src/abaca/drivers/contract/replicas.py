# SPDX-License-Identifier: Apache-2.0
"""Copies of a share that follow it."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from abaca.drivers.contract.access_rules import AccessRule
from abaca.drivers.contract.long_calls import Progress
from abaca.drivers.contract.shares import Export, ShareInstance
from abaca.drivers.contract.snapshots import Snapshot, SnapshotOutcome
from abaca.drivers.contract.values import DriverData, Value

ReplicaState = Literal["active", "in_sync", "out_of_sync", "error"]
ReplicationType = Literal["writable", "readable", "dr"]


class Replica(Value, frozen=True, kw_only=True):
    """One copy among the replicas of a share, with its state as last seen."""

    instance: ShareInstance
    state: ReplicaState | None = None


class ReplicaOutcome(Value, frozen=True, kw_only=True):
    """What became of a replica; `exports` None means unchanged."""

    state: ReplicaState
    exports: Sequence[Export] | None = None
    driver_data: DriverData | None = None


class ReplicaCreation(Value, frozen=True, kw_only=True):
    """One more copy, `replica`, beside `replicas`, of which one is active; `rules` apply to it as to them."""

    replica: ShareInstance
    replicas: Sequence[Replica]
    rules: Sequence[AccessRule] = ()


class Promotion(Value, frozen=True, kw_only=True):
    """A copy, `replica`, that becomes the active one among `replicas`, itself included.

    `quiesce_wait_s` is for how many seconds at most the back end waits until the copy has what was last written; None
    leaves that to the back end.
    """

    replica: ShareInstance
    replicas: Sequence[Replica]
    rules: Sequence[AccessRule] = ()
    quiesce_wait_s: Annotated[int, msgspec.Meta(ge=1)] | None = None


class Replicates(abc.ABC):
    """Copies of a share that follow it (`replication_type`)."""

    # A driver that learns it from its options sets it when constructed.
    replication_type: ReplicationType = "dr"

    @abc.abstractmethod
    def start_replica_creation(self, creation: ReplicaCreation) -> None:
        """Begin to copy the active one. Raises `Full`, `Gone`."""

    @abc.abstractmethod
    def look_at_replica_creation(self, creation: ReplicaCreation) -> Progress:
        """How far it is. Raises `Gone`, `Refused`, `Unreachable`."""

    @abc.abstractmethod
    def end_replica_creation(self, creation: ReplicaCreation) -> ReplicaOutcome:
        """The copy follows the active one; it may still be out_of_sync. Raises `Busy` before, `Gone`."""

    @abc.abstractmethod
    def cancel_replica_creation(self, creation: ReplicaCreation) -> None:
        """Nothing of the copy is left; the others stay. Raises `Busy`."""

    @abc.abstractmethod
    def delete_replica(self, replica: ShareInstance, replicas: Sequence[Replica]) -> None:
        """Remove this copy; the others stay. Absent is success."""

    @abc.abstractmethod
    def start_promotion(self, promotion: Promotion) -> None:
        """Begin to bring the copy up to date; the active one serves on. Raises `Gone`."""

    @abc.abstractmethod
    def look_at_promotion(self, promotion: Promotion) -> Progress:
        """How far it is; 100 when the copy is in sync, or the time to quiesce is over. Raises `Gone`, `Unreachable`."""

    @abc.abstractmethod
    def end_promotion(self, promotion: Promotion) -> dict[str, ReplicaOutcome]:
        """The copy is the active one, with `promotion.rules`; by instance id all whose state or exports changed.

        Raises `Busy` before, `Gone`.
        """

    @abc.abstractmethod
    def cancel_promotion(self, promotion: Promotion) -> None:
        """The replicas are what they were before the start."""

    @abc.abstractmethod
    def replica_state(self, replica: ShareInstance, replicas: Sequence[Replica]) -> ReplicaState | None:
        """How far this copy is, None when that is not known. Raises `Gone`, `Unreachable`."""


class SnapshotsReplicas(abc.ABC):
    """A snapshot taken on all replicas of a share at once; the first of `snapshots` is on the active one."""

    @abc.abstractmethod
    def create_replicated_snapshot(self, snapshots: Sequence[Snapshot]) -> dict[str, SnapshotOutcome]:
        """Take it, by snapshot id; repeated, it is the snapshot of the first call. Raises `Full`, `Gone`."""

    @abc.abstractmethod
    def delete_replicated_snapshot(self, snapshots: Sequence[Snapshot]) -> None:
        """Remove it everywhere. Absent is success."""

    @abc.abstractmethod
    def revert_replicated_snapshot(self, snapshots: Sequence[Snapshot], rules: Sequence[AccessRule]) -> None:
        """Bring the active replica back to it; the others follow by themselves. Raises `Gone`, `Busy`."""
