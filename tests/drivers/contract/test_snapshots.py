# SPDX-License-Identifier: Apache-2.0
"""What drivers promise of snapshots, and of what is made from them."""

import pytest

from abaca.drivers import contract
from tests.drivers.contract.calls import LongCallTests, SlowCallTests, gone, run, settled, twice
from tests.drivers.harness import rules, snapshot


def taken_of(harness, share):
    """A snapshot of the share as it is now."""
    taken = snapshot(share)
    harness.driver.create_snapshot(taken)
    return taken


class TestSnapshots:
    capability = contract.Snapshots

    def test_a_snapshot_is_taken_once(self, harness, driver, share):
        taken = snapshot(share)
        assert taken.id not in harness.snapshots()
        twice(driver.create_snapshot, taken)
        assert taken.id in harness.snapshots()
        driver.delete_snapshot(taken)

    def test_a_snapshot_outlives_its_share(self, harness, driver):
        share = harness.share("text")
        taken = taken_of(harness, share)
        driver.delete(share)
        assert share.id not in harness.held()
        assert taken.id in harness.snapshots()
        twice(driver.delete_snapshot, taken)
        assert taken.id not in harness.snapshots()

    def test_nothing_can_be_taken_of_what_is_not_there(self, harness, driver):
        gone(driver.create_snapshot, snapshot(harness.instance()))

    def test_deleting_one_that_was_never_taken_leaves_the_others(self, harness, driver, share):
        taken = taken_of(harness, share)
        twice(driver.delete_snapshot, snapshot(share))
        assert taken.id in harness.snapshots()
        driver.delete_snapshot(taken)


class Cloning:
    name = "clone"

    def prepared(self, harness):
        source = harness.share("before")
        taken = taken_of(harness, source)
        harness.write(source, "after")
        return contract.Clone(instance=harness.instance(size_gib=2), snapshot=taken)

    def assert_done(self, harness, clone, created):
        assert created.exports
        assert all(clone.instance.id in export.path for export in created.exports)
        assert (harness.read(clone.instance), harness.read(clone.snapshot.instance)) == ("before", "after")
        assert harness.size_gib(clone.instance) == 2
        assert harness.clients(clone.instance) == set()

    def assert_as_before(self, harness, clone):
        assert clone.instance.id not in harness.held()
        assert clone.snapshot.id in harness.snapshots()


class TestClonesSnapshots(Cloning, LongCallTests):
    capability = contract.ClonesSnapshots

    def test_a_clone_outlives_its_snapshot_and_is_not_made_twice(self, harness, driver):
        clone = self.prepared(harness)
        created = run(driver, "clone", clone)
        driver.delete_snapshot(clone.snapshot)
        harness.write(clone.instance, "own")
        assert driver.end_clone(clone) == created
        assert harness.read(clone.instance) == "own"

    def test_a_snapshot_that_is_gone_makes_no_share(self, harness, driver, share):
        clone = contract.Clone(instance=harness.instance(), snapshot=snapshot(share))
        gone(run, driver, "clone", clone)
        assert clone.instance.id not in harness.held()


class TestSlowClones(Cloning, SlowCallTests):
    capability, without = contract.ClonesSnapshots, contract.ClonesSnapshotsAtOnce


class TestClonesSnapshotsAtOnce(Cloning):
    capability = contract.ClonesSnapshotsAtOnce

    def test_a_share_starts_with_the_content_of_the_snapshot(self, harness, driver):
        clone = self.prepared(harness)
        self.assert_done(harness, clone, twice(driver.create_from_snapshot, clone.instance, clone.snapshot))


class Reverting:
    name = "revert"

    def prepared(self, harness):
        share = harness.share("before")
        taken = taken_of(harness, share)
        harness.write(share, "after")
        return contract.Revert(snapshot=taken, rules=harness.rules("10.0.0.4 rw"))

    def assert_done(self, harness, revert, outcome):
        share = revert.snapshot.instance
        assert harness.read(share) == "before"
        assert harness.clients(share) == {("10.0.0.4", "rw")}
        assert harness.size_gib(share) == 1
        harness.write(share, "later")
        harness.driver.delete_snapshot(revert.snapshot)
        assert harness.read(share) == "later"

    def assert_as_before(self, harness, revert):
        assert harness.read(revert.snapshot.instance) == "after"
        assert harness.clients(revert.snapshot.instance) == set()


class TestReverts(Reverting, LongCallTests):
    capability = contract.Reverts

    def test_a_snapshot_that_is_gone_changes_nothing(self, harness, driver, share):
        harness.write(share, "now")
        gone(run, driver, "revert", contract.Revert(snapshot=snapshot(share)))
        assert harness.read(share) == "now"


class TestSlowReverts(Reverting, SlowCallTests):
    capability, without = contract.Reverts, contract.RevertsAtOnce


class TestRevertsAtOnce(Reverting):
    capability = contract.RevertsAtOnce

    def test_the_share_is_as_it_was_and_reachable_by_the_rules(self, harness, driver):
        revert = self.prepared(harness)
        self.assert_done(harness, revert, twice(settled, driver.revert, revert.snapshot, revert.rules))


class TestMountsSnapshots:
    capability = contract.MountsSnapshots

    def test_a_snapshot_has_export_locations_and_readers_of_its_own(self, harness, driver, share):
        taken = taken_of(harness, share)
        exports = twice(driver.export_snapshot, taken)
        assert exports
        assert all(taken.id in export.path for export in exports)
        assert harness.snapshot_clients(taken) == set()
        assert twice(driver.set_snapshot_access, taken, rules("10.0.0.1 ro", "10.0.0.2 rw")) == {}
        assert harness.snapshot_clients(taken) == {("10.0.0.1", "ro"), ("10.0.0.2", "ro")}
        assert harness.clients(share) == set()
        twice(driver.set_snapshot_access, taken, [])
        assert harness.snapshot_clients(taken) == set()
        driver.delete_snapshot(taken)

    def test_a_snapshot_that_is_gone_is_not_exported(self, harness, driver, share):
        gone(driver.export_snapshot, snapshot(share))

    def test_ensuring_tells_where_exported_snapshots_are_now(self, harness):
        share = harness.share()
        taken = taken_of(harness, share)
        known = {taken.id: harness.driver.export_snapshot(taken)}
        moved = harness.move_exports()
        told = harness.known(share, snapshot_exports=known)
        outcome = moved.inspect([told])[share.id]
        assert outcome.exports is None
        assert outcome.snapshot_exports == {taken.id: moved.export_snapshot(taken)}
        assert set(outcome.snapshot_exports[taken.id]) != set(known[taken.id])
        back = harness.start()
        settled = harness.known(share, snapshot_exports=known)
        assert back.inspect([settled]) == {}


class TestManagesSnapshots:
    capability = contract.ManagesSnapshots

    def test_a_snapshot_is_given_up_and_taken_over(self, harness, driver):
        share = harness.share("text", size_gib=2)
        old = snapshot(share)
        place = driver.create_snapshot(old).provider_location
        twice(driver.unmanage_snapshot, old)
        assert old.id not in harness.snapshots()
        new = snapshot(share, provider_location=place)
        managed = twice(driver.manage_snapshot, new, {})
        assert managed.size_gib == 2
        assert new.id in harness.snapshots()
        gone(driver.manage_snapshot, snapshot(share, provider_location=place), {})
        driver.unmanage_snapshot(new)
        again = snapshot(share, provider_location=managed.provider_location)
        assert driver.manage_snapshot(again, {}).size_gib == 2
        driver.delete_snapshot(again)
        assert again.id not in harness.snapshots()
        gone(driver.manage_snapshot, snapshot(share, provider_location=managed.provider_location), {})

    def test_a_snapshot_of_another_share_is_refused(self, harness, driver):
        share, another = harness.share("text"), harness.share("else")
        old = snapshot(share)
        place = driver.create_snapshot(old).provider_location
        driver.unmanage_snapshot(old)
        with pytest.raises(contract.Refused, match="not taken of this share"):
            driver.manage_snapshot(snapshot(another, provider_location=place), {})
        again = snapshot(share, provider_location=place)
        driver.manage_snapshot(again, {})
        assert again.id in harness.snapshots()

    def test_a_snapshot_that_was_taken_over_is_mounted_by_nobody_of_before(self, harness, driver):
        share = harness.share("text")
        old = snapshot(share)
        place = driver.create_snapshot(old).provider_location
        driver.export_snapshot(old)
        driver.set_snapshot_access(old, rules("10.0.0.1 rw"))
        driver.unmanage_snapshot(old)
        new = snapshot(share, provider_location=place)
        driver.manage_snapshot(new, {})
        driver.export_snapshot(new)
        assert harness.snapshot_clients(new) == set()
        driver.set_snapshot_access(new, rules("10.0.0.2 rw"))
        assert harness.snapshot_clients(new) == {("10.0.0.2", "ro")}
        driver.delete_snapshot(new)

    def test_a_snapshot_that_was_taken_over_has_its_content(self, harness, driver):
        share = harness.share("text")
        old = snapshot(share)
        place = driver.create_snapshot(old).provider_location
        harness.write(share, "later")
        driver.unmanage_snapshot(old)
        new = snapshot(share, provider_location=place)
        driver.manage_snapshot(new, {})
        copy = contract.Clone(instance=harness.instance(), snapshot=new)
        run(driver, "clone", copy)
        assert harness.read(copy.instance) == "text"
