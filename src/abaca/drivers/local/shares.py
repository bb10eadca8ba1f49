# SPDX-License-Identifier: Apache-2.0
"""The local driver's shares."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Sequence
from pathlib import Path

from abaca.drivers import contract
from abaca.drivers.exports import clients
from abaca.drivers.local.pool import GIB
from abaca.drivers.local.serving import SHARES, SNAPSHOTS, Serving


class Shares(Serving, contract.Resizes, contract.ClonesSnapshotsAtOnce, contract.MeasuresUsage, contract.AllowsCopying):
    """A subvolume with a limit each."""

    def create(self, instance: contract.ShareInstance) -> contract.Created:
        with self.changing(instance):
            return self._create(instance, None)

    def create_from_snapshot(self, instance: contract.ShareInstance, snapshot: contract.Snapshot) -> contract.Created:
        with self.changing(instance):
            source = None
            if not self.pool.holds(SHARES, instance.id):
                source = self.pool.need(SNAPSHOTS, snapshot.id)
            return self._create(instance, source)

    def _create(self, instance: contract.ShareInstance, source: Path | None) -> contract.Created:
        pseudo, exporter = self.pseudo(instance), self.exporter(instance)
        self.pool.create(instance.id, instance.size_gib, int(self.options.root_mode, 8), source)
        self.serve(exporter, SHARES, instance.id, pseudo, None)
        return contract.Created(exports=exporter.exports(pseudo))

    def delete(self, instance: contract.ShareInstance) -> None:
        with self.changing(instance):
            self.pool.holds(SHARES, instance.id)
            self.withdraw(instance, SHARES, instance.id)
            self.pool.delete(SHARES, instance.id)

    def set_access(
        self, instance: contract.ShareInstance, rules: Sequence[contract.AccessRule]
    ) -> dict[str, contract.AccessOutcome]:
        with self.changing(instance):
            self.pool.need(SHARES, instance.id)
            wanted, outcomes = clients.from_rules(rules)
            self.serve(self.exporter(instance), SHARES, instance.id, self.pseudo(instance), wanted)
            return outcomes

    def extend(self, instance: contract.ShareInstance, new_size_gib: int) -> None:
        with self.changing(instance):
            self.pool.need(SHARES, instance.id)
            self.pool.check_room(new_size_gib)
            self.pool.limit(instance.id, new_size_gib)

    def shrink(self, instance: contract.ShareInstance, new_size_gib: int) -> None:
        with self.changing(instance):
            self.pool.shrink(instance.id, new_size_gib, instance.size_gib)

    def measure_usage(self, instances: Sequence[contract.ShareInstance]) -> dict[str, contract.Usage]:
        now = datetime.datetime.now(datetime.UTC)
        seen: dict[str, contract.Usage] = {}
        if not self.pool.is_counted():
            return seen
        for instance in instances:
            with contextlib.suppress(contract.Gone, contract.Refused):
                used_bytes, _ = self.pool.usage(instance.id)
                seen[instance.id] = contract.Usage(used_gib=used_bytes / GIB, gathered_at=now)
        return seen if self.pool.is_counted() else {}

    def open_for_copy(
        self, instance: contract.ShareInstance, addresses: Sequence[str], level: contract.AccessLevel
    ) -> contract.CopyMount:
        with self.changing(instance):
            self.pool.mount(SHARES, instance.id)
            return contract.CopyMount(type="directory", source=str(self.pool.mount_point(SHARES, instance.id)))

    def close_after_copy(self, instance: contract.ShareInstance) -> None:
        """It is mounted on this host all the time."""
