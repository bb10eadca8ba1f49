# SPDX-License-Identifier: Apache-2.0
"""The dummy driver's backups."""

from __future__ import annotations

from abaca.drivers import contract
from abaca.drivers.dummy.storage import INSTANCE, Storage, with_faults

BACKUP = "backup"


class Backups(Storage, contract.BacksUp):
    """Backups beside the shares."""

    @with_faults
    def create_backup(self, instance: contract.ShareInstance, backup: contract.Backup) -> None:
        with self.state_file.change() as records:
            source = records.need(INSTANCE, instance.id)
            if records.get(BACKUP, backup.id) is None:
                kept = {key: source[key] for key in ("size_gib", "used_gib", "content")}
                records.put(
                    BACKUP, backup.id, {"share_id": backup.share_id, "percent": 0, "restored_percent": 0, **kept}
                )

    @with_faults
    def continue_backup(self, instance: contract.ShareInstance, backup: contract.Backup) -> int:
        with self.state_file.change() as records:
            return self.look(records, BACKUP, backup.id, "percent")

    @with_faults
    def delete_backup(self, backup: contract.Backup) -> None:
        with self.state_file.change() as records:
            records.drop(BACKUP, backup.id)

    @with_faults
    def restore_backup(self, instance: contract.ShareInstance, backup: contract.Backup) -> None:
        with self.state_file.change() as records:
            kept = records.need(BACKUP, backup.id)
            record = records.need(INSTANCE, instance.id)
            if kept["used_gib"] > record["size_gib"]:
                raise contract.Full(reason=f"the backup needs {kept['used_gib']} GiB")
            records.put(BACKUP, backup.id, kept | {"restored_percent": 0})

    @with_faults
    def continue_restore(self, instance: contract.ShareInstance, backup: contract.Backup) -> int:
        with self.state_file.change() as records:
            percent = self.look(records, BACKUP, backup.id, "restored_percent")
            if percent == 100:
                kept = records.need(BACKUP, backup.id)
                record = records.need(INSTANCE, instance.id)
                records.put(INSTANCE, instance.id, record | {key: kept[key] for key in ("used_gib", "content")})
            return percent
