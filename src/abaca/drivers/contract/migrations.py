# SPDX-License-Identifier: Apache-2.0
"""Moving a share to another pool or back end."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence

import msgspec

from abaca.drivers.contract.access_rules import AccessRule
from abaca.drivers.contract.long_calls import Progress
from abaca.drivers.contract.shares import Export, ShareInstance
from abaca.drivers.contract.snapshots import SnapshotOutcome
from abaca.drivers.contract.values import DriverData, Value


class MigrationFit(Value, frozen=True, kw_only=True):
    """Whether a move is possible, and what users keep while it runs."""

    compatible: bool = False
    writable: bool = False
    preserve_metadata: bool = False
    preserve_snapshots: bool = False
    nondisruptive: bool = False


class Migration(Value, frozen=True, kw_only=True):
    """A move of `source` to `destination` on `destination_host` (`host@backend#pool`), reachable by `rules` there."""

    source: ShareInstance
    destination: ShareInstance
    destination_host: str
    rules: Sequence[AccessRule] = ()


class MigrationResult(Value, frozen=True, kw_only=True):
    """Where things are after a move; `snapshots` by snapshot id."""

    exports: Sequence[Export]
    snapshots: Mapping[str, SnapshotOutcome] = msgspec.field(default_factory=dict)
    driver_data: DriverData | None = None


class Migrates(abc.ABC):
    """The back end moves a share to another pool or back end by itself. Called on the source's driver."""

    @abc.abstractmethod
    def check_migration(self, migration: Migration) -> MigrationFit:
        """Whether it could; changes nothing."""

    @abc.abstractmethod
    def start_migration(self, migration: Migration) -> None:
        """Begin copying. Raises `Full`, `Gone`, `Refused`."""

    @abc.abstractmethod
    def look_at_migration(self, migration: Migration) -> Progress:
        """How much is copied; 100 when only the cut-over is left. Raises `Gone`, `Refused`, `Unreachable`."""

    @abc.abstractmethod
    def end_migration(self, migration: Migration) -> MigrationResult:
        """Cut over: the destination serves, the source is gone. Raises `Busy` before."""

    @abc.abstractmethod
    def cancel_migration(self, migration: Migration) -> None:
        """Nothing of the destination is left; the source never stopped."""
