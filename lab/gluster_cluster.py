# SPDX-License-Identifier: Apache-2.0
"""A real GlusterFS with a real Heketi: what a back end of the driver `glusterfs` needs, and a look behind it."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Sequence

from abaca.drivers.clients import heketi
from lab import fabric, gluster_guests, gluster_machines, heketi_server, processes, runs
from lab.gluster_guests import ThinNode
from lab.gluster_machines import GlusterClient, GlusterNode

_WORK = ("create-volume", "expand-volume", "delete-volume")


def need() -> None:
    """Return if it can be had here; raises `processes.Missing`, or `heketi_server.NotBuilt`."""
    gluster_machines.need()
    heketi_server.program()


class GlusterCluster:
    """Three nodes on a network of their own, which Heketi has in one `cluster`, and looks at every `refresh_s`."""

    disk = gluster_machines.DISK

    def __init__(self, run: runs.Run, nodes: int = 3, refresh_s: int = heketi_server.REFRESH_S) -> None:
        need()
        self.network = fabric.Fabric(run)
        self.directory = run.path("gluster")
        self.key_file, self.known_hosts = self.directory / "key", self.directory / "known_hosts"
        processes.command(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(self.key_file)])
        self.nodes = self.make_nodes([f"gl{number}" for number in range(1, nodes + 1)])
        for node in self.nodes:
            node.trust(self.key_file.with_suffix(".pub").read_text())
        self.known_hosts.write_text("".join(f"{node.ipv4} {node.ssh.host_key}\n" for node in self.nodes))
        self.heketi = heketi_server.HeketiServer(run, self.directory, self.key_file, refresh_s)
        self.cluster = ""

    def make_nodes(self, names: Sequence[str]) -> Sequence[GlusterNode | ThinNode]:
        """The machines, which are not started."""
        return [GlusterNode(self.network, name) for name in names]

    def start(self) -> None:
        """Return when all nodes run, and Heketi has them."""
        with concurrent.futures.ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(lambda node: node.start(), self.nodes))
        self.heketi.start()
        self.cluster = self.heketi.load([node.ipv4 for node in self.nodes], [self.disk])
        # Heketi does not wait for that; a node that is not yet one of them never hears of a volume that is made.
        processes.wait_until(self.is_joined, 60.0, "all nodes of GlusterFS to know each other")

    def is_joined(self) -> bool:
        """Whether all nodes know all others, and reach them."""
        others = len(self.nodes) - 1
        return all(node.gluster("peer", "status").count("Peer in Cluster (Connected)") == others for node in self.nodes)

    def section(self) -> dict[str, str]:
        """The options of a back end over this."""
        return {
            "heketi_url": self.heketi.url,
            "heketi_key_file": str(self.heketi.key_file),
            "ssh_key_file": str(self.key_file),
            "ssh_known_hosts": str(self.known_hosts),
        }

    def volumes(self) -> list[str]:
        """The names of all volumes that gluster has."""
        done = self.nodes[0].run(["gluster", "--mode=script", "volume", "list"], 300.0)
        return [] if "No volumes" in done.stdout + done.stderr else done.stdout.split()

    def bricks(self) -> list[str]:
        """What there is of bricks on all nodes, a line each."""
        return [f"{node.name}: {line}" for node in self.nodes for line in node.bricks()]

    def left(self) -> list[str]:
        """What there is of volumes and bricks, of work of Heketi's, of certificates that are not in place yet."""
        asked = heketi.Heketi(self.heketi.url, heketi.read_key(self.heketi.key_file))
        try:
            known = [f"Heketi: {id}" for id in asked.volumes()]
            begun = [f"Heketi: {kind} {one.id}" for kind in _WORK for one in asked.pending(kind)]
        finally:
            asked.close()
        look = f"ls -A {gluster_machines.TLS} | grep '^[.]abaca' || true"
        files = [f"{node.name}: {line}" for node in self.nodes for line in node.script(look, 300.0).stdout.split()]
        return [*self.volumes(), *self.bricks(), *known, *begun, *files]

    def stop(self) -> None:
        """End the machines; Heketi ends with the run."""
        self.heketi.kill()
        for node in self.nodes:
            node.stop()


class ThinCluster(GlusterCluster):
    """The same with bricks on real thin LVM, of which there are snapshots."""

    disk = gluster_guests.DISK

    def make_nodes(self, names: Sequence[str]) -> Sequence[GlusterNode | ThinNode]:
        return [ThinNode(self.network, name) for name in names]

    def copies(self) -> list[str]:
        """What there is of copies on all nodes, a line each."""
        looks = ("ls -d /run/abaca-copy-* 2> /dev/null", "grep abaca-copy /proc/mounts", "pgrep -x cp")
        script = "; ".join((*looks, "pgrep -fa 'sh /run/abaca[-]copy'", "true"))
        return [line for node in self.nodes for line in node.script(script, 300.0).stdout.splitlines()]


def make_key(client: GlusterClient, name: str) -> str:
    """Make a key for a client, which keeps it, and return the signing request."""
    words = [
        "-new",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        str(client.ssl / "glusterfs.key"),
        "-subj",
        f"/CN={name}",
    ]
    return processes.command(["openssl", "req", *words])


def seal(client: GlusterClient, certificate: str, authority: str) -> None:
    """Put certificates where GlusterFS looks for them on Debian."""
    for end, text in (("pem", certificate), ("ca", authority)):
        (client.ssl / f"glusterfs.{end}").write_text(text)
    client.script("for end in pem key ca; do ln -sf /etc/ssl/glusterfs.$end /usr/lib/ssl/glusterfs.$end; done")
