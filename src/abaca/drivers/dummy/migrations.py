# SPDX-License-Identifier: Apache-2.0
"""The dummy driver's migrations, inside one back end."""

from __future__ import annotations

from abaca.drivers import contract
from abaca.drivers.dummy.storage import CONTENT, INSTANCE, SNAPSHOT, Storage, snapshot_outcome, with_faults

MIGRATION = "migration"


class Migrations(Storage, contract.Migrates):
    """Moves from pool to pool."""

    @with_faults
    def check_migration(self, migration: contract.Migration) -> contract.MigrationFit:
        fits = migration.destination_host.partition("#")[0] == self.backend.host
        return contract.MigrationFit(
            compatible=fits, writable=fits, preserve_metadata=fits, preserve_snapshots=fits, nondisruptive=False
        )

    @with_faults
    def start_migration(self, migration: contract.Migration) -> None:
        source = migration.source
        with self.state_file.change() as records:
            if records.get(MIGRATION, source.id) is None:
                record = records.need(INSTANCE, source.id)
                self.hold(records, migration.destination, **{key: record[key] for key in CONTENT})
                self.begin(records, MIGRATION, source.id, destination=migration.destination.id)

    @with_faults
    def look_at_migration(self, migration: contract.Migration) -> contract.Progress:
        with self.state_file.change() as records:
            return self.advance(records, MIGRATION, migration.source.id)

    @with_faults
    def end_migration(self, migration: contract.Migration) -> contract.MigrationResult:
        source, destination = migration.source, migration.destination
        held, _ = self.admit(migration.rules)
        with self.state_file.change() as records:
            record = records.need(INSTANCE, destination.id)
            if self.finish(records, MIGRATION, source.id) is not None:
                current = records.need(INSTANCE, source.id)  # Users wrote until now.
                record |= {"rules": held} | {key: current[key] for key in CONTENT}
                records.put(INSTANCE, destination.id, record)
                self.release(records, source.id)
            moved = {}
            for id, snapshot in records.all(SNAPSHOT).items():
                if snapshot["instance_id"] in {source.id, destination.id}:
                    records.put(SNAPSHOT, id, snapshot | {"instance_id": destination.id})
                    moved[id] = snapshot_outcome(id)
        return contract.MigrationResult(exports=self.exports(record, destination.server), snapshots=moved)

    @with_faults
    def cancel_migration(self, migration: contract.Migration) -> None:
        with self.state_file.change() as records:
            if records.get(MIGRATION, migration.source.id) is not None:
                self.release(records, migration.destination.id)
                records.drop(MIGRATION, migration.source.id)
