# SPDX-License-Identifier: Apache-2.0
"""The dummy driver's groups."""

from __future__ import annotations

from collections.abc import Mapping

from abaca.drivers import contract
from abaca.drivers.dummy.storage import INSTANCE, SNAPSHOT, Storage, snapshot_outcome, with_faults

GROUP = "group"
GROUP_SNAPSHOT = "group_snapshot"


class Groups(Storage, contract.Groups, contract.SnapshotsGroups):
    """Groups of shares, and their snapshots."""

    @with_faults
    def create_group(self, group: contract.ShareGroup) -> None:
        with self.state_file.change() as records:
            records.put(GROUP, group.id, {"project_id": group.project_id})

    @with_faults
    def delete_group(self, group: contract.ShareGroup) -> None:
        with self.state_file.change() as records:
            if any(records.get(INSTANCE, instance.id) for instance in group.instances):
                raise contract.Refused(reason="the group holds shares")
            records.drop(GROUP, group.id)

    @with_faults
    def create_group_snapshot(self, group_snapshot: contract.GroupSnapshot) -> dict[str, contract.SnapshotOutcome]:
        with self.state_file.change() as records:
            records.put(GROUP_SNAPSHOT, group_snapshot.id, {"group_id": group_snapshot.group_id})
            for snapshot in group_snapshot.snapshots:
                self.hold_snapshot(records, snapshot)
        return {snapshot.id: snapshot_outcome(snapshot.id) for snapshot in group_snapshot.snapshots}

    @with_faults
    def delete_group_snapshot(self, group_snapshot: contract.GroupSnapshot) -> None:
        with self.state_file.change() as records:
            for snapshot in group_snapshot.snapshots:
                records.drop(SNAPSHOT, snapshot.id)
            records.drop(GROUP_SNAPSHOT, group_snapshot.id)

    @with_faults
    def create_group_from_snapshot(
        self,
        group: contract.ShareGroup,
        group_snapshot: contract.GroupSnapshot,
        sources: Mapping[str, str],
    ) -> dict[str, contract.Created]:
        made = {}
        with self.state_file.change() as records:
            records.put(GROUP, group.id, {"project_id": group.project_id})
            for instance in group.instances:
                record = self.hold_copy(records, instance, sources[instance.id])
                made[instance.id] = self.created(record, instance.server)
        return made
