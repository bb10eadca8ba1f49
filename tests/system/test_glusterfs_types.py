# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""A share type on a real GlusterFS: it says how shares are kept, where, and with which options."""

from tests.system.stranger import PLACE
from tests.system.test_glusterfs import (  # noqa: F401 (fixtures)
    abaca,
    allow,
    client,
    cloud,
    cluster,
    delete,
    location,
    resize,
    run,
    said,
    size_gib,
    thorough,
    wait_until_it_is,
)

pytestmark = thorough


def test_a_share_is_in_the_cluster_and_kept_in_the_parts_and_has_the_option_that_its_type_says(cluster, cloud, client):
    specs = {
        "glusterfs:durability": "disperse 2+1",
        "glusterfs:volume_options": "performance.cache-size 64MB",
        "glusterfs_cluster": cluster.cluster,
    }
    words = [f"{name}={value}" for name, value in specs.items()]
    cloud.run("share", "type", "create", "special", "false", "--extra-specs", *words)
    share = cloud.read("share", "create", "GLUSTERFS", "2", "--name", "special", "--share-type", "special")["id"]
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
    delete(cloud, share)
    cloud.run("share", "type", "delete", "special")
    assert cluster.left() == []
