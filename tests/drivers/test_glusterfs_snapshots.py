# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""Snapshots of the GlusterFS driver: where there is room for them, and what becomes of a share that has some."""

import pytest

from abaca.drivers import contract, load
from tests.drivers.contract.calls import settled
from tests.drivers.harness import snapshot
from tests.drivers.test_glusterfs import certs, rig, shared, volumes_of  # noqa: F401 (fixtures)
from tests.drivers.test_glusterfs_under_way import begun, killed


@pytest.fixture
def share(rig):
    """A share that somebody is let into; nothing of it is left, and of its snapshots, after the test."""
    made = rig.share("text")
    rig.driver.set_access(made, certs("alice"))
    yield made
    rig.bed.gluster.snapshots.clear()
    rig.driver.delete(made)


def taken_of(rig, share):
    taken = snapshot(share)
    rig.driver.create_snapshot(taken)
    return taken


def test_a_snapshot_that_is_told_twice_since_the_connection_broke_is_taken_once(rig, share):
    held, other = rig.driver.held(share), rig.share()
    held.gluster.take_snapshot("abaca_snapshot_twice", held.name)
    held.gluster.take_snapshot("abaca_snapshot_twice", held.name)
    with pytest.raises(contract.Refused, match="already exists"):
        held.gluster.take_snapshot("abaca_snapshot_twice", f"abaca_{other.id}")
    held.gluster.drop_snapshot("abaca_snapshot_twice")
    rig.driver.delete(other)


def volume_of(rig, share):
    return rig.bed.gluster.volumes[f"abaca_{share.id}"]


def let_in(rig, share):
    allowed = volume_of(rig, share).options["auth.ssl-allow"].split(",")
    return {name for name in allowed if not name.startswith("abaca-node-")}


@pytest.mark.parametrize(("most", "is_announced"), [("0", False), ("1", True)])
def test_snapshots_are_announced_where_volumes_are_made_with_room_for_them(rig, most, is_announced):
    announced = load.capabilities(rig.build(snapshots_per_share=most))
    assert announced["snapshot_support"] is is_announced
    assert announced["create_share_from_snapshot_support"] is is_announced
    assert announced["revert_to_snapshot_support"] is is_announced


def test_a_share_has_no_more_snapshots_than_its_pools_hold_when_all_is_written_over(rig, share):
    (volume,) = volumes_of(rig, share)
    assert volume["snapshot"] == {"enable": True, "factor": 3}
    taken = [taken_of(rig, share) for _ in range(2)]
    with pytest.raises(contract.Full, match="room for 2 snapshots, and has 2"):
        taken_of(rig, share)
    rig.driver.delete_snapshot(taken[0])
    again = taken_of(rig, share)
    assert rig.snapshots() == {taken[1].id, again.id}


def test_a_volume_that_was_made_without_room_has_no_snapshots(rig):
    driver = rig.start(snapshots_per_share="0")
    share = rig.share("text")
    driver = rig.start()
    with pytest.raises(contract.Refused, match="without room for snapshots: shares that are made once"):
        driver.create_snapshot(snapshot(share))
    assert rig.snapshots() == set()
    driver.delete(share)


def test_bricks_that_are_not_thin_are_told(rig, share):
    rig.bed.gluster.is_thin = False
    try:
        with pytest.raises(contract.Refused, match=r"Ensure that all bricks of .* are thinly provisioned"):
            taken_of(rig, share)
    finally:
        rig.bed.gluster.is_thin = True
    assert rig.snapshots() == set()


def test_a_snapshot_that_gluster_ended_after_its_worker_was_killed_is_found(rig, share):
    taken = snapshot(share)
    rig.bed.gluster.run(["snapshot", "create", f"abaca_snapshot_{taken.id}", f"abaca_{share.id}", "no-timestamp"])
    rig.start().create_snapshot(taken)
    assert rig.snapshots() == {taken.id}


@pytest.mark.parametrize("cut_off", ["nothing", "set", "stop"])
def test_a_share_with_snapshots_that_is_deleted_is_out_of_reach_and_goes_with_the_last_of_them(rig, share, cut_off):
    first, last = taken_of(rig, share), taken_of(rig, share)
    if cut_off != "nothing":
        rig.bed.gluster.refuses[cut_off] = "Connection failed. Please check if gluster daemon is operational."
        with pytest.raises(contract.Unreachable):
            rig.driver.delete(share)
        rig.bed.gluster.refuses.clear()
    driver = rig.start()
    driver.delete(share)
    driver.delete(share)
    assert share.id not in rig.held()
    assert (let_in(rig, share), volume_of(rig, share).is_started) == (set(), False)
    with pytest.raises(contract.Gone):
        driver.set_access(share, certs("alice"))
    with pytest.raises(contract.Gone):
        driver.create_snapshot(snapshot(share))
    driver.delete_snapshot(first)
    assert len(volumes_of(rig, share)) == 1
    settled(driver.delete_snapshot, last)
    settled(driver.delete_snapshot, last)
    assert (volumes_of(rig, share), rig.snapshots()) == ([], set())


@pytest.mark.parametrize("is_killed", [False, True])
def test_the_last_snapshot_of_a_deleted_share_goes_while_heketi_takes_long_or_is_killed(rig, share, is_killed):
    taken = taken_of(rig, share)
    rig.driver.delete(share)
    begun(rig.bed.heketi, rig.driver.delete_snapshot, taken)
    driver = rig.start()
    if is_killed:
        killed(rig.bed.heketi)
    else:
        rig.bed.heketi.release()
    settled(driver.delete_snapshot, taken)
    assert (volumes_of(rig, share), rig.bed.heketi.works, rig.snapshots()) == ([], {}, set())


def test_a_share_whose_volume_somebody_else_took_a_snapshot_of_is_not_touched(rig, share):
    rig.bed.gluster.snapshots["midnight"] = f"abaca_{share.id}"
    with pytest.raises(contract.Refused, match=r"somebody took snapshots of .*: midnight"):
        rig.driver.delete(share)
    assert (rig.read(share), let_in(rig, share), volume_of(rig, share).is_started) == ("text", {"alice"}, True)


def test_the_snapshot_of_a_volume_that_is_gone_is_deleted_already(rig, share):
    taken = taken_of(rig, share)
    rig.bed.gluster.snapshots.clear()
    rig.driver.delete(share)
    settled(rig.driver.delete_snapshot, taken)
    assert volumes_of(rig, share) == []


def test_a_snapshot_is_neither_taken_nor_deleted_while_gluster_is_busy(rig, share):
    taken = taken_of(rig, share)
    for verb, call in (("create", rig.driver.create_snapshot), ("delete", rig.driver.delete_snapshot)):
        rig.bed.gluster.refuses[verb] = "Another transaction is in progress for v. Please try again after some time."
        with pytest.raises(contract.Busy):
            call(snapshot(share) if verb == "create" else taken)
    rig.bed.gluster.refuses.clear()
    assert rig.snapshots() == {taken.id}
