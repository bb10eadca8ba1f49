# SPDX-License-Identifier: Apache-2.0
"""Snapshots of shares, and what is made from them."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence

from abaca.drivers.contract.access_rules import AccessOutcome, AccessRule
from abaca.drivers.contract.shares import Export, ShareInstance
from abaca.drivers.contract.values import Value


class Snapshot(Value, frozen=True, kw_only=True):
    """A snapshot of `instance`; `id` names it on the back end."""

    id: str
    instance: ShareInstance
    provider_location: str | None = None


class Snapshots(abc.ABC):
    """Point-in-time copies inside the pool (`snapshot_support`)."""

    @abc.abstractmethod
    def create_snapshot(self, snapshot: Snapshot) -> str | None:
        """Take it; the provider location, or None. Raises `Full`, `Gone`."""

    @abc.abstractmethod
    def delete_snapshot(self, snapshot: Snapshot) -> None:
        """Remove it. Absent is success. Raises `Busy`."""


class ClonesSnapshots(abc.ABC):
    """A new share can start from a snapshot (`create_share_from_snapshot_support`)."""

    @abc.abstractmethod
    def create_from_snapshot(self, instance: ShareInstance, snapshot: Snapshot) -> list[Export]:
        """As `create`, with the snapshot's content; `instance.size_gib` may be larger. Raises `Gone`, `Full`."""


class Reverts(abc.ABC):
    """A share can go back to its newest snapshot (`revert_to_snapshot_support`)."""

    @abc.abstractmethod
    def revert(self, snapshot: Snapshot, rules: Sequence[AccessRule]) -> None:
        """Make the share's content the snapshot's, with `rules` applied. Raises `Gone`, `Busy`."""


class MountsSnapshots(abc.ABC):
    """A snapshot can be mounted read-only (`mount_snapshot_support`)."""

    @abc.abstractmethod
    def export_snapshot(self, snapshot: Snapshot) -> list[Export]:
        """Where it can be mounted from."""

    @abc.abstractmethod
    def set_snapshot_access(self, snapshot: Snapshot, rules: Sequence[AccessRule]) -> dict[str, AccessOutcome]:
        """As `set_access`, for the snapshot."""


class ManagesSnapshots(abc.ABC):
    """Snapshots that exist on the back end can be taken over and given up."""

    @abc.abstractmethod
    def manage_snapshot(self, snapshot: Snapshot, options: Mapping[str, str]) -> int:
        """Take over `snapshot.provider_location`; its size in GiB. Raises `Gone`, `Refused`."""

    @abc.abstractmethod
    def unmanage_snapshot(self, snapshot: Snapshot) -> None:
        """Forget it; it stays on the back end."""
