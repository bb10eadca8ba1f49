# SPDX-License-Identifier: Apache-2.0
"""The dummy driver's backups."""

from __future__ import annotations

from abaca.drivers import contract
from abaca.drivers.dummy.storage import CONTENT, INSTANCE, Storage, with_faults

BACKUP, CREATION, RESTORE = "backup", "backup_creation", "restore"


class Backups(Storage, contract.BacksUp):
    """Backups beside the shares."""

    @with_faults
    def start_backup_creation(self, creation: contract.BackupCreation) -> None:
        backup = creation.backup
        with self.state_file.change() as records:
            source = records.need(INSTANCE, creation.instance.id)
            if records.get(BACKUP, backup.id) is None:
                kept = {key: source[key] for key in ("size_gib", *CONTENT)}
                records.put(BACKUP, backup.id, {"share_id": backup.share_id, **kept})
                self.begin(records, CREATION, backup.id)

    @with_faults
    def look_at_backup_creation(self, creation: contract.BackupCreation) -> contract.Progress:
        with self.state_file.change() as records:
            return self.advance(records, CREATION, creation.backup.id)

    @with_faults
    def end_backup_creation(self, creation: contract.BackupCreation) -> None:
        with self.state_file.change() as records:
            records.need(BACKUP, creation.backup.id)
            self.finish(records, CREATION, creation.backup.id)

    @with_faults
    def cancel_backup_creation(self, creation: contract.BackupCreation) -> None:
        with self.state_file.change() as records:
            if records.get(CREATION, creation.backup.id) is not None:
                records.drop(BACKUP, creation.backup.id)
                records.drop(CREATION, creation.backup.id)

    @with_faults
    def delete_backup(self, backup: contract.Backup) -> None:
        with self.state_file.change() as records:
            records.drop(BACKUP, backup.id)
            records.drop(CREATION, backup.id)

    @with_faults
    def start_restore(self, restore: contract.Restore) -> None:
        with self.state_file.change() as records:
            kept = records.need(BACKUP, restore.backup.id)
            record = records.need(INSTANCE, restore.instance.id)
            if kept["used_gib"] > record["size_gib"]:
                raise contract.Full(reason=f"the backup needs {kept['used_gib']} GiB")
            self.begin(records, RESTORE, restore.instance.id, backup_id=restore.backup.id)

    @with_faults
    def look_at_restore(self, restore: contract.Restore) -> contract.Progress:
        with self.state_file.change() as records:
            return self.advance(records, RESTORE, restore.instance.id)

    @with_faults
    def end_restore(self, restore: contract.Restore) -> None:
        with self.state_file.change() as records:
            record = records.need(INSTANCE, restore.instance.id)
            if self.finish(records, RESTORE, restore.instance.id) is not None:
                kept = records.need(BACKUP, restore.backup.id)
                records.put(INSTANCE, restore.instance.id, record | {key: kept[key] for key in CONTENT})

    @with_faults
    def cancel_restore(self, restore: contract.Restore) -> None:
        with self.state_file.change() as records:
            records.drop(RESTORE, restore.instance.id)
