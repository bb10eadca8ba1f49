# SPDX-License-Identifier: Apache-2.0
"""The pools of the GlusterFS driver: what they tell, and what telling it costs."""

import pytest

from abaca.drivers import contract
from tests.drivers.contract.calls import settled
from tests.drivers.harness import GlusterfsHarness


@pytest.fixture(scope="module")
def rig():
    made = GlusterfsHarness()
    made.start()
    yield made
    made.close()


@pytest.fixture
def driver(rig):
    """One that has told nothing yet."""
    return rig.start()


@pytest.mark.parametrize(
    ("options", "total_gib"),
    [
        ({"snapshots_per_share": "0"}, 475.0),
        ({"snapshots_per_share": "1"}, 237.5),
        ({"snapshots_per_share": "0", "durability": "none", "reserve_percent": "0"}, 1500.0),
    ],
)
def test_pools_are_told_without_the_reserve_and_for_copies_and_snapshots(rig, driver, options, total_gib):
    told = rig.build(**options, clusters=f"gold:{rig.bed.cluster}")
    told.start()
    (pool,) = told.pools()
    assert (pool.name, pool.total_gib) == ("gold", total_gib)
    told.stop()
    assert [pool.name for pool in driver.pools()] == [rig.bed.cluster]


def test_a_pool_tells_of_its_devices_and_which_of_them_serve(rig, driver):
    lost, *others = rig.bed.heketi.nodes.values()
    lost["state"] = "offline"
    try:
        (pool,) = driver.pools()
    finally:
        lost["state"] = "online"
    told = {one["node"]: one for one in pool.capabilities[contract.DEVICES]}
    host = lost["hostnames"]["manage"][0]
    assert told[host] | {"free_gib": 0} == {
        "node": host,
        "device": "/dev/sdb",
        "total_gib": 500.0,
        "free_gib": 0,
        "is_online": False,
    }
    assert {one["is_online"] for one in told.values() if one["node"] != host} == {True}
    assert len(told) == len(others) + 1


def test_no_node_is_asked_for_its_bricks_as_long_as_nothing_changes(rig, driver):
    """Heketi tells all bricks with a node, which takes it a second where there are ten thousand."""

    def looked():
        rig.bed.heketi.requests.clear()
        (pool,) = driver.pools()
        return pool, sum(asked.startswith("GET /nodes/") for asked in rig.bed.heketi.requests)

    looked()
    before, nodes = looked()
    assert nodes == 0
    share = rig.share(size_gib=2)
    assert looked()[1] > 0
    settled(driver.extend, share, 5)
    grown, nodes = looked()
    assert (grown.allocated_gib, nodes > 0) == (before.allocated_gib + 5, True)
    settled(driver.delete, share)
    assert looked()[0] == before
    assert looked()[1] == 0


def test_what_somebody_else_makes_shows_in_the_pools_at_once(rig, driver):
    (before,) = driver.pools()
    others = rig.build()
    others.start()
    share = rig.instance(size_gib=3)
    settled(others.create, share)
    (pool,) = driver.pools()
    assert pool.allocated_gib == before.allocated_gib + 3
    settled(others.delete, share)
    others.stop()
    assert driver.pools() == [before]


def test_what_somebody_takes_out_of_service_shows_in_the_pools_after_a_while(rig, driver):
    (before,) = driver.pools()
    one, *_ = rig.bed.heketi.nodes.values()
    one["state"] = "offline"
    try:
        assert driver.pools() == [before]
        driver.believed_s = 0.0
        (pool,) = driver.pools()
        assert pool.total_gib < before.total_gib
    finally:
        one["state"] = "online"


def test_what_pools_cost_does_not_grow_with_the_volumes(rig, driver):
    counts, shares = [], []
    for more in (1, 2):
        shares += [rig.share() for _ in range(more)]
        driver.pools()
        rig.bed.heketi.requests.clear()
        driver.pools()
        counts.append(len(rig.bed.heketi.requests))
    assert counts[0] == counts[1]
    for share in shares:
        driver.delete(share)
