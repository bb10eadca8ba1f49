# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""Share types on a real GlusterFS: they say how shares are kept, where, and with which options; or why they cannot."""

import contextlib

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
    messages,
    resize,
    run,
    said,
    size_gib,
    wait_until_it_is,
)


@contextlib.contextmanager
def asked_for(cloud, **specs):
    """The id of a share of 2 GiB whose type has these extra specs beside; both are gone at the end."""
    words = [f"{name}={value}" for name, value in specs.items()]
    cloud.run("share", "type", "create", "special", "false", "--extra-specs", *words)
    share = cloud.read("share", "create", "GLUSTERFS", "2", "--name", "special", "--share-type", "special")["id"]
    try:
        yield share
    finally:
        delete(cloud, share)
        cloud.run("share", "type", "delete", "special")


def test_a_share_is_in_the_cluster_and_kept_in_the_parts_and_has_the_option_that_its_type_says(cluster, cloud, client):
    specs = {
        "glusterfs:durability": "disperse 2+1",
        "glusterfs:volume_options": "performance.cache-size 64MB",
        "glusterfs_cluster": cluster.cluster,
    }
    with asked_for(cloud, **specs) as share:
        wait_until_it_is(cloud, share, "available", 2)
        place, alice = location(cloud, share), client("alice")
        shown = cluster.nodes[0].gluster("volume", "info", place.rpartition("/")[2])
        for line in ("Type: Disperse", "Number of Bricks: 1 x (2 + 1) = 3", "performance.cache-size: 64MB"):
            assert f"{line}\n" in shown
        allow(cloud, share, "alice")
        assert alice.mount(place, PLACE).code == 0
        assert size_gib(alice) == 2
        said(alice, f"echo text > {PLACE}/file && sync {PLACE}/file")
        resize(cloud, share, 4, alice)
        shown = cluster.nodes[0].gluster("volume", "info", place.rpartition("/")[2])
        assert "Number of Bricks: 2 x (2 + 1) = 6\n" in shown
        assert said(alice, f"cat {PLACE}/file") == "text\n"
        alice.unmount(PLACE)
        assert any(line.startswith("Heketi: ") for line in cluster.left())
    assert cluster.left() == []


@pytest.mark.parametrize(
    ("spec", "value", "why"),
    [
        ("glusterfs_cluster", "nowhere", "no pool has the capabilities that the share type asks for"),
        ("glusterfs:durability", "disperse 4+2", "disperse 4+2 needs 6 nodes with a device"),
        ("glusterfs:durability", "disperse 3+1", "'disperse 3+1' is no durability: it is replica 2 or 3"),
        ("glusterfs:volume_options", "auth.allow 192.0.2.1", "auth.allow is what keeps volumes sealed and counted"),
    ],
)
def test_a_share_whose_type_cannot_be_had_says_why_and_leaves_nothing(cluster, cloud, spec, value, why):
    with asked_for(cloud, **{spec: value}) as share:
        wait_until(lambda: cloud.read("share", "show", share)["status"] == "error", SHOWN_S, 0.5)
        (told,) = messages(cloud, share)
        assert why in told
        assert cluster.left() == []
    assert cluster.left() == []
