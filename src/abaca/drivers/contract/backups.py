# SPDX-License-Identifier: Apache-2.0
"""Copies of a share's content outside of its pool."""

from __future__ import annotations

import abc
from collections.abc import Mapping

import msgspec

from abaca.drivers.contract.long_calls import Progress
from abaca.drivers.contract.shares import ShareInstance
from abaca.drivers.contract.values import Value


class Backup(Value, frozen=True, kw_only=True):
    """A copy of a share's content outside of its pool; `options` are those of its backup type."""

    id: str
    share_id: str
    size_gib: int
    options: Mapping[str, str] = msgspec.field(default_factory=dict)


class BackupCreation(Value, frozen=True, kw_only=True):
    """A backup made of `instance`, as it is when the work starts."""

    instance: ShareInstance
    backup: Backup


class Restore(Value, frozen=True, kw_only=True):
    """A share, `instance`, whose content becomes the backup's."""

    instance: ShareInstance
    backup: Backup


class BacksUp(abc.ABC):
    """The back end keeps and restores backups by itself."""

    @abc.abstractmethod
    def start_backup_creation(self, creation: BackupCreation) -> None:
        """Begin; what users write from now on need not be in it. Raises `Full`, `Gone`."""

    @abc.abstractmethod
    def look_at_backup_creation(self, creation: BackupCreation) -> Progress:
        """How far it is. Raises `Gone`, `Refused`, `Unreachable`."""

    @abc.abstractmethod
    def end_backup_creation(self, creation: BackupCreation) -> None:
        """The backup is complete, and needs the share no more. Raises `Busy` before, `Gone`."""

    @abc.abstractmethod
    def cancel_backup_creation(self, creation: BackupCreation) -> None:
        """Nothing of the backup is left."""

    @abc.abstractmethod
    def delete_backup(self, backup: Backup) -> None:
        """Remove it. Absent is success."""

    @abc.abstractmethod
    def start_restore(self, restore: Restore) -> None:
        """Begin to make the share's content the backup's; users may see either until the end. Raises `Gone`, `Full`."""

    @abc.abstractmethod
    def look_at_restore(self, restore: Restore) -> Progress:
        """How far it is. Raises `Gone`, `Refused`, `Unreachable`."""

    @abc.abstractmethod
    def end_restore(self, restore: Restore) -> None:
        """The share's content is the backup's. Raises `Busy` before, `Gone`."""

    @abc.abstractmethod
    def cancel_restore(self, restore: Restore) -> None:
        """Stop. The content is whatever it is then; the share and the backup stay, and it can be started again."""
