# SPDX-License-Identifier: Apache-2.0
"""Shares that are kept, and snapshotted, together."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from abaca.drivers.contract.shares import Created, ShareInstance, ShareServer
from abaca.drivers.contract.snapshots import Snapshot, SnapshotOutcome
from abaca.drivers.contract.values import Value


class ShareGroup(Value, frozen=True, kw_only=True):
    """Shares of one back end that are kept together."""

    id: str
    project_id: str
    instances: Sequence[ShareInstance] = ()
    server: ShareServer | None = None


class GroupSnapshot(Value, frozen=True, kw_only=True):
    """Snapshots of all shares of a group, of one moment."""

    id: str
    group_id: str
    snapshots: Sequence[Snapshot] = ()


class Groups(abc.ABC):
    """Shares can be kept together in groups."""

    @abc.abstractmethod
    def create_group(self, group: ShareGroup) -> None:
        """Make the group, without shares in it."""

    @abc.abstractmethod
    def delete_group(self, group: ShareGroup) -> None:
        """Remove the group. Absent is success. Raises `Refused` while it holds shares."""


class SnapshotsGroups(abc.ABC):
    """All shares of a group in one snapshot (`consistent_snapshot_support`)."""

    consistent_snapshot_support: ClassVar[Literal["pool", "host"]] = "host"

    @abc.abstractmethod
    def create_group_snapshot(self, group_snapshot: GroupSnapshot) -> dict[str, SnapshotOutcome]:
        """Take all of its snapshots at one moment, by snapshot id. Raises `Full`, `Gone`."""

    @abc.abstractmethod
    def delete_group_snapshot(self, group_snapshot: GroupSnapshot) -> None:
        """Remove all of them. Absent is success."""

    @abc.abstractmethod
    def create_group_from_snapshot(
        self, group: ShareGroup, group_snapshot: GroupSnapshot, sources: Mapping[str, str]
    ) -> dict[str, Created]:
        """Make the group with its instances, by instance id; `sources` maps an instance's id to its snapshot's.

        Raises `Gone`, `Full`.
        """
