# SPDX-License-Identifier: Apache-2.0
"""Snapshots of shares, and what is made from them."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence

import msgspec

from abaca.drivers.contract.access_rules import AccessOutcome, AccessRule
from abaca.drivers.contract.long_calls import DONE, Progress
from abaca.drivers.contract.shares import Created, Export, ShareInstance
from abaca.drivers.contract.values import DriverData, Value


class Snapshot(Value, frozen=True, kw_only=True):
    """A snapshot of `instance`; `id` names it on the back end."""

    id: str
    instance: ShareInstance
    provider_location: str | None = None
    driver_data: DriverData = msgspec.field(default_factory=dict)


class SnapshotOutcome(Value, frozen=True, kw_only=True):
    """What came out of taking a snapshot: what the back end calls it, where that is of use."""

    provider_location: str | None = None
    driver_data: DriverData | None = None


class Snapshots(abc.ABC):
    """Point-in-time copies inside the pool (`snapshot_support`)."""

    @abc.abstractmethod
    def create_snapshot(self, snapshot: Snapshot) -> SnapshotOutcome:
        """Take it; repeated, it is the snapshot of the first call. Raises `Full`, `Gone`."""

    @abc.abstractmethod
    def delete_snapshot(self, snapshot: Snapshot) -> None:
        """Remove it and its export. Absent is success. Raises `Busy`."""


class Clone(Value, frozen=True, kw_only=True):
    """A new share, `instance`, that starts from a snapshot; its size may be larger than the snapshot's."""

    instance: ShareInstance
    snapshot: Snapshot


class ClonesSnapshots(abc.ABC):
    """A new share can start from a snapshot (`create_share_from_snapshot_support`)."""

    @abc.abstractmethod
    def start_clone(self, clone: Clone) -> None:
        """Begin to make the share with the snapshot's content. Raises `Gone` without the snapshot, `Full`."""

    @abc.abstractmethod
    def look_at_clone(self, clone: Clone) -> Progress:
        """How far it is. Raises `Gone`, `Refused`, `Unreachable`."""

    @abc.abstractmethod
    def end_clone(self, clone: Clone) -> Created:
        """The share is there, exported to nobody yet. Raises `Busy` before, `Gone`, `Full`."""

    @abc.abstractmethod
    def cancel_clone(self, clone: Clone) -> None:
        """Nothing of the share is left; the snapshot stays. Raises `Busy`."""


class ClonesSnapshotsAtOnce(ClonesSnapshots):
    """A share that starts from a snapshot is made in one short call."""

    @abc.abstractmethod
    def create_from_snapshot(self, instance: ShareInstance, snapshot: Snapshot) -> Created:
        """As `create`, with the snapshot's content; `instance.size_gib` may be larger. Raises `Gone`, `Full`."""

    @abc.abstractmethod
    def delete(self, instance: ShareInstance) -> None:
        """As `Driver.delete`."""

    def start_clone(self, clone: Clone) -> None:
        """The end does it all."""

    def look_at_clone(self, clone: Clone) -> Progress:
        """Nothing has to be waited for."""
        return DONE

    def end_clone(self, clone: Clone) -> Created:
        return self.create_from_snapshot(clone.instance, clone.snapshot)

    def cancel_clone(self, clone: Clone) -> None:
        self.delete(clone.instance)


class Revert(Value, frozen=True, kw_only=True):
    """A share that goes back to its newest snapshot, reachable by `rules` afterwards."""

    snapshot: Snapshot
    rules: Sequence[AccessRule] = ()


class Reverts(abc.ABC):
    """A share can go back to its newest snapshot (`revert_to_snapshot_support`)."""

    @abc.abstractmethod
    def start_revert(self, revert: Revert) -> None:
        """Begin; users may see either content until the end. Raises `Gone` without the snapshot or the share."""

    @abc.abstractmethod
    def look_at_revert(self, revert: Revert) -> Progress:
        """How far it is. Raises `Gone`, `Refused`, `Unreachable`."""

    @abc.abstractmethod
    def end_revert(self, revert: Revert) -> None:
        """The share's content is the snapshot's, its size is kept, its rules are `revert.rules`.

        Raises `Busy` before, `Gone`.
        """

    @abc.abstractmethod
    def cancel_revert(self, revert: Revert) -> None:
        """The share has the content from before the start. Raises `Refused` when that cannot be had any more."""


class RevertsAtOnce(Reverts):
    """A share goes back to a snapshot in one short call."""

    @abc.abstractmethod
    def revert(self, snapshot: Snapshot, rules: Sequence[AccessRule]) -> None:
        """Make the share's content the snapshot's, with `rules` applied. Raises `Gone`, `Busy`."""

    def start_revert(self, revert: Revert) -> None:
        """The end does it all."""

    def look_at_revert(self, revert: Revert) -> Progress:
        """Nothing has to be waited for."""
        return DONE

    def end_revert(self, revert: Revert) -> None:
        self.revert(revert.snapshot, revert.rules)

    def cancel_revert(self, revert: Revert) -> None:
        """Nothing was begun."""


class MountsSnapshots(abc.ABC):
    """A snapshot can be mounted read-only (`mount_snapshot_support`)."""

    @abc.abstractmethod
    def export_snapshot(self, snapshot: Snapshot) -> list[Export]:
        """Where it can be mounted from; nobody can yet when it was not exported before. Raises `Gone`."""

    @abc.abstractmethod
    def set_snapshot_access(self, snapshot: Snapshot, rules: Sequence[AccessRule]) -> dict[str, AccessOutcome]:
        """As `set_access`, for the snapshot; whatever a rule's level is, nobody can write."""


class ManagedSnapshot(SnapshotOutcome, frozen=True, kw_only=True):
    """What came out of taking a snapshot over: how large the share was, and where it is from now on."""

    size_gib: int


class ManagesSnapshots(abc.ABC):
    """Snapshots that exist on the back end can be taken over and given up."""

    @abc.abstractmethod
    def manage_snapshot(self, snapshot: Snapshot, options: Mapping[str, str]) -> ManagedSnapshot:
        """Take over `snapshot.provider_location`; nobody can mount it afterwards.

        Raises `Gone`, or `Refused` when it is no snapshot, or known to be that of another share.
        """

    @abc.abstractmethod
    def unmanage_snapshot(self, snapshot: Snapshot) -> None:
        """Forget it; it stays on the back end, mounted by whoever could. Absent is success."""
