# SPDX-License-Identifier: Apache-2.0
"""The dummy driver's migrations, inside one back end."""

from __future__ import annotations

from collections.abc import Sequence

from abaca.drivers import contract
from abaca.drivers.dummy.storage import INSTANCE, SNAPSHOT, Storage, with_faults

MIGRATION = "migration"


class Migrations(Storage, contract.Migrates):
    """Moves from pool to pool."""

    @with_faults
    def check_migration(
        self, source: contract.ShareInstance, destination: contract.ShareInstance, destination_host: str
    ) -> contract.MigrationFit:
        fits = destination_host.partition("#")[0] == self.backend.host
        return contract.MigrationFit(
            compatible=fits, writable=fits, preserve_metadata=fits, preserve_snapshots=fits, nondisruptive=False
        )

    @with_faults
    def start_migration(self, source: contract.ShareInstance, destination: contract.ShareInstance) -> None:
        with self.state_file.change() as records:
            if records.get(MIGRATION, source.id) is None:
                record = records.need(INSTANCE, source.id)
                self.hold(records, destination, content=record["content"], used_gib=record["used_gib"])
                records.put(MIGRATION, source.id, {"destination": destination.id, "percent": 0})

    @with_faults
    def continue_migration(self, source: contract.ShareInstance, destination: contract.ShareInstance) -> int:
        with self.state_file.change() as records:
            return self.look(records, MIGRATION, source.id, "percent")

    @with_faults
    def complete_migration(
        self,
        source: contract.ShareInstance,
        destination: contract.ShareInstance,
        rules: Sequence[contract.AccessRule],
    ) -> contract.MigrationResult:
        held, _ = self.admit(rules)
        with self.state_file.change() as records:
            record = records.need(INSTANCE, destination.id) | {"rules": held}
            records.put(INSTANCE, destination.id, record)
            self.release(records, source.id)
            records.drop(MIGRATION, source.id)
            moved: dict[str, str | None] = {}
            for id, snapshot in records.all(SNAPSHOT).items():
                if snapshot["instance_id"] == source.id:
                    records.put(SNAPSHOT, id, snapshot | {"instance_id": destination.id})
                    moved[id] = f"dummy/{id}"
        return contract.MigrationResult(exports=self.exports(record, destination.server), snapshots=moved)

    @with_faults
    def cancel_migration(self, source: contract.ShareInstance, destination: contract.ShareInstance) -> None:
        with self.state_file.change() as records:
            if records.get(MIGRATION, source.id) is not None:
                self.release(records, destination.id)
                records.drop(MIGRATION, source.id)
