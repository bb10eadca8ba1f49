# SPDX-License-Identifier: Apache-2.0
"""The dummy driver's copies of shares: replicas, groups, managed shares, migrations, backups."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from abaca.drivers import contract
from abaca.drivers.dummy.state_file import Books, Entry
from abaca.drivers.dummy.storage import INSTANCE, SNAPSHOT, Stage, rehearsed

GROUP, GROUP_SNAPSHOT, BACKUP, MIGRATION, UNMANAGED = "group", "group_snapshot", "backup", "migration", "unmanaged"


class Copies(
    Stage,
    contract.Replicates,
    contract.SnapshotsReplicas,
    contract.Groups,
    contract.SnapshotsGroups,
    contract.Manages,
    contract.ManagesSnapshots,
    contract.Migrates,
    contract.BacksUp,
    contract.MeasuresUsage,
    contract.AcceptsTransfers,
    contract.UpdatesMetadata,
):
    """All that is done with a share's content beyond the share itself."""

    def hold_snapshot(self, books: Books, snapshot: contract.Snapshot) -> str:
        """Take it unless it is held; its provider location."""
        if books.get(SNAPSHOT, snapshot.id) is None:
            source = books.need(INSTANCE, snapshot.instance.id)
            kept = {key: source[key] for key in ("size_gib", "used_gib", "content")}
            books.put(SNAPSHOT, snapshot.id, {"instance_id": snapshot.instance.id, "rules": [], **kept})
        return f"dummy/{snapshot.id}"

    def hold_copy(self, books: Books, instance: contract.ShareInstance, snapshot_id: str) -> Entry:
        """The instance's entry, made from the snapshot unless it is held. Raises `Gone`."""
        held = books.get(INSTANCE, instance.id)
        if held is not None:
            return held
        taken = books.need(SNAPSHOT, snapshot_id)
        return self.hold(books, instance, content=taken["content"], used_gib=taken["used_gib"])

    def bring_back(self, books: Books, snapshot: contract.Snapshot, **more: Any) -> None:
        """Make the instance's content the snapshot's. Raises `Gone`."""
        taken = books.need(SNAPSHOT, snapshot.id)
        entry = books.need(INSTANCE, snapshot.instance.id)
        content = {key: taken[key] for key in ("used_gib", "content")}
        books.put(INSTANCE, snapshot.instance.id, entry | content | more)

    def _look(self, books: Books, kind: str, id: str, field: str) -> int:
        entry = books.need(kind, id)
        entry[field] = min(100, entry[field] + self.options.progress_percent)
        books.put(kind, id, entry)
        return int(entry[field])

    # Replicas

    @rehearsed
    def create_replica(
        self,
        replica: contract.ShareInstance,
        replicas: Sequence[contract.Replica],
        rules: Sequence[contract.AccessRule],
    ) -> contract.ReplicaOutcome:
        held, _ = self.admit(rules)
        with self.ledger.change() as books:
            active = next((r.instance.id for r in replicas if r.state == "active"), "")
            source = books.get(INSTANCE, active) or {"content": "", "used_gib": 0}
            more = {key: source[key] for key in ("content", "used_gib")}
            entry = self.hold(books, replica, replica_state="in_sync", rules=held, **more)
            exports = self.exports(entry, replica.server)
        return contract.ReplicaOutcome(state=entry.get("replica_state", "in_sync"), exports=exports)

    @rehearsed
    def delete_replica(self, replica: contract.ShareInstance, replicas: Sequence[contract.Replica]) -> None:
        with self.ledger.change() as books:
            self.release(books, replica.id)

    @rehearsed
    def promote_replica(
        self,
        replica: contract.ShareInstance,
        replicas: Sequence[contract.Replica],
        rules: Sequence[contract.AccessRule],
    ) -> dict[str, contract.ReplicaOutcome]:
        held, _ = self.admit(rules)
        outcomes = {}
        with self.ledger.change() as books:
            books.need(INSTANCE, replica.id)
            for instance_id in {replica.id, *(r.instance.id for r in replicas)}:
                entry = books.get(INSTANCE, instance_id)
                if entry is not None:
                    state: contract.ReplicaState = "active" if instance_id == replica.id else "in_sync"
                    books.put(INSTANCE, instance_id, entry | {"replica_state": state, "rules": held})
                    outcomes[instance_id] = contract.ReplicaOutcome(state=state)
        return outcomes

    @rehearsed
    def replica_state(
        self, replica: contract.ShareInstance, replicas: Sequence[contract.Replica]
    ) -> contract.ReplicaState | None:
        with self.ledger.change() as books:
            state: contract.ReplicaState = books.need(INSTANCE, replica.id).get("replica_state", "in_sync")
        return state

    @rehearsed
    def create_replicated_snapshot(self, snapshots: Sequence[contract.Snapshot]) -> dict[str, str | None]:
        with self.ledger.change() as books:
            return {snapshot.id: self.hold_snapshot(books, snapshot) for snapshot in snapshots}

    @rehearsed
    def delete_replicated_snapshot(self, snapshots: Sequence[contract.Snapshot]) -> None:
        with self.ledger.change() as books:
            for snapshot in snapshots:
                books.drop(SNAPSHOT, snapshot.id)

    @rehearsed
    def revert_replicated_snapshot(
        self, snapshots: Sequence[contract.Snapshot], rules: Sequence[contract.AccessRule]
    ) -> None:
        held, _ = self.admit(rules)
        with self.ledger.change() as books:
            for snapshot in snapshots:
                self.bring_back(books, snapshot, rules=held)

    # Groups

    @rehearsed
    def create_group(self, group: contract.ShareGroup) -> None:
        with self.ledger.change() as books:
            books.put(GROUP, group.id, {"project_id": group.project_id})

    @rehearsed
    def delete_group(self, group: contract.ShareGroup) -> None:
        with self.ledger.change() as books:
            if any(books.get(INSTANCE, instance.id) for instance in group.instances):
                raise contract.Refused(reason="the group holds shares")
            books.drop(GROUP, group.id)

    @rehearsed
    def create_group_snapshot(self, group_snapshot: contract.GroupSnapshot) -> dict[str, str | None]:
        with self.ledger.change() as books:
            books.put(GROUP_SNAPSHOT, group_snapshot.id, {"group_id": group_snapshot.group_id})
            return {snapshot.id: self.hold_snapshot(books, snapshot) for snapshot in group_snapshot.snapshots}

    @rehearsed
    def delete_group_snapshot(self, group_snapshot: contract.GroupSnapshot) -> None:
        with self.ledger.change() as books:
            for snapshot in group_snapshot.snapshots:
                books.drop(SNAPSHOT, snapshot.id)
            books.drop(GROUP_SNAPSHOT, group_snapshot.id)

    @rehearsed
    def create_group_from_snapshot(
        self,
        group: contract.ShareGroup,
        group_snapshot: contract.GroupSnapshot,
        sources: Mapping[str, str],
    ) -> dict[str, list[contract.Export]]:
        exports = {}
        with self.ledger.change() as books:
            books.put(GROUP, group.id, {"project_id": group.project_id})
            for instance in group.instances:
                entry = self.hold_copy(books, instance, sources[instance.id])
                exports[instance.id] = self.exports(entry, instance.server)
        return exports

    # Taking over and giving up

    @rehearsed
    def manage(self, instance: contract.ShareInstance, options: Mapping[str, str]) -> contract.Managed:
        path = instance.exports[0].path if instance.exports else ""
        with self.ledger.change() as books:
            entry = books.get(INSTANCE, instance.id)
            if entry is None:
                entry = self._take_over(books, instance, path, options)
            return contract.Managed(size_gib=entry["size_gib"], exports=self.exports(entry, instance.server))

    def _take_over(
        self, books: Books, instance: contract.ShareInstance, path: str, options: Mapping[str, str]
    ) -> Entry:
        mount = path.rpartition("/")[2]
        known = books.get(UNMANAGED, mount)
        if known is None and not options.get("size", "").isdigit():
            raise contract.Gone(reason=f"nothing is at {path}, and the option size does not say how large it is")
        found = known or {"size_gib": int(options["size"]), "mount": mount or instance.id}
        books.drop(UNMANAGED, mount)
        sized = msgspec.structs.replace(instance, size_gib=found["size_gib"])
        entry = self.hold(books, sized) | found | {"pool": instance.pool}
        books.put(INSTANCE, instance.id, entry)
        return entry

    @rehearsed
    def unmanage(self, instance: contract.ShareInstance) -> None:
        with self.ledger.change() as books:
            entry = self.release(books, instance.id)
            if entry is not None:
                books.put(UNMANAGED, entry["mount"], entry)

    @rehearsed
    def manage_snapshot(self, snapshot: contract.Snapshot, options: Mapping[str, str]) -> int:
        with self.ledger.change() as books:
            entry = books.get(SNAPSHOT, snapshot.id)
            if entry is None:
                old_id = (snapshot.provider_location or "").rpartition("/")[2]
                entry = books.need(UNMANAGED, old_id) | {"instance_id": snapshot.instance.id}
                books.drop(UNMANAGED, old_id)
                books.put(SNAPSHOT, snapshot.id, entry)
        return int(entry["size_gib"])

    @rehearsed
    def unmanage_snapshot(self, snapshot: contract.Snapshot) -> None:
        with self.ledger.change() as books:
            entry = books.get(SNAPSHOT, snapshot.id)
            if entry is not None:
                books.drop(SNAPSHOT, snapshot.id)
                books.put(UNMANAGED, snapshot.id, entry)

    # Migrations inside this back end

    @rehearsed
    def check_migration(
        self, source: contract.ShareInstance, destination: contract.ShareInstance, destination_host: str
    ) -> contract.MigrationFit:
        fits = destination_host.partition("#")[0] == self.backend.host
        return contract.MigrationFit(
            compatible=fits, writable=fits, preserve_metadata=fits, preserve_snapshots=fits, nondisruptive=False
        )

    @rehearsed
    def start_migration(self, source: contract.ShareInstance, destination: contract.ShareInstance) -> None:
        with self.ledger.change() as books:
            if books.get(MIGRATION, source.id) is None:
                entry = books.need(INSTANCE, source.id)
                self.hold(books, destination, content=entry["content"], used_gib=entry["used_gib"])
                books.put(MIGRATION, source.id, {"destination": destination.id, "percent": 0})

    @rehearsed
    def continue_migration(self, source: contract.ShareInstance, destination: contract.ShareInstance) -> int:
        with self.ledger.change() as books:
            return self._look(books, MIGRATION, source.id, "percent")

    @rehearsed
    def complete_migration(
        self,
        source: contract.ShareInstance,
        destination: contract.ShareInstance,
        rules: Sequence[contract.AccessRule],
    ) -> contract.MigrationResult:
        held, _ = self.admit(rules)
        with self.ledger.change() as books:
            entry = books.need(INSTANCE, destination.id) | {"rules": held}
            books.put(INSTANCE, destination.id, entry)
            self.release(books, source.id)
            books.drop(MIGRATION, source.id)
            moved: dict[str, str | None] = {}
            for id, snapshot in books.all(SNAPSHOT).items():
                if snapshot["instance_id"] == source.id:
                    books.put(SNAPSHOT, id, snapshot | {"instance_id": destination.id})
                    moved[id] = f"dummy/{id}"
        return contract.MigrationResult(exports=self.exports(entry, destination.server), snapshots=moved)

    @rehearsed
    def cancel_migration(self, source: contract.ShareInstance, destination: contract.ShareInstance) -> None:
        with self.ledger.change() as books:
            if books.get(MIGRATION, source.id) is not None:
                self.release(books, destination.id)
                books.drop(MIGRATION, source.id)

    # Backups

    @rehearsed
    def create_backup(self, instance: contract.ShareInstance, backup: contract.Backup) -> None:
        with self.ledger.change() as books:
            source = books.need(INSTANCE, instance.id)
            if books.get(BACKUP, backup.id) is None:
                kept = {key: source[key] for key in ("size_gib", "used_gib", "content")}
                books.put(BACKUP, backup.id, {"share_id": backup.share_id, "percent": 0, "restored_percent": 0, **kept})

    @rehearsed
    def continue_backup(self, instance: contract.ShareInstance, backup: contract.Backup) -> int:
        with self.ledger.change() as books:
            return self._look(books, BACKUP, backup.id, "percent")

    @rehearsed
    def delete_backup(self, backup: contract.Backup) -> None:
        with self.ledger.change() as books:
            books.drop(BACKUP, backup.id)

    @rehearsed
    def restore_backup(self, instance: contract.ShareInstance, backup: contract.Backup) -> None:
        with self.ledger.change() as books:
            kept = books.need(BACKUP, backup.id)
            entry = books.need(INSTANCE, instance.id)
            if kept["used_gib"] > entry["size_gib"]:
                raise contract.Full(reason=f"the backup needs {kept['used_gib']} GiB")
            books.put(BACKUP, backup.id, kept | {"restored_percent": 0})

    @rehearsed
    def continue_restore(self, instance: contract.ShareInstance, backup: contract.Backup) -> int:
        with self.ledger.change() as books:
            percent = self._look(books, BACKUP, backup.id, "restored_percent")
            if percent == 100:
                kept = books.need(BACKUP, backup.id)
                entry = books.need(INSTANCE, instance.id)
                books.put(INSTANCE, instance.id, entry | {key: kept[key] for key in ("used_gib", "content")})
            return percent

    # What else is known of a share

    @rehearsed
    def measure_usage(self, instances: Sequence[contract.ShareInstance]) -> dict[str, contract.Usage]:
        now = datetime.datetime.now(datetime.UTC)
        with self.ledger.change() as books:
            entries = {instance.id: books.get(INSTANCE, instance.id) for instance in instances}
        return {
            id: contract.Usage(used_gib=float(entry["used_gib"]), gathered_at=now)
            for id, entry in entries.items()
            if entry is not None
        }

    @rehearsed
    def accept_transfer(self, instance: contract.ShareInstance, project_id: str) -> None:
        with self.ledger.change() as books:
            books.put(INSTANCE, instance.id, books.need(INSTANCE, instance.id) | {"project_id": project_id})

    @rehearsed
    def update_metadata(self, instance: contract.ShareInstance, metadata: Mapping[str, str]) -> None:
        with self.ledger.change() as books:
            books.put(INSTANCE, instance.id, books.need(INSTANCE, instance.id) | {"metadata": dict(metadata)})
