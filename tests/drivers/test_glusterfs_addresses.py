# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""A GlusterFS share is found at the nodes that serve now; Heketi tells those of when its volume was made."""

import copy

import pytest

from tests.drivers.test_glusterfs import driver, rig, shared  # noqa: F401 (fixtures)

FIRST, *OTHERS = ["127.0.7.1", "127.0.7.2", "127.0.7.3"]


@pytest.fixture
def nodes(rig):
    """What Heketi has of the nodes; it is as before at the end."""
    heketi = rig.bed.heketi
    before = copy.deepcopy((heketi.nodes, heketi.clusters))
    yield heketi.nodes
    heketi.nodes, heketi.clusters = before
    for host in set(rig.bed.nodes.hosts) - {FIRST, *OTHERS}:
        rig.bed.nodes.kill(host)
        rig.bed.nodes.hosts.remove(host)


def readdressed(bed, node):
    node["hostnames"] = node["hostnames"] | {"storage": ["storage-1.example"]}


def lost(bed, node):
    for device in node["devices"]:
        device["state"] = "failed"


def joined(bed, node):
    """Another one is there, beside it."""
    new = copy.deepcopy(node) | {"id": "fe" * 16, "devices": []}
    new["hostnames"] = {"manage": ["127.0.7.4"], "storage": ["storage-1.example"]}
    bed.heketi.nodes[new["id"]] = new
    bed.heketi.clusters[node["cluster"]]["nodes"].append(new["id"])
    bed.nodes.add("127.0.7.4")


@pytest.mark.parametrize(
    ("change", "hosts"),
    [
        (readdressed, [*OTHERS, "storage-1.example"]),
        (lost, OTHERS),
        (joined, [FIRST, *OTHERS, "storage-1.example"]),
    ],
)
def test_a_share_is_found_at_the_nodes_that_serve_now_once_it_is_ensured(rig, driver, nodes, change, hosts):
    share = rig.known(rig.instance())
    assert hosts_of(share.exports) == [FIRST, *OTHERS]
    (node,) = (one for one in nodes.values() if one["hostnames"]["manage"] == [FIRST])
    change(rig.bed, node)
    for look in (driver.inspect, driver.ensure):
        assert hosts_of(look([share])[share.id].exports) == hosts
    assert hosts_of(driver.create(rig.instance(id=share.id)).exports) == hosts
    driver.delete(share)


def hosts_of(exports):
    """Where these are, the first of which is preferred."""
    assert [one.preferred for one in exports] == [True] + [False] * (len(exports) - 1)
    return [one.path.partition(":")[0] for one in exports]
