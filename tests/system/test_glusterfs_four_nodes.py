# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""Shares on a real GlusterFS of four nodes, of which one is away, and Heketi has noticed; or that is lost for good."""

import subprocess
import sys

import pytest

from lab import gluster_cluster, heketi_server
from tests.conftest import ROOT, wait_until
from tests.system.attaching import a_server, attach, brings_back, detach
from tests.system.stranger import PLACE, SHOWN_S
from tests.system.test_glusterfs import (  # noqa: F401 (fixtures)
    abaca,
    allow,
    client,
    cloud,
    delete,
    location,
    made,
    resize,
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


def lines_of_the_page():
    """What the page has an administrator type where a node is lost, in its order."""
    page = (ROOT / "docs" / "drivers" / "glusterfs.md").read_text()
    part = page.partition("\n## A disk or node that is lost\n")[2].partition("\n## ")[0]
    return [line.partition("#")[0].strip() for line in part.splitlines() if line.startswith("    ")]


class Administrator:
    """Types the lines of the page about a node that is lost, for one volume."""

    def __init__(self, cluster, lost, volume):
        self.cluster, self.environment = cluster, cluster.heketi.environment()
        node = next(one for one in self.heketi("heketi-cli node list").split() if self.has(one, lost))
        self.words = {"NODE_ID": node.removeprefix("Id:"), "HOST": lost.ipv4, "VOLUME": volume}

    def has(self, word, lost):
        return word.startswith("Id:") and lost.ipv4 in self.heketi(f"heketi-cli node info {word[3:]}")

    def heketi(self, line):
        """What is said to that; nothing when it is refused, for the reason that is in the test's own output."""
        done = subprocess.run(
            line.split(), env=self.environment, capture_output=True, text=True, check=False, timeout=SHOWN_S
        )
        sys.stderr.write(f"{line}: {done.stderr}\n")
        return done.stdout if done.returncode == 0 else ""

    def type(self, line):
        """Type it until it is done: Heketi refuses to move bricks as long as files are healed."""
        for name, value in self.words.items():
            line = line.replace(name, value)
        if line.startswith("gluster "):
            return said(self.cluster.nodes[0], line.replace("gluster ", "gluster --mode=script ", 1))
        return wait_until(lambda: self.heketi(line), SHOWN_S, 2)


@pytest.fixture
def server(cluster, abaca):
    """A server with its id."""
    with a_server(cluster, abaca, "server") as made:
        yield made


def test_a_node_that_is_lost_for_good_is_replaced_as_the_page_says(cluster, abaca, cloud, client, server):
    heketi_server.command_line()
    share, alice = made(cloud, "outlives a node"), client("alice")
    place = location(cloud, share)
    volume = place.rpartition("/")[2]
    allow(cloud, share, "alice")
    assert alice.mount(place, PLACE).code == 0
    said(alice, f"echo before > {PLACE}/file && sync {PLACE}/file")
    machine, server_id = server
    attached = attach(abaca, share, server_id)
    first, *others = cluster.nodes
    info = first.gluster("volume", "info", volume)
    used = [f"{node.ipv4}:/{volume}" for node in others if brings_back(machine, f"{node.ipv4}:/{volume}")]
    lost = next(node for node in others if f"{node.ipv4}:/" in info and f"{node.ipv4}:/{volume}" not in {place, *used})
    assert brings_back(machine, lost.ipv4), "which it may ask after a boot"
    left = [node for node in cluster.nodes if node is not lost]
    lost.kill()
    wait_until(lambda: cluster.heketi.misses(lost.ipv4), SHOWN_S, 0.5)
    said(alice, f"echo meanwhile > {PLACE}/meanwhile && sync {PLACE}/meanwhile")

    administrator = Administrator(cluster, lost, volume)
    devices, disable, remove, heal, cast_out, forget, delete_node, ensure = lines_of_the_page()
    device = administrator.type(devices).partition("Devices:\n")[2].split()[0]
    administrator.words["DEVICE"] = device.removeprefix("Id:")
    administrator.type(disable)
    administrator.type(remove)
    wait_until(lambda: administrator.type(heal).count("Number of entries: 0\n") == 3, SHOWN_S, 1)
    assert lost.ipv4 not in first.gluster("volume", "info", volume)
    for line in (cast_out, forget, delete_node):
        administrator.type(line)
    abaca.command(*ensure.removeprefix("abaca ").replace("HOST@BACKEND", "here@gluster").split())
    wait_until(lambda: not brings_back(machine, lost.ipv4), SHOWN_S, 0.5)
    assert said(machine, "cat {0}/file {0}/meanwhile".format(attached["mount_point"])) == "before\nmeanwhile\n"
    detach(abaca, attached["id"])

    assert said(alice, f"cat {PLACE}/file {PLACE}/meanwhile") == "before\nmeanwhile\n"
    resize(cloud, share, 4, alice)
    said(alice, f"cat {PLACE}/file {PLACE}/meanwhile > {PLACE}/both && sync {PLACE}/both")
    alice.unmount(PLACE)
    delete(cloud, made(cloud, "after it"))
    delete(cloud, share)
    assert (cluster.volumes(), [line for node in left for line in node.bricks()]) == ([], [])
