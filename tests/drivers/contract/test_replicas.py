# SPDX-License-Identifier: Apache-2.0
"""What drivers promise of replicas: made, followed, promoted and deleted, and snapshotted together."""

from abaca.drivers import contract
from tests.drivers.contract.calls import LongCallTests, SlowCallTests, gone, run, twice
from tests.drivers.harness import rules, snapshot

# Who reaches a copy that is not the active one, when the rule of the share is 10.0.0.1 rw.
REACHED = {"writable": {("10.0.0.1", "rw")}, "readable": {("10.0.0.1", "ro")}, "dr": set()}


def replica(instance, state):
    return contract.Replica(instance=instance, state=state)


def pair(harness):
    """A share with the content `text`, and a copy of it."""
    active = harness.share("text")
    copy = harness.instance(share_id=active.share_id)
    asked = contract.ReplicaCreation(replica=copy, replicas=[replica(active, "active")], rules=rules("10.0.0.1 rw"))
    run(harness.driver, "replica_creation", asked)
    return active, copy


class TestReplicates(LongCallTests, SlowCallTests):
    capability = contract.Replicates
    name = "replica_creation"

    def prepared(self, harness):
        active = harness.share("text")
        copy = harness.instance(share_id=active.share_id)
        return contract.ReplicaCreation(replica=copy, replicas=[replica(active, "active")], rules=rules("10.0.0.1 rw"))

    def assert_done(self, harness, creation, outcome):
        copy = creation.replica
        assert outcome.state in {"in_sync", "out_of_sync"}
        assert all(copy.id in export.path for export in outcome.exports)
        assert outcome.exports
        assert harness.read(copy) == "text"
        assert harness.clients(copy) == REACHED[harness.driver.replication_type]
        assert harness.driver.replica_state(copy, creation.replicas) == outcome.state

    def assert_as_before(self, harness, creation):
        assert creation.replica.id not in harness.held()
        assert harness.read(creation.replicas[0].instance) == "text"

    def test_a_deleted_replica_is_gone_and_the_others_stay(self, harness, driver):
        active, copy = pair(harness)
        both = [replica(active, "active"), replica(copy, "in_sync")]
        twice(driver.delete_replica, copy, both)
        assert copy.id not in harness.held()
        assert harness.read(active) == "text"
        gone(driver.replica_state, copy, both)

    def test_a_share_that_is_gone_cannot_be_copied(self, harness, driver):
        lost, copy = harness.instance(), harness.instance()
        gone(driver.start_replica_creation, contract.ReplicaCreation(replica=copy, replicas=[replica(lost, "active")]))
        assert copy.id not in harness.held()


class TestPromotes(LongCallTests, SlowCallTests):
    capability = contract.Replicates
    name = "promotion"

    def prepared(self, harness):
        active, copy = pair(harness)
        both = [replica(active, "active"), replica(copy, "in_sync")]
        return contract.Promotion(replica=copy, replicas=both, rules=rules("10.0.0.1 rw"), quiesce_wait_s=30)

    def assert_done(self, harness, promotion, outcome):
        old, new = (one.instance for one in promotion.replicas)
        assert {id: one.state for id, one in outcome.items()} == {new.id: "active", old.id: "in_sync"}
        assert harness.driver.replica_state(new, promotion.replicas) == "active"
        assert harness.driver.replica_state(old, promotion.replicas) == "in_sync"
        assert harness.clients(new) == {("10.0.0.1", "rw")}
        assert harness.clients(old) == REACHED[harness.driver.replication_type]
        assert harness.read(new) == "text"

    def assert_as_before(self, harness, promotion):
        copy = promotion.replica
        assert harness.driver.replica_state(copy, promotion.replicas) == "in_sync"
        assert harness.clients(copy) == REACHED[harness.driver.replication_type]
        assert harness.read(copy) == "text"

    def test_the_time_to_quiesce_reaches_the_back_end(self, harness, driver):
        promotion = self.prepared(harness)
        driver.start_promotion(promotion)
        assert harness.quiesce_wait_s(promotion.replica) == 30
        driver.cancel_promotion(promotion)

    def test_what_is_gone_is_not_promoted(self, harness, driver, share):
        copy = harness.instance()
        gone(driver.start_promotion, contract.Promotion(replica=copy, replicas=[replica(share, "active")]))


class TestSnapshotsReplicas:
    capability = contract.SnapshotsReplicas

    def test_a_snapshot_is_taken_on_all_replicas_and_deleted_everywhere(self, harness, driver):
        taken = [snapshot(one) for one in pair(harness)]
        assert set(twice(driver.create_replicated_snapshot, taken)) == {one.id for one in taken}
        assert {one.id for one in taken} <= harness.snapshots()
        twice(driver.delete_replicated_snapshot, taken)
        assert harness.snapshots() & {one.id for one in taken} == set()

    def test_the_active_replica_goes_back_to_it(self, harness, driver):
        active, copy = pair(harness)
        taken = [snapshot(active), snapshot(copy)]
        driver.create_replicated_snapshot(taken)
        harness.write(active, "after")
        twice(driver.revert_replicated_snapshot, taken, rules("10.0.0.2 ro"))
        assert (harness.read(active), harness.clients(active)) == ("text", {("10.0.0.2", "ro")})
        driver.delete_replicated_snapshot(taken)
        gone(driver.revert_replicated_snapshot, taken, [])
