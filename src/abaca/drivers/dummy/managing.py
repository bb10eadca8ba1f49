# SPDX-License-Identifier: Apache-2.0
"""What the dummy driver holds for nobody: shares and snapshots that were given up can be taken over."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from abaca.drivers import contract
from abaca.drivers.dummy.state_file import Record, Records
from abaca.drivers.dummy.storage import INSTANCE, SNAPSHOT, Storage, snapshot_outcome, with_faults

UNMANAGED = "unmanaged"
# What a share keeps for whoever takes it over.
KEPT = ("size_gib", "mount", "used_gib", "content", "rules", "origin")


class Managing(Storage, contract.Manages, contract.ManagesSnapshots):
    """Taking over and giving up."""

    @with_faults
    def manage(self, instance: contract.ShareInstance, options: Mapping[str, str]) -> contract.Managed:
        path = instance.exports[0].path if instance.exports else ""
        with self.state_file.change() as records:
            record = records.get(INSTANCE, instance.id)
            if record is None:
                record = self._take_over(records, instance, path, options)
            exports = self.exports(record, instance.server)
            kept = self.options.driver_data or None
            return contract.Managed(size_gib=record["size_gib"], exports=exports, driver_data=kept)

    def _take_over(
        self, records: Records, instance: contract.ShareInstance, path: str, options: Mapping[str, str]
    ) -> Record:
        mount = path.rpartition("/")[2]
        places = [one.path for one in self.exports({"mount": mount}, instance.server)]
        if instance.server is not None and path not in places:
            raise contract.Gone(reason=f"share server {instance.server.id} exports nothing as {path}")
        known = records.get(UNMANAGED, mount)
        if known is None and not options.get("size", "").isdigit():
            raise contract.Gone(reason=f"nothing is at {path}, and the option size does not say how large it is")
        found = known or {"size_gib": int(options["size"]), "mount": mount or instance.id}
        # whose it was is over
        found = {key: value for key, value in found.items() if key in KEPT}
        records.drop(UNMANAGED, mount)
        sized = msgspec.structs.replace(instance, size_gib=found["size_gib"])
        record = self.hold(records, sized) | found
        records.put(INSTANCE, instance.id, record)
        return record

    @with_faults
    def unmanage(self, instance: contract.ShareInstance) -> None:
        with self.state_file.change() as records:
            record = self.release(records, instance.id)
            if record is not None:
                records.put(UNMANAGED, record["mount"], {"origin": instance.id} | record)

    @with_faults
    def manage_snapshot(self, snapshot: contract.Snapshot, options: Mapping[str, str]) -> contract.ManagedSnapshot:
        with self.state_file.change() as records:
            record = records.get(SNAPSHOT, snapshot.id)
            if record is None:
                old_id = (snapshot.provider_location or "").rpartition("/")[2]
                found = records.need(UNMANAGED, old_id)
                share = records.get(INSTANCE, snapshot.instance.id) or {}
                if found.get("origin") != share.get("origin", snapshot.instance.id):
                    raise contract.Refused(reason=f"{snapshot.provider_location} was not taken of this share")
                record = found | {"instance_id": snapshot.instance.id, "rules": []}
                records.drop(UNMANAGED, old_id)
                records.put(SNAPSHOT, snapshot.id, record)
        place = snapshot_outcome(snapshot.id).provider_location
        return contract.ManagedSnapshot(size_gib=int(record["size_gib"]), provider_location=place)

    @with_faults
    def unmanage_snapshot(self, snapshot: contract.Snapshot) -> None:
        with self.state_file.change() as records:
            record = records.get(SNAPSHOT, snapshot.id)
            if record is not None:
                share = records.get(INSTANCE, snapshot.instance.id) or {}
                origin = share.get("origin", snapshot.instance.id)
                records.drop(SNAPSHOT, snapshot.id)
                records.put(UNMANAGED, snapshot.id, record | {"origin": origin})
