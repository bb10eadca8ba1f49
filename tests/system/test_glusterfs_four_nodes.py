# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""Shares on a real GlusterFS of four nodes, of which one is away, and Heketi has noticed."""

import pytest

from lab import gluster_cluster
from tests.conftest import wait_until
from tests.system.stranger import PLACE, SHOWN_S
from tests.system.test_glusterfs import (  # noqa: F401 (fixtures)
    abaca,
    allow,
    client,
    cloud,
    delete,
    made,
    run,
    said,
    thorough,
)

pytestmark = thorough


@pytest.fixture(scope="module")
def cluster(run):
    made = gluster_cluster.GlusterCluster(run, nodes=4)
    made.start()
    yield made
    made.stop()


def test_shares_are_made_and_used_while_a_node_is_away_that_they_do_not_need(cluster, cloud, client):
    before = made(cloud, "while all are there")
    lost = cluster.nodes[3]
    lost.kill()
    wait_until(lambda: cluster.heketi.misses(lost.ipv4), SHOWN_S, 0.5)
    share = made(cloud, "without the fourth")
    alice = client("alice")
    for one in (before, share):
        allow(cloud, one, "alice")
        paths = [path["Path"] for path in cloud.read("share", "export", "location", "list", one)]
        place = next(path for path in paths if not path.startswith(lost.ipv4))
        assert alice.mount(place, PLACE).code == 0
        said(alice, f"echo text > {PLACE}/file && sync {PLACE}/file && cat {PLACE}/file")
        alice.unmount(PLACE)
    lost.start()
    wait_until(cluster.is_joined, SHOWN_S, 0.5)
    for one in (before, share):
        delete(cloud, one)
    assert (cluster.volumes(), cluster.bricks()) == ([], [])
