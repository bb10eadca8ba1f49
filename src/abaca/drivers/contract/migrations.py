# SPDX-License-Identifier: Apache-2.0
"""Moving a share to another pool or back end."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence

import msgspec

from abaca.drivers.contract.access_rules import AccessRule
from abaca.drivers.contract.shares import Export, ShareInstance
from abaca.drivers.contract.values import Value


class MigrationFit(Value, frozen=True, kw_only=True):
    """Whether a move is possible, and what users keep while it runs."""

    compatible: bool = False
    writable: bool = False
    preserve_metadata: bool = False
    preserve_snapshots: bool = False
    nondisruptive: bool = False


class MigrationResult(Value, frozen=True, kw_only=True):
    """Where things are after a move; provider locations by snapshot id."""

    exports: Sequence[Export]
    snapshots: Mapping[str, str | None] = msgspec.field(default_factory=dict)


class Migrates(abc.ABC):
    """The back end moves a share to another pool or back end by itself. Called on the source's driver."""

    @abc.abstractmethod
    def check_migration(self, source: ShareInstance, destination: ShareInstance, destination_host: str) -> MigrationFit:
        """Whether it could; changes nothing."""

    @abc.abstractmethod
    def start_migration(self, source: ShareInstance, destination: ShareInstance) -> None:
        """Begin copying. Raises `Full`, `Refused`."""

    @abc.abstractmethod
    def continue_migration(self, source: ShareInstance, destination: ShareInstance) -> int:
        """Percent copied; 100 means that only the cut-over is left."""

    @abc.abstractmethod
    def complete_migration(
        self, source: ShareInstance, destination: ShareInstance, rules: Sequence[AccessRule]
    ) -> MigrationResult:
        """Cut over: the destination serves, the source is gone."""

    @abc.abstractmethod
    def cancel_migration(self, source: ShareInstance, destination: ShareInstance) -> None:
        """Undo the copy; the source never stopped. Nothing to cancel is success."""
