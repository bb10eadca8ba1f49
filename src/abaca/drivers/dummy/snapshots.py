# SPDX-License-Identifier: Apache-2.0
"""The dummy driver's snapshots."""

from __future__ import annotations

from collections.abc import Sequence

from abaca.drivers import contract
from abaca.drivers.dummy.storage import INSTANCE, SNAPSHOT, Storage, snapshot_outcome, with_faults

CLONE, REVERT = "clone", "revert"


class Snapshots(Storage, contract.Snapshots, contract.ClonesSnapshots, contract.Reverts, contract.MountsSnapshots):
    """Snapshots, what is made from them, and their own exports."""

    @with_faults
    def create_snapshot(self, snapshot: contract.Snapshot) -> contract.SnapshotOutcome:
        with self.state_file.change() as records:
            self.hold_snapshot(records, snapshot)
        return snapshot_outcome(snapshot.id)

    @with_faults
    def delete_snapshot(self, snapshot: contract.Snapshot) -> None:
        with self.state_file.change() as records:
            records.drop(SNAPSHOT, snapshot.id)

    @with_faults
    def start_clone(self, clone: contract.Clone) -> None:
        with self.state_file.change() as records:
            if records.get(INSTANCE, clone.instance.id) is None:
                self.hold_copy(records, clone.instance, clone.snapshot.id)
                self.begin(records, CLONE, clone.instance.id)

    @with_faults
    def look_at_clone(self, clone: contract.Clone) -> contract.Progress:
        with self.state_file.change() as records:
            return self.advance(records, CLONE, clone.instance.id)

    @with_faults
    def end_clone(self, clone: contract.Clone) -> contract.Created:
        with self.state_file.change() as records:
            record = records.need(INSTANCE, clone.instance.id)
            self.finish(records, CLONE, clone.instance.id)
            return self.created(record, clone.instance.server)

    @with_faults
    def cancel_clone(self, clone: contract.Clone) -> None:
        with self.state_file.change() as records:
            if records.get(CLONE, clone.instance.id) is not None:
                self.release(records, clone.instance.id)
                records.drop(CLONE, clone.instance.id)

    @with_faults
    def start_revert(self, revert: contract.Revert) -> None:
        with self.state_file.change() as records:
            records.need(SNAPSHOT, revert.snapshot.id)
            records.need(INSTANCE, revert.snapshot.instance.id)
            self.begin(records, REVERT, revert.snapshot.instance.id, snapshot_id=revert.snapshot.id)

    @with_faults
    def look_at_revert(self, revert: contract.Revert) -> contract.Progress:
        with self.state_file.change() as records:
            return self.advance(records, REVERT, revert.snapshot.instance.id)

    @with_faults
    def end_revert(self, revert: contract.Revert) -> None:
        held, _ = self.admit(revert.rules)
        with self.state_file.change() as records:
            if self.finish(records, REVERT, revert.snapshot.instance.id) is not None:
                self.bring_back(records, revert.snapshot, rules=held)

    @with_faults
    def cancel_revert(self, revert: contract.Revert) -> None:
        with self.state_file.change() as records:
            records.drop(REVERT, revert.snapshot.instance.id)

    @with_faults
    def export_snapshot(self, snapshot: contract.Snapshot) -> list[contract.Export]:
        with self.state_file.change() as records:
            record = records.need(SNAPSHOT, snapshot.id)
            records.put(SNAPSHOT, snapshot.id, record | {"is_exported": True})
        return self.exports({"mount": snapshot.id}, snapshot.instance.server)

    @with_faults
    def set_snapshot_access(
        self, snapshot: contract.Snapshot, rules: Sequence[contract.AccessRule]
    ) -> dict[str, contract.AccessOutcome]:
        held, outcomes = self.admit(rules)
        read_only = sorted([type, to, "ro"] for type, to, _ in held)
        with self.state_file.change() as records:
            records.put(SNAPSHOT, snapshot.id, records.need(SNAPSHOT, snapshot.id) | {"rules": read_only})
        return outcomes
