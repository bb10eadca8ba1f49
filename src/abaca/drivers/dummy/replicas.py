# SPDX-License-Identifier: Apache-2.0
"""The dummy driver's replicas: in sync at once, as copies that users reach by the type of the replication."""

from __future__ import annotations

from collections.abc import Sequence

from abaca.drivers import contract
from abaca.drivers.dummy.state_file import Records
from abaca.drivers.dummy.storage import CONTENT, INSTANCE, SNAPSHOT, Storage, snapshot_outcome, with_faults

CREATION, PROMOTION = "replica_creation", "promotion"


class Replicas(Storage, contract.Replicates, contract.SnapshotsReplicas):
    """Replicas of shares."""

    def set_state(
        self, records: Records, instance_id: str, state: contract.ReplicaState, rules: Sequence[list[str]]
    ) -> None:
        """What the replica is from now on, and who may reach it by that. Raises `Gone`."""
        reached = list(rules)
        if state != "active" and self.replication_type == "dr":
            reached = []
        elif state != "active" and self.replication_type == "readable":
            reached = [[type, to, "ro"] for type, to, _ in rules]
        record = records.need(INSTANCE, instance_id)
        records.put(INSTANCE, instance_id, record | {"replica_state": state, "rules": reached})

    @with_faults
    def start_replica_creation(self, creation: contract.ReplicaCreation) -> None:
        held, _ = self.admit(creation.rules)
        replica = creation.replica
        with self.state_file.change() as records:
            if records.get(INSTANCE, replica.id) is None:
                active = next((one.instance.id for one in creation.replicas if one.state == "active"), "")
                source = records.need(INSTANCE, active)
                self.hold(records, replica, **{key: source[key] for key in CONTENT})
                self.set_state(records, replica.id, "out_of_sync", held)
                self.begin(records, CREATION, replica.id)

    @with_faults
    def look_at_replica_creation(self, creation: contract.ReplicaCreation) -> contract.Progress:
        with self.state_file.change() as records:
            return self.advance(records, CREATION, creation.replica.id)

    @with_faults
    def end_replica_creation(self, creation: contract.ReplicaCreation) -> contract.ReplicaOutcome:
        replica = creation.replica
        with self.state_file.change() as records:
            record = records.need(INSTANCE, replica.id)
            if self.finish(records, CREATION, replica.id) is not None:
                record["replica_state"] = "in_sync"
                records.put(INSTANCE, replica.id, record)
            return contract.ReplicaOutcome(state=record["replica_state"], exports=self.exports(record, replica.server))

    @with_faults
    def cancel_replica_creation(self, creation: contract.ReplicaCreation) -> None:
        with self.state_file.change() as records:
            if records.get(CREATION, creation.replica.id) is not None:
                self.release(records, creation.replica.id)
                records.drop(CREATION, creation.replica.id)

    @with_faults
    def delete_replica(self, replica: contract.ShareInstance, replicas: Sequence[contract.Replica]) -> None:
        with self.state_file.change() as records:
            self.release(records, replica.id)
            records.drop(CREATION, replica.id)

    @with_faults
    def start_promotion(self, promotion: contract.Promotion) -> None:
        with self.state_file.change() as records:
            records.need(INSTANCE, promotion.replica.id)
            self.begin(records, PROMOTION, promotion.replica.id, quiesce_wait_s=promotion.quiesce_wait_s)

    @with_faults
    def look_at_promotion(self, promotion: contract.Promotion) -> contract.Progress:
        with self.state_file.change() as records:
            return self.advance(records, PROMOTION, promotion.replica.id)

    @with_faults
    def end_promotion(self, promotion: contract.Promotion) -> dict[str, contract.ReplicaOutcome]:
        held, _ = self.admit(promotion.rules)
        outcomes = {}
        with self.state_file.change() as records:
            records.need(INSTANCE, promotion.replica.id)
            self.finish(records, PROMOTION, promotion.replica.id)
            for instance_id in {promotion.replica.id, *(one.instance.id for one in promotion.replicas)}:
                if records.get(INSTANCE, instance_id) is not None:
                    state: contract.ReplicaState = "active" if instance_id == promotion.replica.id else "in_sync"
                    self.set_state(records, instance_id, state, held)
                    outcomes[instance_id] = contract.ReplicaOutcome(state=state)
        return outcomes

    @with_faults
    def cancel_promotion(self, promotion: contract.Promotion) -> None:
        with self.state_file.change() as records:
            records.drop(PROMOTION, promotion.replica.id)

    @with_faults
    def replica_state(
        self, replica: contract.ShareInstance, replicas: Sequence[contract.Replica]
    ) -> contract.ReplicaState | None:
        with self.state_file.change() as records:
            state: contract.ReplicaState | None = records.need(INSTANCE, replica.id).get("replica_state")
        return state

    @with_faults
    def create_replicated_snapshot(self, snapshots: Sequence[contract.Snapshot]) -> dict[str, contract.SnapshotOutcome]:
        with self.state_file.change() as records:
            for snapshot in snapshots:
                self.hold_snapshot(records, snapshot)
        return {snapshot.id: snapshot_outcome(snapshot.id) for snapshot in snapshots}

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
                self.bring_back(records, snapshot)
            active = snapshots[0].instance.id
            records.put(INSTANCE, active, records.need(INSTANCE, active) | {"rules": held})
