# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""Shares on a real GlusterFS whose nodes lose their power, and whose Heketi is killed, in the middle of everything."""

import pytest

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
    run,
    said,
    size_gib,
    thorough,
    wait_until_it_is,
)

pytestmark = thorough


@pytest.fixture(autouse=True)
def nothing_is_left(cluster, cloud):
    """After each of them, neither in Heketi nor on nodes."""
    yield
    for share in [one["ID"] for one in cloud.read("share", "list")]:
        delete(cloud, share)
    wait_until(lambda: (cluster.volumes(), cluster.bricks()) == ([], []), SHOWN_S, 1)


def ended(cloud, share, *statuses):
    """The status in which it has come to rest, one of these."""

    def rested():
        status = cloud.read("share", "show", share)["status"]
        return None if status in {"creating", "extending", "deleting", "shrinking"} else status

    status = wait_until(rested, SHOWN_S, 0.5)
    assert status in statuses
    return status


def told(cloud, share):
    """What its users are told, all of it."""
    listed = [one["ID"] for one in cloud.read("share", "message", "list", "--resource-id", share)]
    return " ".join(cloud.read("share", "message", "show", id)["user_message"] for id in listed)


def restart(heketi):
    heketi.kill()
    heketi.start()


def test_a_node_dies_while_a_share_is_made(cluster, cloud, client):
    share = cloud.read("share", "create", "GLUSTERFS", "1", "--name", "node dies")["id"]
    wait_until(lambda: cluster.heketi.is_at("create-volume"), SHOWN_S)
    cluster.nodes[2].kill()
    status = ended(cloud, share, "available", "error")
    cluster.nodes[2].start()
    if status == "error":
        assert "Heketi says" in told(cloud, share)
        delete(cloud, share)
        wait_until(lambda: (cluster.volumes(), cluster.bricks()) == ([], []), SHOWN_S, 1)
        share = made_again(cloud)
    used(cloud, share, client("alice"), 1)


def made_again(cloud):
    """A share, as soon as Heketi believes in the node again."""

    def tried():
        share = cloud.read("share", "create", "GLUSTERFS", "1")["id"]
        if ended(cloud, share, "available", "error") == "available":
            return share
        assert "No space" in told(cloud, share)
        delete(cloud, share)
        return None

    return wait_until(tried, SHOWN_S, 5)


def used(cloud, share, machine, size):
    """Somebody mounts it, and finds it so large."""
    allow(cloud, share, "alice")
    assert machine.mount(location(cloud, share), PLACE).code == 0
    try:
        assert size_gib(machine) == size
        said(machine, f"echo text > {PLACE}/file && sync {PLACE}/file")
    finally:
        machine.unmount(PLACE)


def test_a_node_dies_while_a_share_grows(cluster, cloud, client):
    share = made(cloud, "node dies later")
    used(cloud, share, client("alice"), 1)
    cloud.run("share", "resize", share, "4")
    wait_until(lambda: cluster.heketi.is_at("expand-volume"), SHOWN_S)
    cluster.nodes[1].kill()
    status = ended(cloud, share, "available", "extending_error")
    cluster.nodes[1].start()
    if status == "extending_error":
        assert told(cloud, share)
        grown_again(cloud, share)
    wait_until_it_is(cloud, share, "available", 4)
    assert client("alice").mount(location(cloud, share), PLACE).code == 0
    assert size_gib(client("alice")) == 4
    assert said(client("alice"), f"cat {PLACE}/file") == "text\n"
    client("alice").unmount(PLACE)


def grown_again(cloud, share):
    """It is resized once more, as soon as Heketi believes in the node again."""

    def tried():
        cloud.run("share", "set", share, "--status", "available")
        cloud.run("share", "resize", share, "4")
        return ended(cloud, share, "available", "extending_error") == "available"

    wait_until(tried, SHOWN_S, 5)


def test_a_node_dies_while_a_share_is_deleted(cluster, cloud):
    share = made(cloud, "node dies at the end")
    cloud.run("share", "delete", share)
    wait_until(lambda: cluster.heketi.is_at("delete-volume"), SHOWN_S)
    cluster.nodes[0].kill()
    wait_until(lambda: share not in str(cloud.read("share", "list")) or in_error(cloud, share), SHOWN_S, 0.5)
    cluster.nodes[0].start()


def in_error(cloud, share):
    return [one["Status"] for one in cloud.read("share", "list") if one["ID"] == share] == ["error_deleting"]


def test_heketi_is_killed_while_a_share_grows(cluster, cloud, client):
    share = made(cloud, "cut short while it grows")
    used(cloud, share, client("alice"), 1)
    cloud.run("share", "resize", share, "4")
    wait_until(lambda: cluster.heketi.is_at("expand-volume"), SHOWN_S)
    restart(cluster.heketi)
    wait_until_it_is(cloud, share, "available", 4)
    assert client("alice").mount(location(cloud, share), PLACE).code == 0
    assert size_gib(client("alice")) == 4
    client("alice").unmount(PLACE)


def test_heketi_is_killed_while_a_share_is_made_and_while_it_is_deleted(cluster, cloud):
    share = cloud.read("share", "create", "GLUSTERFS", "1", "--name", "cut short")["id"]
    wait_until(lambda: cluster.heketi.is_at("create-volume"), SHOWN_S)
    restart(cluster.heketi)
    assert ended(cloud, share, "available")
    assert len(cluster.volumes()) == 1
    cloud.run("share", "delete", share)
    wait_until(lambda: cluster.heketi.is_at("delete-volume"), SHOWN_S)
    restart(cluster.heketi)
    wait_until(lambda: share not in str(cloud.read("share", "list")), SHOWN_S, 0.5)


def test_devices_that_are_full_are_told_and_what_fits_is_made(cluster, cloud):
    """The pool believes in more than fits into the devices once file systems have had their part."""
    first = cloud.read("share", "create", "GLUSTERFS", "150", "--name", "large")["id"]
    assert ended(cloud, first, "available")
    second = cloud.read("share", "create", "GLUSTERFS", "1", "--name", "small")["id"]
    assert ended(cloud, second, "available")
    cloud.run("share", "resize", second, "38")
    assert ended(cloud, second, "extending_error")
    assert "no room left: Heketi says" in told(cloud, second)
    assert int(cloud.read("share", "show", second)["size"]) == 1
    delete(cloud, first)
    cloud.run("share", "set", second, "--status", "available")
    cloud.run("share", "resize", second, "38")
    wait_until_it_is(cloud, second, "available", 38)
