# SPDX-License-Identifier: Apache-2.0
"""What every driver promises of shares, and what those do that can do more with one: a class a promise."""

import concurrent.futures

import pytest

from abaca.drivers import contract
from tests.drivers.contract.calls import gone, twice
from tests.drivers.harness import fresh_id


class TestDriver:
    capability = contract.Driver

    def test_a_back_end_that_can_serve_misses_nothing_and_looking_changes_nothing(self, harness, share):
        assert harness.build().examine() == []
        assert share.id in harness.held()

    def test_a_share_can_be_mounted_from_somewhere(self, harness, driver):
        instance = harness.instance()
        exports = twice(driver.create, instance).exports
        assert all(instance.id in export.path for export in exports)
        assert instance.id in harness.held()
        assert [export.preferred for export in exports] == [True] + [False] * (len(exports) - 1)
        driver.delete(instance)

    def test_a_new_share_is_reachable_by_nobody(self, harness, share):
        assert share.id in harness.held()
        assert harness.clients(share) == set()

    def test_a_deleted_share_is_gone_and_deleting_it_again_succeeds(self, harness, driver):
        instance = harness.instance()
        driver.create(instance)
        assert instance.id in harness.held()
        twice(driver.delete, instance)
        assert instance.id not in harness.held()

    def test_deleting_one_share_leaves_its_neighbour_alone(self, harness, driver, share):
        neighbour = harness.share()
        harness.write(share, "mine")
        driver.delete(neighbour)
        assert harness.read(share) == "mine"

    def test_creating_again_keeps_content_and_rules(self, harness, driver, share):
        harness.write(share, "text")
        driver.set_access(share, harness.rules("10.0.0.1 rw"))
        driver.create(share)
        assert harness.read(share) == "text"
        assert harness.clients(share) == {("10.0.0.1", "rw")}

    def test_the_rules_given_are_the_whole_set(self, harness, driver, share):
        assert twice(driver.set_access, share, harness.rules("10.0.0.1 rw", f"10.1.0.0/16 {harness.weaker}")) == {}
        assert harness.clients(share) == {("10.0.0.1", "rw"), ("10.1.0.0/16", harness.weaker)}
        twice(driver.set_access, share, harness.rules(f"10.0.0.1 {harness.weaker}", "10.0.0.3 rw"))
        assert harness.clients(share) == {("10.0.0.1", harness.weaker), ("10.0.0.3", "rw")}
        twice(driver.set_access, share, [])
        assert harness.clients(share) == set()

    def test_a_rule_that_cannot_be_honoured_is_an_error_and_fails_no_other(self, harness, driver, share):
        odd, wrong = harness.odd_rules
        outcomes = twice(driver.set_access, share, [odd, *harness.rules("10.0.0.9 rw"), wrong])
        assert {id: outcome.state for id, outcome in outcomes.items()} == {"odd": "error", "wrong": "error"}
        assert all(outcome.reason for outcome in outcomes.values())
        assert harness.clients(share) == {("10.0.0.9", "rw")}

    def test_very_many_rules_are_all_set(self, harness, driver, share):
        numbers = range(harness.very_many)
        wanted = {(f"10.{n // 250}.0.{n % 250 + 1}", "rw" if n % 2 else harness.weaker) for n in numbers}
        assert driver.set_access(share, harness.rules(*(f"{to} {level}" for to, level in wanted))) == {}
        assert harness.clients(share) == wanted

    def test_access_to_a_share_that_is_not_there_says_so(self, harness, driver):
        gone(driver.set_access, harness.instance(), [])

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
        driver.set_access(share, harness.rules(f"10.0.0.7 {harness.weaker}"))
        harness.start().start()
        assert harness.read(share) == "kept"
        assert harness.clients(share) == {("10.0.0.7", harness.weaker)}

    def test_shares_come_and_go_in_many_threads_at_once(self, harness, driver, share):
        def life(number):
            instance = harness.instance()
            driver.create(instance)
            driver.set_access(instance, harness.rules(f"10.3.0.{number} rw"))
            seen = harness.clients(instance)
            driver.delete(instance)
            return seen

        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            seen = list(threads.map(life, range(1, harness.come_and_go + 1)))
        assert seen == [{(f"10.3.0.{number}", "rw")} for number in range(1, harness.come_and_go + 1)]
        assert share.id in harness.held()


class TestMountPointNames:
    announced = "mount_point_name_support"

    def test_a_mount_point_name_is_what_clients_mount(self, harness, driver):
        instance = harness.instance(mount_point_name="accounts_2026")
        exports = twice(driver.create, instance).exports
        assert all(export.path.endswith("/accounts_2026") for export in exports)
        assert instance.id in harness.held()
        driver.delete(instance)


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
            gone(resize, harness.instance(), 2)


class TestManages:
    capability = contract.Manages

    def test_a_share_is_given_up_and_taken_over_with_its_content(self, harness, driver):
        old = harness.instance(size_gib=3)
        exports = driver.create(old).exports
        harness.write(old, "text")
        twice(driver.unmanage, old)
        assert old.id not in harness.held()
        new = harness.instance(exports=exports, size_gib=0)
        managed = twice(driver.manage, new, {})
        assert (managed.size_gib, bool(managed.exports), harness.read(new)) == (3, True, "text")
        assert harness.size_gib(new) == 3
        driver.delete(new)

    def test_nothing_is_taken_over_where_nothing_is(self, harness, driver):
        place = contract.Export(path=f"127.0.0.1:/dummy/{fresh_id()}")
        gone(driver.manage, harness.instance(exports=[place]), {})


class TestMeasuresUsage:
    capability = contract.MeasuresUsage

    def test_what_is_used_is_measured_and_what_is_not_there_left_out(self, harness, driver):
        share = harness.share(size_gib=2)
        harness.fill(share, 1)
        harness.settle()
        seen = driver.measure_usage([share, harness.instance()])
        assert set(seen) == {share.id}
        assert seen[share.id].used_gib == pytest.approx(1, abs=0.05)


class TestAcceptsTransfers:
    capability = contract.AcceptsTransfers

    def test_a_share_passes_to_another_project(self, harness, driver):
        share = harness.share("text")
        twice(driver.accept_transfer, share, "other")
        assert harness.project_id(share) == "other"
        assert harness.read(share) == "text"

    def test_what_is_gone_passes_to_nobody(self, harness, driver):
        gone(driver.accept_transfer, harness.instance(), "other")


class TestUpdatesMetadata:
    capability = contract.UpdatesMetadata

    def test_the_metadata_given_is_the_whole_set(self, harness, driver, share):
        twice(driver.update_metadata, share, {"tier": "gold", "place": "here"})
        assert harness.metadata(share) == {"tier": "gold", "place": "here"}
        twice(driver.update_metadata, share, {"tier": "silver"})
        assert harness.metadata(share) == {"tier": "silver"}

    def test_what_is_gone_has_no_metadata(self, harness, driver):
        gone(driver.update_metadata, harness.instance(), {})
