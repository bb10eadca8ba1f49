# SPDX-License-Identifier: Apache-2.0
"""Copies of a share's content outside of its pool."""

from __future__ import annotations

import abc
from collections.abc import Mapping

import msgspec

from abaca.drivers.contract.shares import ShareInstance
from abaca.drivers.contract.values import Value


class Backup(Value, frozen=True, kw_only=True):
    """A copy of a share's content outside of its pool."""

    id: str
    share_id: str
    size_gib: int
    options: Mapping[str, str] = msgspec.field(default_factory=dict)


class BacksUp(abc.ABC):
    """The back end keeps and restores backups by itself."""

    @abc.abstractmethod
    def create_backup(self, instance: ShareInstance, backup: Backup) -> None:
        """Begin. Raises `Full`, `Gone`."""

    @abc.abstractmethod
    def continue_backup(self, instance: ShareInstance, backup: Backup) -> int:
        """Percent done. Raises `Gone`, `Unreachable`."""

    @abc.abstractmethod
    def delete_backup(self, backup: Backup) -> None:
        """Remove it. Absent is success."""

    @abc.abstractmethod
    def restore_backup(self, instance: ShareInstance, backup: Backup) -> None:
        """Begin to make the share's content the backup's. Raises `Gone`, `Full`."""

    @abc.abstractmethod
    def continue_restore(self, instance: ShareInstance, backup: Backup) -> int:
        """Percent done. Raises `Gone`, `Unreachable`."""
