# SPDX-License-Identifier: Apache-2.0
"""What drivers promise of ensuring: what is broken becomes true again, and what is true is left alone."""

import concurrent.futures

from abaca.drivers import contract
from tests.drivers.contract.calls import twice


class TestEnsures:
    capability = contract.Ensures

    def test_shares_that_are_true_are_left_out_of_the_answer(self, harness, driver):
        instance = harness.share("kept")
        known = harness.known(instance)
        assert twice(driver.ensure, [known]) == {}
        assert harness.read(instance) == "kept"
        driver.delete(instance)

    def test_what_was_broken_is_true_again(self, harness, driver):
        instance = harness.instance()
        known = harness.known(instance)
        driver.set_access(instance, harness.rules("10.0.0.1 rw"))
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
        assert driver.ensure([share])[share.id].exports == driver.create(share).exports

    def test_the_size_of_a_share_that_somebody_may_be_changing_is_left_alone(self, harness, driver):
        instance = harness.instance()
        exports = driver.create(instance).exports
        driver.extend(instance, 3)
        driver.ensure([harness.instance(id=instance.id, exports=exports, is_held=False)])
        assert harness.size_gib(instance) == 3
        driver.delete(instance)

    def test_rules_that_are_not_as_told_are_to_be_set_again(self, harness, driver, share):
        wanted = harness.rules("10.0.0.1 rw", f"10.1.0.0/16 {harness.weaker}")
        known = harness.known(share, rules=wanted)
        assert driver.ensure([known])[share.id].reapply_access_rules
        assert harness.clients(share) == set()
        driver.set_access(share, wanted)
        assert driver.ensure([known]) == {}


class TestEnsuresEach:
    capability = contract.EnsuresEach

    def test_a_share_that_is_true_is_unchanged(self, harness, driver):
        instance = harness.share("kept")
        known = harness.known(instance)
        assert twice(driver.ensure_share, known) is None
        assert harness.read(instance) == "kept"
        driver.delete(instance)

    def test_a_share_that_is_gone_is_reported_and_not_made_anew(self, harness, driver):
        instance = harness.instance()
        outcome = twice(driver.ensure_share, instance)
        assert (outcome.status, bool(outcome.reason)) == ("error", True)
        assert instance.id not in harness.held()

    def test_export_locations_that_are_not_known_yet_are_told(self, harness, driver, share):
        assert driver.ensure_share(share).exports == driver.create(share).exports

    def test_many_are_ensured_at_once(self, harness, driver):
        instances = [harness.instance() for _ in range(20)]
        exports = [driver.create(instance).exports for instance in instances]
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            outcomes = list(threads.map(driver.ensure_share, instances))
        assert [outcome.exports for outcome in outcomes] == exports
        for instance in instances:
            driver.delete(instance)


class TestEnumerates:
    capability = contract.Enumerates

    def test_all_instances_are_named_in_order_and_page_by_page(self, harness, driver):
        made = [harness.instance() for _ in range(5)]
        for instance in made:
            driver.create(instance)
        named, after = [], ""
        while page := driver.instances_after(after, 2):
            assert len(page) <= 2
            named, after = named + page, page[-1]
        assert named == sorted(harness.held())
        assert {one.id for one in made} <= set(named)
        for instance in made:
            driver.delete(instance)
        assert not {one.id for one in made} & set(driver.instances_after("", 1000))


class TestInspects:
    capability = contract.Inspects

    def test_rules_that_are_not_as_told_are_seen(self, harness, driver, share):
        known = harness.known(share, rules=harness.rules("10.0.0.1 rw"))
        assert twice(driver.inspect, [known])[share.id].reapply_access_rules
        driver.set_access(share, harness.rules("10.0.0.1 rw"))
        assert driver.inspect([known]) == {}
        driver.set_access(share, harness.rules("10.0.0.1 rw", "10.0.0.2 rw"))
        assert driver.inspect([known])[share.id].reapply_access_rules

    def test_shares_that_are_true_are_left_out_of_the_answer(self, harness, driver):
        instance = harness.share("kept")
        known = harness.known(instance)
        assert twice(driver.inspect, [known]) == {}
        assert harness.read(instance) == "kept"
        driver.delete(instance)

    def test_it_foresees_what_ensuring_then_does(self, harness, driver):
        instance = harness.instance()
        exports = driver.create(instance).exports
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
