# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""Shares on a real GlusterFS whose Heketi is killed in the middle of growing."""

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


def bricks_of(cluster, place):
    """How many bricks GlusterFS has in the volume."""
    return cluster.nodes[0].gluster("volume", "info", place.rpartition("/")[2]).count(":/var/lib/heketi")


def until_it_grows(cluster, cloud, share, place, size):
    """GlusterFS has the bricks, or is just getting them, and Heketi has not heard that it has."""
    had = bricks_of(cluster, place)
    cloud.run("share", "resize", share, str(size))
    wait_until(lambda: bricks_of(cluster, place) > had, SHOWN_S)


def test_a_share_grows_although_heketi_is_killed_at_the_end_of_that(cluster, cloud, client):
    share = made(cloud, "cut short while it grows")
    place, alice = location(cloud, share), client("alice")
    allow(cloud, share, "alice")
    assert alice.mount(place, PLACE).code == 0
    said(alice, f"chown 5:6 {PLACE} && echo text > {PLACE}/file && sync {PLACE}/file")
    until_it_grows(cluster, cloud, share, place, 4)
    cluster.heketi.kill()
    cluster.heketi.start()
    assert cluster.heketi.is_at("expand-volume")
    wait_until_it_is(cloud, share, "available", 4)
    wait_until(lambda: size_gib(alice) == 4, SHOWN_S, 0.5)
    assert said(alice, f"stat -c %u:%g {PLACE}; cat {PLACE}/file") == "5:6\ntext\n"
    assert bricks_of(cluster, place) == 6
    assert not cluster.heketi.is_at("expand-volume")
    left = "grep -hE 'remove-brick .* commit *: SUCCESS' /var/log/glusterfs/cmd_history.log || true"
    assert any(said(node, left) for node in cluster.nodes)
    alice.unmount(PLACE)
    delete(cloud, share)
    assert (cluster.volumes(), cluster.bricks()) == ([], [])
