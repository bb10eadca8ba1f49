# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""Shares of the GlusterFS driver go back to a snapshot: who reaches them meanwhile, and what if somebody dies."""

import os
import shutil
import signal

import pytest

from abaca.drivers import contract
from lab import processes
from tests.conftest import wait_until
from tests.drivers.contract.calls import gone, settled
from tests.drivers.test_glusterfs import certs, rig, shared, volumes_of  # noqa: F401 (fixtures)
from tests.drivers.test_glusterfs_copying import copying_in, go_on, host_of, loses, nodes, pid_in  # noqa: F401 (fixtures)
from tests.drivers.test_glusterfs_snapshots import let_in, share, taken_of, volume_of  # noqa: F401 (fixtures)
from tests.drivers.test_glusterfs_under_way import under_way

GIB = 1 << 30


@pytest.fixture
def revert(rig, share, nodes):
    """A share that said `text` when its snapshot was taken, and says more by now; nothing of it is left afterwards."""
    taken = taken_of(rig, share)
    rig.write(share, "later")
    yield contract.Revert(snapshot=taken, rules=certs("alice"))
    go_on(rig)
    nodes.programs.fails.clear()
    settled(rig.driver.delete, share)
    settled(rig.driver.delete_snapshot, taken)
    assert (volumes_of(rig, share), nodes.copies()) == ([], [])


def held_up(rig, revert):
    """It is under way, and its copy waits in the middle; the directory of that on its node."""
    rig.bed.nodes.programs.copies.clear()
    rig.driver.start_revert(revert)
    under_way(rig.driver.end_revert, revert)
    return wait_until(lambda: copying_in(rig))


def ended(rig, revert):
    """It has ended well."""
    go_on(rig)
    settled(rig.driver.end_revert, revert)
    share = revert.snapshot.instance
    assert (rig.read(share), let_in(rig, share), rig.size_gib(share)) == ("text", {"alice"}, 1)
    assert (rig.bed.nodes.copies(), rig.snapshots()) == ([], {revert.snapshot.id})


def test_a_share_that_goes_back_is_reached_by_nobody_whose_bricks_were_started_since(rig, revert):
    rig.bed.gluster.commands.clear()
    held_up(rig, revert)
    share = revert.snapshot.instance
    words = [
        said[2:] for said in rig.bed.gluster.commands if said[1] == "volume" and said[2] in {"set", "stop", "start"}
    ]
    order = [" ".join(one) for one in words if one[2:3] != ["user.abaca.copy"]]
    closed = next(n for n, one in enumerate(order) if "auth.ssl-allow" in one)
    assert "alice" not in order[closed]
    assert order[closed + 1 : closed + 3] == [f"stop abaca_{share.id} force", f"start abaca_{share.id} force"]
    assert (let_in(rig, share), volume_of(rig, share).is_open) == (set(), False)
    assert rig.size_gib(share) == 4  # what is deleted counts for a while
    assert "abaca_" in under_way(rig.start().end_revert, revert).message
    ended(rig, revert)


def test_what_was_made_since_the_snapshot_is_gone(rig, share, nodes):
    rig.write(share, "")
    taken = taken_of(rig, share)
    rig.write(share, "later")
    wish = contract.Revert(snapshot=taken)
    rig.driver.start_revert(wish)
    settled(rig.driver.end_revert, wish)
    assert rig.read(share) == ""
    rig.driver.delete_snapshot(taken)


def test_a_share_can_go_back_to_the_same_snapshot_again(rig, revert):
    for _ in range(2):
        rig.driver.start_revert(revert)
        ended(rig, revert)
        rig.write(revert.snapshot.instance, "later")


def test_an_end_that_is_asked_for_again_leaves_what_users_have_written_since(rig, revert):
    rig.driver.start_revert(revert)
    ended(rig, revert)
    rig.write(revert.snapshot.instance, "own")
    rig.start().end_revert(revert)
    assert rig.read(revert.snapshot.instance) == "own"


@pytest.mark.parametrize("what", ["all of it", "what copies", "its node"])
def test_whatever_of_it_is_killed_it_begins_anew(rig, revert, nodes, what):
    place = held_up(rig, revert)
    pid = pid_in(place)
    if what == "what copies":
        for child in processes.children(pid):
            os.kill(child, signal.SIGKILL)
    else:
        os.killpg(pid, signal.SIGKILL)
    if what == "its node":
        nodes.programs.mounts.clear()
        shutil.rmtree(place.parent)
    ended(rig, revert)


def test_its_worker_is_killed_and_another_ends_it(rig, revert, nodes):
    held_up(rig, revert)
    before = len(nodes.scripts)
    under_way(rig.start().end_revert, revert)
    ended(rig, revert)
    assert not [words for _, words in nodes.scripts[before:] if any("setsid" in word for word in words)]


def test_its_node_is_away_and_it_waits(rig, revert, nodes):
    host = host_of(held_up(rig, revert))
    nodes.kill(host)
    try:
        with pytest.raises(contract.Unreachable):
            rig.driver.end_revert(revert)
    finally:
        nodes.revive(host)
    ended(rig, revert)


def test_its_node_is_lost_for_good_and_another_ends_it(rig, revert, loses):
    place = held_up(rig, revert)
    loses(host_of(place))
    under_way(rig.driver.end_revert, revert)
    go_on(rig)
    wait_until((place.parent / "status").exists)
    shutil.rmtree(place.parent)
    ended(rig, revert)


def test_a_node_that_is_lost_for_good_is_not_chosen(rig, revert, loses):
    host = host_of(held_up(rig, revert))
    with pytest.raises(contract.Refused, match="is lost"):
        rig.driver.cancel_revert(revert)
    loses(host)
    rig.driver.start_revert(revert)
    ended(rig, revert)


@pytest.mark.parametrize("verb", ["set", "stop", "start", "quota"])
def test_gluster_refuses_to_close_it_and_it_stays_as_it_was(rig, revert, verb):
    rig.driver.start_revert(revert)
    rig.bed.gluster.refuses[verb] = "Oops"
    with pytest.raises(contract.Refused, match="Oops"):
        rig.driver.end_revert(revert)
    rig.bed.gluster.refuses.clear()
    for _ in range(2):
        rig.start().cancel_revert(revert)
    share = revert.snapshot.instance
    assert (rig.read(share), let_in(rig, share), rig.size_gib(share)) == ("later", {"alice"}, 1)
    assert (volume_of(rig, share).is_started, rig.bed.nodes.copies()) == (True, [])


@pytest.mark.parametrize("cut_off", ["set", "stop", "start", "quota"])
def test_a_worker_dies_while_it_closes_it_and_another_goes_on(rig, revert, cut_off):
    rig.driver.start_revert(revert)
    rig.bed.gluster.refuses[cut_off] = "Another transaction is in progress for v. Please try again after some time."
    with pytest.raises(contract.Busy):
        rig.driver.end_revert(revert)
    rig.bed.gluster.refuses.clear()
    rig.start()
    ended(rig, revert)


def test_taken_back_in_the_middle_it_tells_that_nothing_else_is_left_and_can_go_back_again(rig, revert, nodes):
    held_up(rig, revert)
    for _ in range(2):
        with pytest.raises(contract.Refused, match=r"what .* held before is lost"):
            rig.start().cancel_revert(revert)
    share = revert.snapshot.instance
    assert (let_in(rig, share), rig.size_gib(share), nodes.copies()) == ({"alice"}, 1, [])
    rig.driver.start_revert(revert)
    ended(rig, revert)


@pytest.mark.parametrize(("said", "error"), [("Disk quota exceeded", contract.Full), ("Oops", contract.Refused)])
def test_a_copy_that_fails_is_told_and_may_be_tried_again(rig, revert, nodes, said, error):
    nodes.programs.fails["cp"] = f"cp: error writing 'to/file': {said}"
    rig.driver.start_revert(revert)
    with pytest.raises(error, match=said):
        settled(rig.driver.end_revert, revert)
    with pytest.raises(contract.Refused):
        rig.driver.cancel_revert(revert)
    nodes.programs.fails.clear()
    rig.driver.start_revert(revert)
    ended(rig, revert)


def test_what_a_dead_worker_had_told_a_node_comes_too_late(rig, revert, nodes):
    """The node gets the order to empty the share when users have written to it already."""
    before = len(nodes.scripts)
    rig.driver.start_revert(revert)
    ended(rig, revert)
    rig.write(revert.snapshot.instance, "own")
    late, *_ = [one for one in nodes.scripts[before:] if any("setsid" in word for word in one[1])]
    assert nodes.run(*late).returncode == 0
    wait_until(lambda: nodes.copies() == [])
    assert rig.read(revert.snapshot.instance) == "own"


def test_a_share_that_is_deleted_meanwhile_leaves_nothing(rig, revert, nodes):
    pid = pid_in(held_up(rig, revert))
    share = revert.snapshot.instance
    rig.start().delete(share)
    wait_until(lambda: not processes.alive(pid))
    assert (nodes.copies(), let_in(rig, share), volume_of(rig, share).is_started) == ([], set(), False)
    gone(rig.driver.end_revert, revert)


def test_nobody_is_let_in_again_who_looks_at_it_meanwhile(rig, revert):
    held_up(rig, revert)
    share = rig.known(revert.snapshot.instance, rules=certs("alice"), is_held=False)
    assert (rig.driver.inspect([share]), rig.driver.ensure([share])) == ({}, {})
    assert (let_in(rig, share), rig.size_gib(share)) == (set(), 4)
