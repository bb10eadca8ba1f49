# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""While nodes of a cluster do not answer, the GlusterFS driver goes on without them where it can, and names them."""

import re

import pytest

from abaca.drivers import contract
from tests.conftest import wait_until
from tests.drivers.contract.calls import settled
from tests.drivers.test_glusterfs import rig, shared, volumes_of  # noqa: F401 (fixtures)
from tests.drivers.test_glusterfs_under_way import begun, killed, under_way

AWAY = "127.0.7.3"
TWO_COPIES = {"glusterfs:durability": "replica 2"}


@pytest.fixture
def heketi(rig):
    return rig.bed.heketi


@pytest.fixture
def lost(rig):
    """A worker that finds one of the three nodes away."""
    rig.bed.nodes.kill(AWAY)
    yield rig.start()
    if not rig.bed.nodes.is_up(AWAY):
        rig.bed.nodes.revive(AWAY)


def is_back(rig):
    rig.bed.nodes.revive(AWAY)


def named(call, *arguments):
    """The call is worth another try, since the node is away."""
    with pytest.raises(contract.Unreachable, match=AWAY) as raised:
        call(*arguments)
    return raised.value.message


def cleanings(heketi):
    return heketi.requests.count("POST /operations/pending/cleanup")


def test_a_share_is_made_on_the_nodes_that_are_there(rig, lost):
    share = rig.instance(extra_specs=TWO_COPIES)
    assert settled(lost.create, share).exports
    settled(lost.delete, share)


def test_a_share_for_which_too_few_nodes_are_there_is_begun_when_they_are_back(rig, heketi, lost):
    share = rig.instance()
    named(lost.create, share)
    assert volumes_of(rig, share) == []
    is_back(rig)
    wait_until(lambda: _ends_well(lost.create, share), 60.0)
    settled(lost.delete, share)


def test_a_share_whose_brick_came_to_a_node_without_a_certificate_is_not_handed_out(rig, heketi, lost):
    """Heketi may log in to a node that this worker cannot."""
    one = next(iter(heketi.nodes.values()))
    one["state"] = "offline"
    share = rig.instance(extra_specs=TWO_COPIES)
    try:
        named(settled, lost.create, share)
    finally:
        one["state"] = "online"
    assert len(volumes_of(rig, share)) == 1
    is_back(rig)
    settled(lost.create, share)
    settled(lost.delete, share)


def test_who_waits_for_heketi_is_told_which_node_is_away(rig, heketi, lost):
    share = rig.instance(extra_specs=TWO_COPIES)
    told = begun(heketi, lost.create, share)
    assert (AWAY in told.message, "127.0.7.2" in told.message) == (True, False)
    heketi.release()
    settled(lost.create, share)
    settled(lost.delete, share)


@pytest.mark.parametrize(
    "said",
    [
        "wait: remote command exited without exit status or exit signal",
        "dial tcp 10.78.1.13:22: connect: no route to host",
        "Unable to find space: all hosts failed",
        "volume create: failed: Host 10.78.1.13 is not in 'Peer in Cluster' state",
    ],
)
def test_what_heketi_gave_up_because_a_node_went_away_is_tried_again(rig, heketi, lost, said):
    share = rig.instance(extra_specs=TWO_COPIES)
    heketi.fails["create-volume"] = said
    assert said in named(lost.create, share)
    heketi.fails.clear()
    settled(lost.create, share)
    settled(lost.delete, share)


@pytest.mark.parametrize(
    "said",
    [
        "volume delete: failed: Some of the peers are down",
        "wait: remote command exited without exit status or exit signal",
        "dial tcp 10.78.1.13:22: connect: no route to host",
        "EOF",
        "ssh: handshake failed: EOF",
        "ssh: handshake failed: read tcp 10.78.1.1:4242->10.78.1.13:22: read: connection reset by peer",
        "ssh: unexpected packet in response to channel open: <nil>",
        "ssh: disconnect, reason 11: shut down",
    ],
)
def test_what_could_not_be_done_for_now_is_tried_again_with_all_nodes_there(rig, heketi, said):
    driver = rig.start()
    share = rig.share()
    heketi.fails["delete-volume"] = said
    with pytest.raises(contract.Unreachable, match=re.escape(said)):
        driver.delete(share)
    heketi.fails.clear()
    settled(driver.delete, share)
    assert (volumes_of(rig, share), heketi.works) == ([], {})


def test_what_failed_while_glusterd_hangs_on_a_node_names_the_node_and_is_tried_again(rig, heketi):
    driver = rig.start()
    share = rig.instance()
    heketi.fails["create-volume"] = "some words of gluster"
    rig.bed.nodes.hanging.add(AWAY)
    try:
        assert "its glusterd does not answer" in named(driver.create, share)
    finally:
        rig.bed.nodes.hanging.clear()
    heketi.fails.clear()
    settled(driver.create, share)
    settled(driver.delete, share)


def test_a_node_that_refuses_the_key_of_heketi_is_told_at_once(rig, heketi):
    driver = rig.start()
    share = rig.share()
    heketi.fails["delete-volume"] = "ssh: handshake failed: ssh: unable to authenticate, no methods remain"
    with pytest.raises(contract.Refused, match="unable to authenticate"):
        driver.delete(share)
    heketi.fails.clear()
    settled(driver.delete, share)


def test_what_heketi_cannot_take_away_without_a_node_ends_and_names_the_node(rig, heketi, lost):
    share = rig.instance(extra_specs=TWO_COPIES)
    begun(heketi, lost.create, share)
    killed(heketi)
    heketi.cleans_in_vain = True
    under_way(lost.delete, share)
    before = cleanings(heketi)
    for _ in range(3):
        assert "cannot take away" in named(lost.delete, share)
    assert cleanings(heketi) == before
    heketi.cleans_in_vain = False
    is_back(rig)
    wait_until(lambda: _ends_well(lost.delete, share), 60.0)
    assert (volumes_of(rig, share), heketi.works) == ([], {})


def test_a_share_whose_growing_heketi_cannot_take_back_without_a_node_names_it(rig, heketi):
    share = rig.share()
    begun(heketi, rig.driver.extend, share, 9)
    killed(heketi)
    heketi.cleans_in_vain = True
    rig.bed.nodes.kill(AWAY)
    driver = rig.start()
    try:
        under_way(driver.delete, share)
        assert "cannot take away" in named(driver.delete, share)
    finally:
        is_back(rig)
    heketi.cleans_in_vain = False
    wait_until(lambda: _ends_well(driver.delete, share), 60.0)
    assert (volumes_of(rig, share), heketi.works) == ([], {})


def test_a_deletion_that_failed_while_a_node_is_away_is_tried_again(rig, heketi, lost):
    share = rig.share(extra_specs=TWO_COPIES)
    heketi.fails["delete-volume"] = "volume delete: failed: Operation not permitted"
    assert "not permitted" in named(lost.delete, share)
    heketi.fails.clear()
    settled(lost.delete, share)
    assert (volumes_of(rig, share), heketi.works) == ([], {})


@pytest.fixture
def lost_for_good(heketi, lost):
    """A worker that finds one of the nodes away, which Heketi has as failed, and keeps in its list with its devices."""
    (gone,) = (node for node in heketi.nodes.values() if node["hostnames"]["manage"] == [AWAY])
    (device,) = gone["devices"]
    device["state"] = "failed"
    yield lost
    device["state"] = "online"


def test_a_node_that_is_lost_for_good_is_in_nobodys_way(rig, heketi, lost_for_good):
    share = rig.instance(extra_specs=TWO_COPIES)
    assert AWAY not in begun(heketi, lost_for_good.create, share).message
    heketi.release()
    settled(lost_for_good.create, share)
    settled(lost_for_good.extend, share, 9)
    assert any("127.0.7.1" in line for line in lost_for_good.renew(restarts=True))
    settled(lost_for_good.delete, share)


def test_what_heketi_cannot_take_away_from_a_node_that_is_lost_for_good_can_be_let_go_of(rig, heketi, lost_for_good):
    share = rig.instance(extra_specs=TWO_COPIES)
    begun(heketi, lost_for_good.create, share)
    killed(heketi)
    heketi.cleans_in_vain = True
    for _ in range(2):  # it is told each time: it may have failed for another reason
        before = cleanings(heketi)
        under_way(lost_for_good.delete, share)
        assert cleanings(heketi) == before + 1
        assert "share abandon" in named(lost_for_good.delete, share)
    lost_for_good.unmanage(share)
    heketi.cleans_in_vain = False
    settled(lost_for_good.delete, share)
    assert (volumes_of(rig, share), heketi.works) == ([], {})


def test_a_node_that_was_away_is_asked_last_until_it_answers(rig):
    driver = rig.start()
    share = rig.share()
    first, _ = rig.bed.nodes.spoken[-1]
    others = [host for host in rig.bed.nodes.hosts if host != first]
    rig.bed.nodes.kill(first)
    settled(driver.set_access, share, ())
    assert driver.machines.answering_first([first, *others]) == [*others, first]
    rig.bed.nodes.revive(first)
    driver.machines.run(first, ["true"])
    assert driver.machines.answering_first([first, *others]) == [first, *others]
    settled(driver.delete, share)


def test_each_node_speaks_for_its_part_of_the_volumes(rig):
    """One glusterd does one thing at a time."""
    driver, nodes = rig.start(), rig.bed.nodes
    shares, spoke = [], set()
    while spoke != set(nodes.hosts):
        nodes.spoken.clear()
        shares.append(rig.share())
        driver.set_access(shares[-1], ())
        (speaker,) = {host for host, words in nodes.spoken if f"abaca_{shares[-1].id}" in words}
        spoke.add(speaker)
        assert len(shares) < 60
    for share in shares:
        settled(driver.delete, share)


def _ends_well(call, *arguments):
    """The call ends, now that the node is back; it believes for some seconds that the node is away."""
    try:
        call(*arguments)
    except (contract.UnderWay, contract.Unreachable):
        return False
    return True
