# SPDX-License-Identifier: Apache-2.0
"""What drivers promise of share groups."""

import pytest

from abaca.drivers import contract
from tests.drivers.contract.calls import gone, twice
from tests.drivers.harness import fresh_id, snapshot


def group_of(*instances):
    return contract.ShareGroup(id=fresh_id(), project_id="p", instances=instances)


class TestGroups:
    capability = contract.Groups

    def test_a_group_is_made_once_and_deleted(self, harness, driver):
        group = group_of()
        assert group.id not in harness.groups()
        twice(driver.create_group, group)
        assert group.id in harness.groups()
        twice(driver.delete_group, group)
        assert group.id not in harness.groups()

    def test_a_group_that_holds_shares_is_not_deleted(self, harness, driver, share):
        group = group_of(share)
        driver.create_group(group)
        with pytest.raises(contract.Refused):
            driver.delete_group(group)
        assert group.id in harness.groups()
        driver.delete_group(contract.ShareGroup(id=group.id, project_id="p"))


class TestSnapshotsGroups:
    capability = contract.SnapshotsGroups

    def test_a_group_snapshot_is_taken_of_all_its_shares_and_deleted(self, harness, driver):
        taken = [snapshot(harness.share("one")), snapshot(harness.share("two"))]
        whole = contract.GroupSnapshot(id=fresh_id(), group_id=fresh_id(), snapshots=taken)
        assert set(twice(driver.create_group_snapshot, whole)) == {one.id for one in taken}
        assert {one.id for one in taken} <= harness.snapshots()
        twice(driver.delete_group_snapshot, whole)
        assert harness.snapshots() & {one.id for one in taken} == set()

    def test_a_group_starts_with_the_content_of_a_group_snapshot(self, harness, driver):
        source = harness.share("text")
        taken = snapshot(source)
        whole = contract.GroupSnapshot(id=fresh_id(), group_id=fresh_id(), snapshots=[taken])
        driver.create_group_snapshot(whole)
        harness.write(source, "later")
        copy = harness.instance()
        group = group_of(copy)
        made = twice(driver.create_group_from_snapshot, group, whole, {copy.id: taken.id})
        assert (bool(made[copy.id].exports), harness.read(copy)) == (True, "text")
        assert group.id in harness.groups()
        driver.delete_group_snapshot(whole)
        driver.delete(copy)
        gone(driver.create_group_from_snapshot, group, whole, {copy.id: taken.id})
