# SPDX-License-Identifier: Apache-2.0
"""Copies of a share that follow it."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar, Literal

from abaca.drivers.contract.access_rules import AccessRule
from abaca.drivers.contract.shares import Export, ShareInstance
from abaca.drivers.contract.snapshots import Snapshot
from abaca.drivers.contract.values import Value

ReplicaState = Literal["active", "in_sync", "out_of_sync", "error"]


class Replica(Value, frozen=True, kw_only=True):
    """One copy among the replicas of a share, with its state as last seen."""

    instance: ShareInstance
    state: ReplicaState | None = None


class ReplicaOutcome(Value, frozen=True, kw_only=True):
    """What became of a replica; `exports` None means unchanged."""

    state: ReplicaState
    exports: Sequence[Export] | None = None


class Replicates(abc.ABC):
    """Copies of a share that follow it (`replication_type`)."""

    replication_type: ClassVar[Literal["writable", "readable", "dr"]] = "dr"

    @abc.abstractmethod
    def create_replica(
        self, replica: ShareInstance, replicas: Sequence[Replica], rules: Sequence[AccessRule]
    ) -> ReplicaOutcome:
        """Make one more copy beside `replicas`; it may still be out_of_sync. Raises `Full`, `Gone`."""

    @abc.abstractmethod
    def delete_replica(self, replica: ShareInstance, replicas: Sequence[Replica]) -> None:
        """Remove this copy; the others stay. Absent is success."""

    @abc.abstractmethod
    def promote_replica(
        self, replica: ShareInstance, replicas: Sequence[Replica], rules: Sequence[AccessRule]
    ) -> dict[str, ReplicaOutcome]:
        """Make this copy the active one; the answer holds every replica whose state or exports changed."""

    @abc.abstractmethod
    def replica_state(self, replica: ShareInstance, replicas: Sequence[Replica]) -> ReplicaState | None:
        """How far this copy is, None when that is not known. Raises `Gone`, `Unreachable`."""


class SnapshotsReplicas(abc.ABC):
    """A snapshot taken on all replicas of a share at once; the first of `snapshots` is on the active one."""

    @abc.abstractmethod
    def create_replicated_snapshot(self, snapshots: Sequence[Snapshot]) -> dict[str, str | None]:
        """Take it; provider locations by snapshot id. Raises `Full`, `Gone`."""

    @abc.abstractmethod
    def delete_replicated_snapshot(self, snapshots: Sequence[Snapshot]) -> None:
        """Remove it everywhere. Absent is success."""

    @abc.abstractmethod
    def revert_replicated_snapshot(self, snapshots: Sequence[Snapshot], rules: Sequence[AccessRule]) -> None:
        """Bring the active replica back to it; the others follow by themselves. Raises `Gone`, `Busy`."""
