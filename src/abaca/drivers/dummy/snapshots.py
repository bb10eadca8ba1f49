# SPDX-License-Identifier: Apache-2.0
"""The dummy driver's snapshots."""

from __future__ import annotations

from collections.abc import Sequence

from abaca.drivers import contract
from abaca.drivers.dummy.storage import SNAPSHOT, Storage, with_faults


class Snapshots(Storage, contract.Snapshots, contract.ClonesSnapshots, contract.Reverts, contract.MountsSnapshots):
    """Snapshots, what is made from them, and their own exports."""

    @with_faults
    def create_snapshot(self, snapshot: contract.Snapshot) -> str | None:
        with self.state_file.change() as records:
            return self.hold_snapshot(records, snapshot)

    @with_faults
    def delete_snapshot(self, snapshot: contract.Snapshot) -> None:
        with self.state_file.change() as records:
            records.drop(SNAPSHOT, snapshot.id)

    @with_faults
    def create_from_snapshot(
        self, instance: contract.ShareInstance, snapshot: contract.Snapshot
    ) -> list[contract.Export]:
        with self.state_file.change() as records:
            return self.exports(self.hold_copy(records, instance, snapshot.id), instance.server)

    @with_faults
    def revert(self, snapshot: contract.Snapshot, rules: Sequence[contract.AccessRule]) -> None:
        held, _ = self.admit(rules)
        with self.state_file.change() as records:
            self.bring_back(records, snapshot, rules=held)

    @with_faults
    def export_snapshot(self, snapshot: contract.Snapshot) -> list[contract.Export]:
        with self.state_file.change() as records:
            records.need(SNAPSHOT, snapshot.id)
        return self.exports({"mount": snapshot.id}, snapshot.instance.server)

    @with_faults
    def set_snapshot_access(
        self, snapshot: contract.Snapshot, rules: Sequence[contract.AccessRule]
    ) -> dict[str, contract.AccessOutcome]:
        held, outcomes = self.admit(rules)
        with self.state_file.change() as records:
            records.put(SNAPSHOT, snapshot.id, records.need(SNAPSHOT, snapshot.id) | {"rules": held})
        return outcomes
