# SPDX-License-Identifier: Apache-2.0
"""The dummy driver's replicas."""

from __future__ import annotations

from collections.abc import Sequence

from abaca.drivers import contract
from abaca.drivers.dummy.storage import INSTANCE, SNAPSHOT, Storage, with_faults


class Replicas(Storage, contract.Replicates, contract.SnapshotsReplicas):
    """Replicas of shares, in sync at once."""

    @with_faults
    def create_replica(
        self,
        replica: contract.ShareInstance,
        replicas: Sequence[contract.Replica],
        rules: Sequence[contract.AccessRule],
    ) -> contract.ReplicaOutcome:
        held, _ = self.admit(rules)
        with self.state_file.change() as records:
            active = next((r.instance.id for r in replicas if r.state == "active"), "")
            source = records.get(INSTANCE, active) or {"content": "", "used_gib": 0}
            more = {key: source[key] for key in ("content", "used_gib")}
            record = self.hold(records, replica, replica_state="in_sync", rules=held, **more)
            exports = self.exports(record, replica.server)
        return contract.ReplicaOutcome(state=record.get("replica_state", "in_sync"), exports=exports)

    @with_faults
    def delete_replica(self, replica: contract.ShareInstance, replicas: Sequence[contract.Replica]) -> None:
        with self.state_file.change() as records:
            self.release(records, replica.id)

    @with_faults
    def promote_replica(
        self,
        replica: contract.ShareInstance,
        replicas: Sequence[contract.Replica],
        rules: Sequence[contract.AccessRule],
    ) -> dict[str, contract.ReplicaOutcome]:
        held, _ = self.admit(rules)
        outcomes = {}
        with self.state_file.change() as records:
            records.need(INSTANCE, replica.id)
            for instance_id in {replica.id, *(r.instance.id for r in replicas)}:
                record = records.get(INSTANCE, instance_id)
                if record is not None:
                    state: contract.ReplicaState = "active" if instance_id == replica.id else "in_sync"
                    records.put(INSTANCE, instance_id, record | {"replica_state": state, "rules": held})
                    outcomes[instance_id] = contract.ReplicaOutcome(state=state)
        return outcomes

    @with_faults
    def replica_state(
        self, replica: contract.ShareInstance, replicas: Sequence[contract.Replica]
    ) -> contract.ReplicaState | None:
        with self.state_file.change() as records:
            state: contract.ReplicaState = records.need(INSTANCE, replica.id).get("replica_state", "in_sync")
        return state

    @with_faults
    def create_replicated_snapshot(self, snapshots: Sequence[contract.Snapshot]) -> dict[str, str | None]:
        with self.state_file.change() as records:
            return {snapshot.id: self.hold_snapshot(records, snapshot) for snapshot in snapshots}

    @with_faults
    def delete_replicated_snapshot(self, snapshots: Sequence[contract.Snapshot]) -> None:
        with self.state_file.change() as records:
            for snapshot in snapshots:
                records.drop(SNAPSHOT, snapshot.id)

    @with_faults
    def revert_replicated_snapshot(
        self, snapshots: Sequence[contract.Snapshot], rules: Sequence[contract.AccessRule]
    ) -> None:
        held, _ = self.admit(rules)
        with self.state_file.change() as records:
            for snapshot in snapshots:
                self.bring_back(records, snapshot, rules=held)
