# SPDX-License-Identifier: Apache-2.0
"""A Heketi with three nodes, on paper: what a back end of the driver `glusterfs` needs, and a look behind it."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

from abaca.drivers.clients import heketi as client
from lab import gluster_nodes, heketi, processes
from lab.gluster_nodes import Volume

MARK = "user.abaca.instance"
SNAPSHOT = "abaca_snapshot_"
NOBODYS = (None, "none", "deleted")


class Bed:
    """Heketi listens, the nodes can be logged in to, and one cluster has all of them."""

    def __init__(self, directory: pathlib.Path, nodes: int = 3, device_gib: int = 500) -> None:
        directory.mkdir(parents=True)
        self.directory = directory
        self.gluster = gluster_nodes.Cluster()
        self.nodes = gluster_nodes.Nodes(self.gluster, directory, nodes)
        self.nodes.start()
        self.heketi = heketi.Heketi(self.gluster, device_gib)
        self.url = self.heketi.start()
        (directory / "heketi.key").write_text(f"{heketi.KEY}\n")
        self.cluster = self.heketi.stock(self.nodes.hosts)

    def section(self) -> dict[str, str]:
        """The options of a back end over this."""
        return {
            "heketi_url": self.url,
            "heketi_key_file": str(self.directory / "heketi.key"),
            "ssh_key_file": str(self.nodes.key_file),
            "ssh_known_hosts": str(self.nodes.known_hosts),
            "ssh_port": str(self.nodes.port),
        }

    def held(self) -> Mapping[str, Volume]:
        """The volumes that gluster has for instances, by the instances' ids."""
        marked = {one.options.get(MARK): one for one in self.gluster.volumes.values()}
        return {id: one for id, one in marked.items() if id not in NOBODYS}

    def snapshots(self) -> set[str]:
        """The ids of Abaca's snapshots that gluster has."""
        return {name.removeprefix(SNAPSHOT) for name in self.gluster.snapshots if name.startswith(SNAPSHOT)}

    def close(self) -> None:
        self.heketi.stop()
        self.nodes.stop()


def result(asked: client.Heketi, place: str, within_s: float = 60.0) -> str:
    """Where the result is of work that Heketi was told to do, once it has ended; empty for none."""

    def seen() -> tuple[str] | None:
        found = asked.look(place)
        return None if found is None else (found,)

    return processes.wait_until(seen, within_s, "Heketi to end its work")[0]
