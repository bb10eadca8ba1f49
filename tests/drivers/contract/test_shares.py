# SPDX-License-Identifier: Apache-2.0
"""What every driver promises, and what those of everyday capabilities do: one class a promise, each call repeated."""

import concurrent.futures

import pytest

from abaca.drivers import contract
from tests.drivers.harness import rules, snapshot


def twice(call, *arguments):
    """The call's answer, which is the same when it is repeated."""
    first = call(*arguments)
    assert call(*arguments) == first
    return first


class TestDriver:
    capability = contract.Driver

    def test_a_share_can_be_mounted_from_somewhere(self, harness, driver):
        instance = harness.instance()
        exports = twice(driver.create, instance)
        assert all(instance.id in export.path for export in exports)
        assert [export.preferred for export in exports] == [True] + [False] * (len(exports) - 1)
        driver.delete(instance)

    def test_a_new_share_is_reachable_by_nobody(self, harness, share):
        assert harness.clients(share) == set()

    def test_a_mount_point_name_is_what_clients_mount(self, harness, driver):
        instance = harness.instance(mount_point_name="accounts_2026")
        exports = twice(driver.create, instance)
        assert all(export.path.endswith("/accounts_2026") for export in exports)
        driver.delete(instance)

    def test_a_deleted_share_is_gone_and_deleting_it_again_succeeds(self, harness, driver):
        instance = harness.instance()
        driver.create(instance)
        assert instance.id in harness.held()
        twice(driver.delete, instance)
        assert instance.id not in harness.held()

    def test_deleting_one_share_leaves_its_neighbour_alone(self, harness, driver, share):
        neighbour = harness.instance()
        driver.create(neighbour)
        harness.write(share, "mine")
        driver.delete(neighbour)
        assert harness.read(share) == "mine"

    def test_creating_again_keeps_content_and_rules(self, harness, driver, share):
        harness.write(share, "text")
        driver.set_access(share, rules("10.0.0.1 rw"))
        driver.create(share)
        assert harness.read(share) == "text"
        assert harness.clients(share) == {("10.0.0.1", "rw")}

    def test_the_rules_given_are_the_whole_set(self, harness, driver, share):
        assert twice(driver.set_access, share, rules("10.0.0.1 rw", "10.1.0.0/16 ro")) == {}
        assert harness.clients(share) == {("10.0.0.1", "rw"), ("10.1.0.0/16", "ro")}
        twice(driver.set_access, share, rules("10.0.0.1 ro", "10.0.0.3 rw"))
        assert harness.clients(share) == {("10.0.0.1", "ro"), ("10.0.0.3", "rw")}
        twice(driver.set_access, share, [])
        assert harness.clients(share) == set()

    def test_a_rule_that_cannot_be_honoured_is_an_error_and_fails_no_other(self, harness, driver, share):
        odd = contract.AccessRule(id="odd", type="cert", to="client.example.org")
        wrong = contract.AccessRule(id="wrong", type="ip", to="10.0.0.256")
        outcomes = twice(driver.set_access, share, [odd, *rules("10.0.0.9 rw"), wrong])
        assert {id: outcome.state for id, outcome in outcomes.items()} == {"odd": "error", "wrong": "error"}
        assert all(outcome.reason for outcome in outcomes.values())
        assert harness.clients(share) == {("10.0.0.9", "rw")}

    def test_a_thousand_rules_are_all_set(self, harness, driver, share):
        wanted = {(f"10.{n // 250}.0.{n % 250 + 1}", "rw" if n % 2 else "ro") for n in range(1000)}
        assert driver.set_access(share, rules(*(f"{to} {level}" for to, level in wanted))) == {}
        assert harness.clients(share) == wanted

    def test_access_to_a_share_that_is_not_there_says_so(self, harness, driver):
        with pytest.raises(contract.Gone):
            driver.set_access(harness.instance(), [])

    def test_a_share_larger_than_the_pool_does_not_fit(self, harness, driver):
        instance = harness.instance(size_gib=1_000_000_000)
        with pytest.raises(contract.Full):
            driver.create(instance)
        assert instance.id not in harness.held()

    def test_the_pools_say_how_much_is_claimed(self, harness, driver):
        before = driver.pools()[0]
        instance = harness.instance(size_gib=2)
        driver.create(instance)
        after = next(pool for pool in driver.pools() if pool.name == instance.pool)
        assert after.allocated_gib == before.allocated_gib + 2
        assert 0 < after.free_gib <= after.total_gib
        driver.delete(instance)
        assert driver.pools()[0].allocated_gib == before.allocated_gib

    def test_a_worker_that_starts_again_finds_everything(self, harness, driver, share):
        harness.write(share, "kept")
        driver.set_access(share, rules("10.0.0.7 ro"))
        harness.start().start()
        assert harness.read(share) == "kept"
        assert harness.clients(share) == {("10.0.0.7", "ro")}

    def test_shares_come_and_go_in_many_threads_at_once(self, harness, driver, share):
        def life(number):
            instance = harness.instance()
            driver.create(instance)
            driver.set_access(instance, rules(f"10.3.0.{number} rw"))
            seen = harness.clients(instance)
            driver.delete(instance)
            return seen

        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            seen = list(threads.map(life, range(1, 41)))
        assert seen == [{(f"10.3.0.{number}", "rw")} for number in range(1, 41)]
        assert share.id in harness.held()


class TestResizes:
    capability = contract.Resizes

    def test_a_share_grows_and_shrinks(self, harness, driver, share):
        twice(driver.extend, share, 3)
        assert harness.size_gib(share) == 3
        twice(driver.shrink, share, 2)
        assert harness.size_gib(share) == 2

    def test_a_share_in_use_does_not_shrink_below_that(self, harness, driver):
        instance = harness.instance(size_gib=2)
        driver.create(instance)
        harness.fill(instance, 2)
        for _ in range(2):
            with pytest.raises(contract.Refused):
                driver.shrink(instance, 1)
        assert harness.size_gib(instance) == 2
        driver.delete(instance)

    def test_a_share_does_not_grow_beyond_the_pool(self, harness, driver, share):
        with pytest.raises(contract.Full):
            driver.extend(share, 1_000_000_000)
        assert harness.size_gib(share) == 1

    def test_a_share_that_is_not_there_has_no_size(self, harness, driver):
        for resize in (driver.extend, driver.shrink):
            with pytest.raises(contract.Gone):
                resize(harness.instance(), 2)


class TestEnsures:
    capability = contract.Ensures

    def test_shares_that_are_true_are_left_out_of_the_answer(self, harness, driver):
        instance = harness.instance()
        known = harness.instance(id=instance.id, exports=driver.create(instance))
        assert twice(driver.ensure, [known]) == {}
        driver.delete(instance)

    def test_what_was_broken_is_true_again(self, harness, driver):
        instance = harness.instance()
        known = harness.instance(id=instance.id, exports=driver.create(instance))
        driver.set_access(instance, rules("10.0.0.1 rw"))
        harness.write(instance, "kept")
        harness.damage(instance)
        outcome = driver.ensure([known])[instance.id]
        assert (bool(outcome.repairs), outcome.exports, outcome.status) == (True, None, None)
        assert driver.ensure([known]) == {}
        assert harness.clients(instance) == {("10.0.0.1", "rw")}
        assert harness.read(instance) == "kept"
        assert harness.size_gib(instance) == 1
        driver.delete(instance)

    def test_a_share_that_is_gone_is_reported_and_not_made_anew(self, harness, driver):
        instance = harness.instance()
        outcome = twice(driver.ensure, [instance])[instance.id]
        assert (outcome.status, bool(outcome.reason)) == ("error", True)
        assert instance.id not in harness.held()

    def test_export_locations_that_are_not_known_yet_are_told(self, harness, driver, share):
        assert driver.ensure([share])[share.id].exports == driver.create(share)

    def test_the_size_of_a_share_that_somebody_may_be_changing_is_left_alone(self, harness, driver):
        instance = harness.instance()
        exports = driver.create(instance)
        driver.extend(instance, 3)
        driver.ensure([harness.instance(id=instance.id, exports=exports, is_held=False)])
        assert harness.size_gib(instance) == 3
        driver.delete(instance)


class TestEnsuresEach:
    capability = contract.EnsuresEach

    def test_a_share_that_is_true_is_unchanged(self, harness, driver):
        instance = harness.instance()
        known = harness.instance(id=instance.id, exports=driver.create(instance))
        assert twice(driver.ensure_share, known) is None
        driver.delete(instance)

    def test_a_share_that_is_gone_is_reported_and_not_made_anew(self, harness, driver):
        instance = harness.instance()
        outcome = twice(driver.ensure_share, instance)
        assert (outcome.status, bool(outcome.reason)) == ("error", True)
        assert instance.id not in harness.held()

    def test_export_locations_that_are_not_known_yet_are_told(self, harness, driver, share):
        assert driver.ensure_share(share).exports == driver.create(share)

    def test_many_are_ensured_at_once(self, harness, driver):
        instances = [harness.instance() for _ in range(20)]
        exports = [driver.create(instance) for instance in instances]
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            outcomes = list(threads.map(driver.ensure_share, instances))
        assert [outcome.exports for outcome in outcomes] == exports
        for instance in instances:
            driver.delete(instance)


class TestInspects:
    capability = contract.Inspects

    def test_shares_that_are_true_are_left_out_of_the_answer(self, harness, driver):
        instance = harness.instance()
        known = harness.instance(id=instance.id, exports=driver.create(instance))
        assert twice(driver.inspect, [known]) == {}
        driver.delete(instance)

    def test_it_foresees_what_ensuring_then_does(self, harness, driver):
        instance = harness.instance()
        exports = driver.create(instance)
        harness.damage(instance)
        foreseen = twice(driver.inspect, [instance])
        assert foreseen[instance.id].exports == exports
        if isinstance(driver, contract.Ensures):
            assert driver.ensure([instance]) == foreseen
        driver.delete(instance)

    def test_a_share_that_is_gone_is_reported(self, harness, driver):
        instance = harness.instance()
        outcome = twice(driver.inspect, [instance])[instance.id]
        assert (outcome.status, bool(outcome.reason)) == ("error", True)
        assert instance.id not in harness.held()


class TestSnapshots:
    capability = contract.Snapshots

    def test_a_snapshot_is_taken_once_and_outlives_its_share(self, harness, driver):
        instance = harness.instance()
        driver.create(instance)
        taken = snapshot(instance)
        twice(driver.create_snapshot, taken)
        driver.delete(instance)
        twice(driver.delete_snapshot, taken)

    def test_nothing_can_be_taken_of_what_is_not_there(self, harness, driver):
        with pytest.raises(contract.Gone):
            driver.create_snapshot(snapshot(harness.instance()))

    def test_a_snapshot_that_was_never_taken_can_be_deleted(self, harness, driver, share):
        driver.delete_snapshot(snapshot(share))


class TestClonesSnapshots:
    capability = contract.ClonesSnapshots

    def test_a_share_starts_with_the_content_of_the_snapshot(self, harness, driver, share):
        harness.write(share, "before")
        taken = snapshot(share)
        driver.create_snapshot(taken)
        harness.write(share, "after")
        clone = harness.instance(size_gib=2)
        exports = twice(driver.create_from_snapshot, clone, taken)
        assert all(clone.id in export.path for export in exports)
        assert (harness.read(clone), harness.read(share)) == ("before", "after")
        assert harness.size_gib(clone) == 2
        assert harness.clients(clone) == set()
        driver.delete_snapshot(taken)
        harness.write(clone, "own")
        driver.create_from_snapshot(clone, taken)
        assert harness.read(clone) == "own"
        driver.delete(clone)

    def test_a_snapshot_that_is_gone_makes_no_share(self, harness, driver, share):
        clone = harness.instance()
        with pytest.raises(contract.Gone):
            driver.create_from_snapshot(clone, snapshot(share))
        assert clone.id not in harness.held()


class TestReverts:
    capability = contract.Reverts

    def test_the_share_is_as_it_was_and_reachable_by_the_rules(self, harness, driver, share):
        harness.write(share, "before")
        taken = snapshot(share)
        driver.create_snapshot(taken)
        harness.write(share, "after")
        twice(driver.revert, taken, rules("10.0.0.4 rw"))
        assert harness.read(share) == "before"
        assert harness.clients(share) == {("10.0.0.4", "rw")}
        assert harness.size_gib(share) == 1
        harness.write(share, "later")
        driver.delete_snapshot(taken)
        assert harness.read(share) == "later"

    def test_a_snapshot_that_is_gone_changes_nothing(self, harness, driver, share):
        harness.write(share, "now")
        with pytest.raises(contract.Gone):
            driver.revert(snapshot(share), [])
        assert harness.read(share) == "now"


class TestMountsSnapshots:
    capability = contract.MountsSnapshots

    def test_a_snapshot_has_export_locations_and_rules_of_its_own(self, harness, driver, share):
        taken = snapshot(share)
        driver.create_snapshot(taken)
        exports = twice(driver.export_snapshot, taken)
        assert exports
        assert all(taken.id in export.path for export in exports)
        assert twice(driver.set_snapshot_access, taken, rules("10.0.0.1 ro")) == {}
        assert harness.clients(share) == set()
        driver.delete_snapshot(taken)

    def test_a_snapshot_that_is_gone_is_not_exported(self, harness, driver, share):
        with pytest.raises(contract.Gone):
            driver.export_snapshot(snapshot(share))
