# SPDX-License-Identifier: Apache-2.0
"""The dummy driver's shares."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from abaca.drivers import contract
from abaca.drivers.dummy.state_file import Record, Records
from abaca.drivers.dummy.storage import INSTANCE, SNAPSHOT, Storage, with_faults


class Shares(
    Storage,
    contract.Resizes,
    contract.Enumerates,
    contract.Inspects,
    contract.MeasuresUsage,
    contract.AcceptsTransfers,
    contract.UpdatesMetadata,
):
    """Shares, and what is done with one by itself."""

    @with_faults
    def create(self, instance: contract.ShareInstance) -> contract.Created:
        with self.state_file.change() as records:
            return self.created(self.hold(records, instance), instance.server)

    @with_faults
    def delete(self, instance: contract.ShareInstance) -> None:
        with self.state_file.change() as records:
            self.release(records, instance.id)

    @with_faults
    def set_access(
        self, instance: contract.ShareInstance, rules: Sequence[contract.AccessRule]
    ) -> dict[str, contract.AccessOutcome]:
        held, outcomes = self.admit(rules)
        with self.state_file.change() as records:
            records.put(INSTANCE, instance.id, records.need(INSTANCE, instance.id) | {"rules": held})
        return outcomes

    @with_faults
    def extend(self, instance: contract.ShareInstance, new_size_gib: int) -> None:
        with self.state_file.change() as records:
            self._resize(records, instance.id, new_size_gib)

    @with_faults
    def shrink(self, instance: contract.ShareInstance, new_size_gib: int) -> None:
        with self.state_file.change() as records:
            used_gib = records.need(INSTANCE, instance.id)["used_gib"]
            if used_gib > new_size_gib:
                raise contract.Refused(reason=f"{used_gib} GiB are in use")
            self._resize(records, instance.id, new_size_gib)

    def _resize(self, records: Records, instance_id: str, new_size_gib: int) -> None:
        record = records.need(INSTANCE, instance_id)
        self.claim(records, record["pool"], new_size_gib - record["size_gib"])
        records.put(INSTANCE, instance_id, record | {"size_gib": new_size_gib})

    @with_faults
    def inspect(self, instances: Sequence[contract.ShareInstance]) -> dict[str, contract.EnsureOutcome]:
        return self.looked_at(instances)

    @with_faults
    def instances_after(self, after: str, most: int) -> list[str]:
        with self.state_file.change() as records:
            return records.ids_after(INSTANCE, after, most)

    def looked_at(
        self, instances: Sequence[contract.ShareInstance], *, mends: bool = False
    ) -> dict[str, contract.EnsureOutcome]:
        """What is not so as the database says; whether that is mended makes no difference to the answer."""
        found = {}
        with self.state_file.change() as records:
            for one in instances:
                if isinstance(self, contract.Fences) and records.is_superseded(one.id, one.generation):
                    found[one.id] = contract.EnsureOutcome(is_superseded=True)
                    continue
                record = records.get(INSTANCE, one.id)
                outcome = self._difference(records, record, one)
                if outcome is not None:
                    found[one.id] = outcome
                    if mends and record is not None and outcome.repairs:
                        self._resize(records, one.id, one.size_gib)
        return found

    def _difference(
        self, records: Records, record: Record | None, instance: contract.ShareInstance
    ) -> contract.EnsureOutcome | None:
        if record is None:
            return contract.EnsureOutcome(status="error", reason="the back end has no such share")
        exports = self.exports(record, instance.server)
        moved = exports if set(exports) != set(instance.exports) else None
        pairs = self.options.ensured_metadata
        is_marked = all(instance.share_metadata.get(key) == value for key, value in pairs.items())
        is_sized = not instance.is_held or record["size_gib"] == instance.size_gib
        repairs = [] if is_sized else [f"its size was {record['size_gib']} GiB instead of {instance.size_gib}"]
        snapshots = self._moved_snapshots(records, instance)
        kept = self.options.driver_data
        is_kept = dict(instance.driver_data) == kept
        is_ruled = instance.rules is None or self.admit(instance.rules)[0] == record["rules"]
        if moved is None and is_marked and is_kept and is_ruled and not repairs and not snapshots:
            return None
        return contract.EnsureOutcome(
            exports=moved,
            share_metadata=None if is_marked else pairs,
            reapply_access_rules=not is_ruled,
            repairs=repairs,
            snapshot_exports=snapshots,
            driver_data=None if is_kept else kept,
        )

    def _moved_snapshots(self, records: Records, instance: contract.ShareInstance) -> dict[str, list[contract.Export]]:
        """The exports of those of its snapshots that have others than are known."""
        moved = {}
        for id, known in instance.snapshot_exports.items():
            held = records.get(SNAPSHOT, id)
            exports = self.exports({"mount": id}, instance.server) if held and held.get("is_exported") else []
            if set(exports) != set(known):
                moved[id] = exports
        return moved

    @with_faults
    def measure_usage(self, instances: Sequence[contract.ShareInstance]) -> dict[str, contract.Usage]:
        now = datetime.datetime.now(datetime.UTC)
        with self.state_file.change() as records:
            found = {instance.id: records.get(INSTANCE, instance.id) for instance in instances}
        return {
            id: contract.Usage(used_gib=float(record["used_gib"]), gathered_at=now)
            for id, record in found.items()
            if record is not None
        }

    @with_faults
    def accept_transfer(self, instance: contract.ShareInstance, project_id: str) -> None:
        with self.state_file.change() as records:
            records.put(INSTANCE, instance.id, records.need(INSTANCE, instance.id) | {"project_id": project_id})

    @with_faults
    def update_metadata(self, instance: contract.ShareInstance, metadata: Mapping[str, str]) -> None:
        with self.state_file.change() as records:
            records.put(INSTANCE, instance.id, records.need(INSTANCE, instance.id) | {"metadata": dict(metadata)})
