# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""Shares on a real GlusterFS of which a node loses its power while Heketi is at something, or has no room left.

Heketi hears of such a node minutes later, when its connection there has been silent for that long, or at once when the
node is back.
"""

import contextlib

import pytest

from abaca.drivers.clients import heketi
from lab import gluster_bed
from tests.conftest import wait_until
from tests.system.stranger import PLACE, SHOWN_S
from tests.system.test_glusterfs import (  # noqa: F401 (fixtures)
    abaca,
    allow,
    client,
    cloud,
    cluster,
    delete,
    location,
    made,
    messages,
    run,
    said,
    size_gib,
    thorough,
    wait_until_it_is,
)

pytestmark = thorough

GIVEN_UP_S = 1800.0
"""Within that the connection is given up, and all tries are over, forward and back."""


@pytest.fixture
def lost(cluster):
    """A node that the test cuts off; it is back at the end."""
    node = cluster.nodes[2]
    yield node
    if not node.is_up:
        node.start()
    wait_until(cluster.is_joined, SHOWN_S, 0.5)


def until_it_is_told_of(abaca, node):
    """The operation that waits says which node does not answer."""

    def is_told():
        found = abaca.admin.get("//abaca/v1/operations")
        return any(node.ipv4 in f"{one['waits_for']} {one['error_text']}" for one in found)

    wait_until(is_told, GIVEN_UP_S, 0.5)


def is_nothing_left(cluster):
    return (cluster.volumes(), cluster.bricks()) == ([], [])


def test_a_share_is_made_although_a_node_loses_its_power_meanwhile(abaca, cluster, cloud, lost):
    share = cloud.read("share", "create", "GLUSTERFS", "1", "--name", "cut off")["id"]
    wait_until(lost.bricks, SHOWN_S)
    lost.kill()
    until_it_is_told_of(abaca, lost)
    lost.start()
    wait_until_it_is(cloud, share, "available", 1)
    delete(cloud, share)
    assert is_nothing_left(cluster)


def test_a_share_that_waits_in_vain_for_a_node_is_in_error_and_can_be_deleted_later(abaca, cluster, cloud, lost):
    share = cloud.read("share", "create", "GLUSTERFS", "1", "--name", "cut off for long")["id"]
    wait_until(lost.bricks, SHOWN_S)
    lost.kill()
    wait_until(lambda: cloud.read("share", "show", share)["status"] == "error", GIVEN_UP_S, 1)
    (told,) = messages(cloud, share)
    assert lost.ipv4 in told
    lost.start()
    delete(cloud, share)
    assert is_nothing_left(cluster)


def test_a_share_grows_although_a_node_loses_its_power_meanwhile(abaca, cluster, cloud, client, lost):
    share = made(cloud, "cut off while it grows")
    place, alice = location(cloud, share), client("alice")
    allow(cloud, share, "alice")
    assert alice.mount(place, PLACE).code == 0
    said(alice, f"echo text > {PLACE}/file && sync {PLACE}/file")
    had = len(lost.bricks())
    cloud.run("share", "resize", share, "4")
    wait_until(lambda: len(lost.bricks()) > had, SHOWN_S)
    lost.kill()
    until_it_is_told_of(abaca, lost)
    assert said(alice, f"cat {PLACE}/file") == "text\n"
    lost.start()
    wait_until_it_is(cloud, share, "available", 4)
    wait_until(lambda: size_gib(alice) == 4, SHOWN_S, 0.5)
    assert said(alice, f"cat {PLACE}/file") == "text\n"
    alice.unmount(PLACE)
    delete(cloud, share)
    assert is_nothing_left(cluster)


def test_a_share_is_deleted_although_a_node_loses_its_power_meanwhile(abaca, cluster, cloud, lost):
    share = made(cloud, "cut off while it goes")
    cloud.run("share", "delete", share)
    wait_until(lambda: cluster.heketi.is_at("delete-volume"), SHOWN_S)
    lost.kill()
    until_it_is_told_of(abaca, lost)
    lost.start()
    wait_until(lambda: share not in str(cloud.read("share", "list")), SHOWN_S, 0.5)
    assert is_nothing_left(cluster)


@pytest.fixture
def theirs(cluster):
    """`theirs(150)`: a volume of so many GiB that somebody else has Heketi make."""
    asked = heketi.Heketi(cluster.heketi.url, heketi.read_key(cluster.heketi.key_file))
    three = heketi.Durability("replicate", replicate=heketi.Copies(3))

    @contextlib.contextmanager
    def theirs(size_gib):
        order = heketi.Order("theirs", size_gib, three, [cluster.cluster])
        id = gluster_bed.result(asked, asked.make(order), SHOWN_S).rpartition("/")[2]
        yield
        gluster_bed.result(asked, asked.delete(id), SHOWN_S)

    yield theirs
    asked.close()


def test_devices_without_room_are_told_and_have_room_again(abaca, cluster, cloud, theirs):
    def has_room():
        (pool,) = abaca.admin.get("/scheduler-stats/pools/detail")
        return pool["capabilities"]["free_capacity_gb"] > 150

    def told(share, status):
        wait_until(lambda: cloud.read("share", "show", share)["status"] == status, SHOWN_S, 0.5)
        (message,) = messages(cloud, share)
        return message

    share = made(cloud, "has no room to grow")
    wait_until(has_room, SHOWN_S, 0.5)
    with theirs(150):
        # Abaca, which has asked for the room some seconds ago, believes that the share fits.
        cloud.run("share", "resize", share, "140")
        assert "The back end has no room left: Heketi says" in told(share, "extending_error")
        other = cloud.read("share", "create", "GLUSTERFS", "140", "--name", "has no room")["id"]
        assert "No storage could be allocated" in told(other, "error")
        for one in (share, other):
            delete(cloud, one)
    wait_until(has_room, SHOWN_S, 0.5)
    share = cloud.read("share", "create", "GLUSTERFS", "140", "--name", "has room")["id"]
    wait_until_it_is(cloud, share, "available", 140)
    delete(cloud, share)
    assert is_nothing_left(cluster)
