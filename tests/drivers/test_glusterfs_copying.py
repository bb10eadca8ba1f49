# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""Shares from snapshots of the GlusterFS driver: a node copies, and whoever dies meanwhile, nothing is left of that."""

import contextlib
import os
import shutil
import signal

import pytest

from abaca.drivers import contract
from lab import processes
from tests.conftest import wait_until
from tests.drivers.contract.calls import gone, run, settled
from tests.drivers.test_glusterfs import certs, rig, shared, volumes_of  # noqa: F401 (fixtures)
from tests.drivers.test_glusterfs_snapshots import let_in, share, taken_of, volume_of  # noqa: F401 (fixtures)
from tests.drivers.test_glusterfs_under_way import begun, killed


@pytest.fixture
def nodes(rig):
    nodes = rig.bed.nodes
    yield nodes
    nodes.programs.fails.clear()
    nodes.programs.copies.set()


@pytest.fixture
def clone(rig, share, nodes):
    """A share that is wanted, of a snapshot that says `text`; afterwards nothing of it is left anywhere."""
    wanted = contract.Clone(instance=rig.instance(size_gib=2), snapshot=taken_of(rig, share))
    rig.write(share, "later")
    yield wanted
    settled(rig.driver.delete, wanted.instance)
    assert (volumes_of(rig, wanted.instance), nodes.copies()) == ([], [])


def held_up(rig, clone):
    """The clone is begun, and its copy waits in the middle; the directory of that on its node."""
    rig.bed.nodes.programs.copies.clear()
    rig.driver.start_clone(clone)
    return wait_until(lambda: copying_in(rig))


def copying_in(rig):
    return next(
        (path for host in rig.bed.nodes.hosts for path in rig.bed.nodes.run_directory(host).glob("*/*ing")), None
    )


def go_on(rig):
    rig.bed.nodes.programs.copies.set()


def done(rig, clone):
    """Whether it is, by a look."""
    return rig.driver.look_at_clone(clone).is_done


SLOW_FLOCK = """#!/bin/sh
if [ "$*" = "-n lock true" ]; then
    until [ -e status ]; do /bin/sleep 0.02; done
    shift
fi
exec {flock} "$@"
"""


def pid_in(place):
    return int((place.parent / "pid").read_text())


def host_of(place):
    return place.parents[2].name


def test_a_share_that_gets_its_content_is_sealed_and_nobody_but_nodes_reaches_it(rig, clone):
    place = held_up(rig, clone)
    told = rig.driver.look_at_clone(clone)
    assert (told.is_done, clone.instance.id in told.details) == (False, True)
    with pytest.raises(contract.Busy, match="has not all of its content"):
        rig.driver.end_clone(clone)
    volume = volume_of(rig, clone.instance)
    assert {volume.options[f"{side}.ssl"] for side in ("client", "server")} == {"on"}
    assert (volume.is_open, let_in(rig, clone.instance)) == (False, set())
    pid = pid_in(place)
    go_on(rig)
    wait_until(lambda: done(rig, clone))
    assert rig.driver.end_clone(clone).exports
    assert (rig.read(clone.instance), let_in(rig, clone.instance)) == ("text", set())
    wait_until(lambda: not processes.alive(pid))
    assert rig.bed.nodes.copies() == []


def test_a_copy_that_ends_while_it_is_looked_at_is_not_begun_again(rig, clone, nodes):
    held_up(rig, clone)
    slow = nodes.programs.bin / "flock"
    slow.write_text(SLOW_FLOCK.format(flock=shutil.which("flock")))
    slow.chmod(0o755)
    begun_before = len(nodes.scripts)
    go_on(rig)
    try:
        assert done(rig, clone)
    finally:
        slow.unlink()
    assert not [words for _, words in nodes.scripts[begun_before:] if any("setsid" in word for word in words)]


@pytest.mark.parametrize("what", ["all of it", "what copies"])
def test_a_copy_that_is_killed_begins_anew(rig, clone, what):
    pid = pid_in(held_up(rig, clone))
    if what == "all of it":
        os.killpg(pid, signal.SIGKILL)
    else:
        for child in processes.children(pid):
            os.kill(child, signal.SIGKILL)
    go_on(rig)
    wait_until(lambda: done(rig, clone))
    assert rig.driver.end_clone(clone).exports
    assert rig.read(clone.instance) == "text"


def test_a_copy_whose_node_is_started_anew_begins_anew(rig, clone, nodes):
    place = held_up(rig, clone)
    os.killpg(pid_in(place), signal.SIGKILL)
    nodes.programs.mounts.clear()
    shutil.rmtree(place.parent)
    go_on(rig)
    wait_until(lambda: done(rig, clone))
    assert rig.read(clone.instance) == "text"


def test_a_copy_whose_worker_is_killed_goes_on_and_is_ended_by_another(rig, clone, nodes):
    held_up(rig, clone)
    begun_before = len(nodes.scripts)
    rig.start().start_clone(clone)
    go_on(rig)
    wait_until(lambda: done(rig, clone))
    assert rig.start().end_clone(clone).exports
    assert rig.read(clone.instance) == "text"
    assert not [words for _, words in nodes.scripts[begun_before:] if any("setsid" in word for word in words)]


@pytest.mark.parametrize("by", ["cancel_clone", "delete"])
def test_a_copy_that_is_cancelled_in_the_middle_leaves_nothing(rig, clone, nodes, by):
    pid = pid_in(held_up(rig, clone))
    driver = rig.start()
    settled(getattr(driver, by), clone if by == "cancel_clone" else clone.instance)
    wait_until(lambda: not processes.alive(pid))
    assert (volumes_of(rig, clone.instance), nodes.copies()) == ([], [])
    assert clone.snapshot.id in rig.snapshots()
    gone(driver.look_at_clone, clone)
    go_on(rig)


def test_a_copy_whose_node_is_away_waits_for_it(rig, clone, nodes):
    """Another node would copy beside it, and the first one over what users write later."""
    host = host_of(held_up(rig, clone))
    nodes.kill(host)
    try:
        for call in (rig.driver.look_at_clone, rig.driver.cancel_clone):
            with pytest.raises(contract.Unreachable):
                call(clone)
    finally:
        nodes.revive(host)
    assert len(volumes_of(rig, clone.instance)) == 1
    go_on(rig)
    wait_until(lambda: done(rig, clone))
    assert rig.read(clone.instance) == "text"


def test_a_copy_whose_node_has_left_the_cluster_begins_anew_on_another(rig, clone, nodes):
    place = held_up(rig, clone)
    host, cluster = host_of(place), rig.bed.heketi.clusters[rig.bed.cluster]
    id = next(id for id, node in rig.bed.heketi.nodes.items() if node["hostnames"]["manage"] == [host])
    cluster["nodes"].remove(id)
    try:
        assert rig.driver.look_at_clone(clone).percent == 0
        assert f"abaca-node-{id}" not in volume_of(rig, clone.instance).options["auth.ssl-allow"]
        go_on(rig)
        wait_until(lambda: done(rig, clone))
        assert rig.driver.end_clone(clone).exports
    finally:
        cluster["nodes"].append(id)
    assert rig.read(clone.instance) == "text"
    wait_until((place.parent / "status").exists)
    shutil.rmtree(place.parent)  # as on any machine that is not the back end's any more


@pytest.fixture
def loses(rig, nodes):
    """`loses(host)`: a worker that finds the node away, which Heketi has as failed and keeps in its list."""
    lost = {}

    def loses(host):
        (node,) = (one for one in rig.bed.heketi.nodes.values() if one["hostnames"]["manage"] == [host])
        (lost[host],) = node["devices"]
        lost[host]["state"] = "failed"
        nodes.kill(host)
        return rig.start()

    yield loses
    for host, device in lost.items():
        device["state"] = "online"
        nodes.revive(host)
    rig.start()


def test_a_copy_whose_node_is_lost_for_good_begins_anew_on_another(rig, clone, loses):
    place = held_up(rig, clone)
    driver = loses(host_of(place))
    assert driver.look_at_clone(clone).percent == 0
    go_on(rig)
    wait_until(lambda: done(rig, clone))
    assert driver.end_clone(clone).exports
    assert rig.read(clone.instance) == "text"
    wait_until((place.parent / "status").exists)
    shutil.rmtree(place.parent)


def test_a_copy_whose_node_is_lost_for_good_can_be_cancelled(rig, clone, loses):
    place = held_up(rig, clone)
    settled(loses(host_of(place)).cancel_clone, clone)
    assert volumes_of(rig, clone.instance) == []
    go_on(rig)
    wait_until((place.parent / "status").exists)
    shutil.rmtree(place.parent)


@pytest.mark.parametrize(("said", "error"), [("Disk quota exceeded", contract.Full), ("Oops", contract.Refused)])
def test_a_copy_that_fails_is_told_and_taken_back(rig, clone, nodes, said, error):
    nodes.programs.fails["cp"] = f"cp: error writing 'to/file': {said}"
    rig.driver.start_clone(clone)

    def failed():
        with contextlib.suppress(error):
            assert not done(rig, clone)
            return False
        return True

    wait_until(failed)
    with pytest.raises(error, match=said):
        rig.start().look_at_clone(clone)
    settled(rig.driver.cancel_clone, clone)
    assert (volumes_of(rig, clone.instance), nodes.copies()) == ([], [])
    nodes.programs.fails.clear()
    assert run(rig.driver, "clone", clone).exports


def test_a_node_that_the_snapshot_does_not_let_in_passes_the_copy_on(rig, clone, nodes):
    first = host_of(held_up(rig, clone))
    settled(rig.driver.cancel_clone, clone)
    go_on(rig)
    nodes.programs.fails[f"mount {first}"] = "Mount failed."
    assert run(rig.driver, "clone", clone).exports
    assert rig.read(clone.instance) == "text"


def test_a_snapshot_that_no_node_can_mount_is_tried_by_all_and_again_later(rig, clone, nodes):
    """After a power cut bricks may need minutes."""
    nodes.programs.fails["mount"] = "Mount failed."
    with pytest.raises(contract.Unreachable, match="cannot be mounted"):
        run(rig.driver, "clone", clone)
    tried = {
        host
        for host, words in nodes.scripts
        if any("setsid" in word for word in words) and f"abaca_{clone.instance.id}" in words
    }
    assert tried == set(nodes.hosts)
    nodes.programs.fails.clear()
    assert run(rig.driver, "clone", clone).exports
    assert rig.read(clone.instance) == "text"


def test_what_a_dead_worker_had_told_a_node_comes_too_late(rig, clone, nodes):
    """The node gets the order to copy when users have written to the share already."""
    before = len(nodes.scripts)
    assert run(rig.driver, "clone", clone).exports
    rig.write(clone.instance, "own")
    late, *_ = [one for one in nodes.scripts[before:] if any("setsid" in word for word in one[1])]
    assert nodes.run(*late).returncode == 0
    wait_until(lambda: nodes.copies() == [])
    assert rig.read(clone.instance) == "own"


def test_what_a_dead_worker_had_told_a_node_of_a_share_that_is_gone_is_left_undone(rig, clone, nodes):
    before = len(nodes.scripts)
    held_up(rig, clone)
    settled(rig.driver.cancel_clone, clone)
    late, *_ = [one for one in nodes.scripts[before:] if any("setsid" in word for word in one[1])]
    assert nodes.run(*late).returncode == 0
    wait_until(lambda: nodes.copies() == [])


def test_two_shares_can_start_from_one_snapshot(rig, clone):
    other = contract.Clone(instance=rig.instance(), snapshot=clone.snapshot)
    for one in (clone, other):
        assert run(rig.driver, "clone", one).exports
        assert rig.read(one.instance) == "text"
    rig.driver.delete(other.instance)


def test_a_share_can_start_from_a_snapshot_of_a_share_that_was_deleted(rig, share, clone):
    rig.driver.delete(share)
    assert run(rig.driver, "clone", clone).exports
    assert rig.read(clone.instance) == "text"
    settled(rig.driver.delete_snapshot, clone.snapshot)
    assert volumes_of(rig, share) == []


def test_a_snapshot_of_another_cluster_makes_no_share(rig, share, clone):
    other = rig.bed.heketi.stock([])
    try:
        driver = rig.start(clusters=f"gold:{rig.bed.cluster},silver:{other}")
        wanted = contract.Clone(instance=rig.instance(pool="silver"), snapshot=clone.snapshot)
        with pytest.raises(contract.Refused, match="in another cluster"):
            driver.start_clone(wanted)
    finally:
        del rig.bed.heketi.clusters[other]
        rig.start()


@pytest.mark.parametrize("ends", ["ended", "cancelled"])
def test_heketi_killed_while_it_makes_the_volume_of_a_clone(rig, clone, ends):
    begun(rig.bed.heketi, rig.driver.start_clone, clone)
    killed(rig.bed.heketi)
    driver = rig.start()
    if ends == "cancelled":
        settled(driver.cancel_clone, clone)
        assert (volumes_of(rig, clone.instance), rig.bed.heketi.works) == ([], {})
    settled(driver.start_clone, clone)
    assert run(driver, "clone", clone).exports
    assert len(volumes_of(rig, clone.instance)) == 1
