# SPDX-License-Identifier: Apache-2.0
"""The local driver's snapshots."""

from __future__ import annotations

from collections.abc import Sequence

from abaca.drivers import contract
from abaca.drivers.exports import clients
from abaca.drivers.local.serving import SHARES, SNAPSHOTS, Serving, snapshot_pseudo


class Snapshots(Serving, contract.Snapshots, contract.RevertsAtOnce, contract.MountsSnapshots):
    """A read-only subvolume each, beside the shares."""

    def create_snapshot(self, snapshot: contract.Snapshot) -> contract.SnapshotOutcome:
        with self.changing(snapshot.instance):
            self.pool.snapshot(snapshot.id, snapshot.instance.id)
        return contract.SnapshotOutcome(provider_location=f"{SNAPSHOTS}/{snapshot.id}")

    def delete_snapshot(self, snapshot: contract.Snapshot) -> None:
        with self.changing(snapshot.instance):
            self.pool.holds(SNAPSHOTS, snapshot.id)
            self.withdraw(snapshot.instance, SNAPSHOTS, snapshot.id)
            self.pool.delete(SNAPSHOTS, snapshot.id)

    def revert(self, snapshot: contract.Snapshot, rules: Sequence[contract.AccessRule]) -> None:
        instance = snapshot.instance
        with self.changing(instance):
            exporter = self.exporter(instance)
            self.pool.prepare_revert(instance.id, snapshot.id)
            exporter.ganesha.suspend(f"{SHARES}/{instance.id}")
            self.pool.unmount(SHARES, instance.id)
            self.pool.finish_revert(instance.id, instance.size_gib)
            wanted, _ = clients.from_rules(rules)
            self.serve(exporter, SHARES, instance.id, self.pseudo(instance), wanted)

    def export_snapshot(self, snapshot: contract.Snapshot) -> list[contract.Export]:
        with self.changing(snapshot.instance):
            exporter = self.exporter(snapshot.instance)
            self.serve(exporter, SNAPSHOTS, snapshot.id, snapshot_pseudo(snapshot.id), None)
        return exporter.exports(snapshot_pseudo(snapshot.id))

    def set_snapshot_access(
        self, snapshot: contract.Snapshot, rules: Sequence[contract.AccessRule]
    ) -> dict[str, contract.AccessOutcome]:
        with self.changing(snapshot.instance):
            wanted, outcomes = clients.from_rules(rules)
            read_only = [clients.Client(network, "ro") for network, _ in wanted]
            exporter = self.exporter(snapshot.instance)
            self.serve(exporter, SNAPSHOTS, snapshot.id, snapshot_pseudo(snapshot.id), read_only)
            return outcomes
