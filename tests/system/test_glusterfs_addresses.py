# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""Shares on a real GlusterFS follow a node to another address, as the page says; whoever uses them goes on."""

import subprocess

from lab import heketi_server
from tests.conftest import ROOT, wait_until
from tests.system.attaching import a_server, attach, brings_back, detach, left_on
from tests.system.stranger import PLACE, SHOWN_S
from tests.system.test_glusterfs import (  # noqa: F401 (fixtures)
    abaca,
    allow,
    client,
    cloud,
    cluster,
    delete,
    made,
    resize,
    run,
    said,
    thorough,
)

pytestmark = thorough


def lines_of_the_page():
    """What the page has an administrator type where a node has another address, in its order."""
    page = (ROOT / "docs" / "drivers" / "glusterfs.md").read_text()
    part = page.partition("\n## A node with another address\n")[2].partition("\n## ")[0]
    return [line.partition("  #")[0].strip() for line in part.splitlines() if line.startswith("    ")]


class Move:
    """A node of a cluster gets an address beside its own, and in the end has that alone; lines are typed on another."""

    def __init__(self, cluster, node):
        self.cluster, self.node, self.old = cluster, node, node.ipv4
        self.new = cluster.network.address(9)
        self.others = [one for one in cluster.nodes if one is not node]
        self.device = said(
            node, f"ip -o -4 address | sed -n 's|^[0-9]*: \\([^ ]*\\) *inet {self.old}/.*|\\1|p'"
        ).strip()

    def come(self):
        said(self.node, f"sysctl -q -w net.ipv4.conf.{self.device}.promote_secondaries=1")
        said(self.node, f"ip address add {self.new}/24 dev {self.device}")

    def leave(self):
        """What runs on the node ends, and is started without the former address, as by a restart."""
        said(self.node, "pkill 'gluster.*'; while pgrep 'gluster.*'; do :; done")
        said(self.node, f"ip address delete {self.old}/24 dev {self.device} && systemctl start glusterd")

    def bricks(self, volume):
        """Where the node keeps the volume."""
        told = self.others[0].gluster("volume", "info", volume).splitlines()
        return [line.rpartition(":")[2] for line in told if f" {self.old}:/" in line]

    def on_another(self, line, **words):
        return said(self.others[0], self._put(line, words).replace("gluster ", "gluster --mode=script ", 1))

    def on_each_other(self, line):
        for node in self.others:
            said(node, self._put(line, {}))
        wait_until(self.cluster.is_joined, SHOWN_S, 0.5)

    def here(self, line, **words):
        """Where Heketi and the worker are."""
        typed = self._put(line, words).replace("heketi db", f"{heketi_server.program()} db")
        subprocess.run(["sh", "-c", typed], check=True, timeout=SHOWN_S)

    def _put(self, line, words):
        for name, value in ({"OLD": self.old, "NEW": self.new} | words).items():
            line = line.replace(name, value)
        return line


def test_a_share_follows_a_node_to_another_address_as_the_page_says(cluster, abaca, cloud, client):
    scan, probe, info, begin, commit, heal, export, edit, bring, ensure, peers = lines_of_the_page()
    share, alice = made(cloud, "follows"), client("alice")
    volume = paths(cloud, share)[0].rpartition("/")[2]
    allow(cloud, share, "alice")
    with a_server(cluster, abaca, "server") as (server, id):
        attached = attach(abaca, share, id)
        move = Move(cluster, next(node for node in cluster.nodes if brings_back(server, f"{node.ipv4}:/{volume}")))
        assert alice.mount(f"{move.old}:/{volume}", PLACE).code == 0
        said(alice, f"echo before > {PLACE}/file && sync {PLACE}/file")

        move.come()
        move.here(scan.replace("/etc/abaca/gluster-known-hosts", str(cluster.known_hosts)))
        move.on_another(probe)
        assert f"{move.old}:/" in move.on_another(info, VOLUME=volume)
        for brick in move.bricks(volume):
            for line in (begin, commit):
                move.on_another(line, VOLUME=volume, BRICK=brick)
        wait_until(lambda: move.on_another(heal, VOLUME=volume).count("Number of entries: 0\n") == 3, SHOWN_S, 1)
        cluster.heketi.kill()
        files = {"DB": str(cluster.heketi.database), "TEXT": str(cluster.directory / "heketi.text")}
        for line in (export, edit, bring):
            move.here(line, **files)
        cluster.heketi.start()
        abaca.command(*ensure.removeprefix("abaca ").replace("HOST@BACKEND", "here@gluster").split())

        assert f"{move.new}:/{volume}" in paths(cloud, share)
        assert not any(path.startswith(f"{move.old}:") for path in paths(cloud, share))
        wait_until(lambda: brings_back(server, move.new) and not brings_back(server, move.old), SHOWN_S, 0.5)
        place = attached["mount_point"]
        said(server, f"echo meanwhile >> {place}/file && sync {place}/file")
        assert said(alice, f"cat {PLACE}/file") == "before\nmeanwhile\n"
        move.leave()
        move.on_each_other(peers)
        said(server, f"echo after >> {place}/file && sync {place}/file")
        resize(cloud, share, 4, alice)
        alice.unmount(PLACE)
        assert alice.mount(f"{move.new}:/{volume}", PLACE).code == 0
        assert said(alice, f"cat {PLACE}/file") == "before\nmeanwhile\nafter\n"
        alice.unmount(PLACE)
        detach(abaca, attached["id"])
        assert left_on(server) == ""
    another = made(cloud, "after it")
    assert any(path.startswith(f"{move.new}:") for path in paths(cloud, another))
    for one in (share, another):
        delete(cloud, one)
    assert (cluster.volumes(), cluster.bricks()) == ([], [])


def paths(cloud, share):
    """Where it can be mounted from."""
    return [one["Path"] for one in cloud.read("share", "export", "location", "list", share)]
