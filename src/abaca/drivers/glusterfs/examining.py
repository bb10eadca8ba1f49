# SPDX-License-Identifier: Apache-2.0
"""What the GlusterFS driver misses before it can serve: asked of Heketi and of each node, changing nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from abaca import errors
from abaca.drivers import contract
from abaca.drivers.authority import Authority
from abaca.drivers.clients import gluster, heketi
from abaca.drivers.glusterfs import durability
from abaca.drivers.glusterfs.copying import PROGRAMS
from abaca.drivers.glusterfs.nfs_server import check_host
from abaca.drivers.glusterfs.seal import host_of, when
from abaca.drivers.glusterfs.serving import Serving

_AT_ONCE = 8
# A fixed text: $1 is the directory of the certificates, and what follows are programs that it must have. Each line that
# it says is something that is missing.
_MISSING = """for program in openssl flock; do
    command -v "$program" > /dev/null || echo "$program is not installed"
done
[ -d "$1" ] || echo "there is no directory $1"
[ ! -d "$1" ] || [ -w "$1" ] || echo "$1 cannot be written: log in as root, or by sudo without a password"
shift
for program; do
    command -v "$program" > /dev/null || echo "it has no $program, with which shares start from snapshots"
done
"""


class Examining(Serving):
    """Heketi and nodes as they are found before a start."""

    authority: Authority

    def examine(self) -> list[str]:
        """See `contract.Driver`."""
        try:
            self.options.check()
            self.connect()
        except errors.BackendError as error:
            return [error.message]
        try:
            return [*self._of_host(), *self._of_authority(), *self._of_heketi()]
        finally:
            self.machines.close()
            self.client.close()

    def _of_host(self) -> Iterator[str]:
        """What this host lacks to serve by NFS, where it shall."""
        try:
            if self.options.export_ips:
                check_host()
        except contract.Refused as error:
            yield error.message

    def _of_authority(self) -> Iterator[str]:
        """Its own is made at the first start; one that is given is there, whole and good."""
        try:
            if self.options.authority_certificate or self.authority.is_there:
                self.authority.check()
        except contract.Refused as error:
            yield error.message

    def _of_heketi(self) -> Iterator[str]:
        try:
            known = set(self.client.clusters())
            for name, id in self.options.clusters.items():
                if id not in known:
                    has = ", ".join(sorted(known)) or "none"
                    yield f"clusters: Heketi has no cluster {id} for the pool {name}; it has {has}"
            if not known:
                yield "Heketi has no cluster: `heketi-cli topology load --json=topology.json` gives it one"
            for name, id in self.clusters().items():
                if id in known:
                    yield from self._of_pool(name, self.nodes(id))
        except errors.BackendError as error:
            yield error.message

    def _of_pool(self, name: str, nodes: list[heketi.Node]) -> Iterator[str]:
        kept = durability.read(self.options.durability)
        with_room = [node for node in nodes if any(device.state == "online" for device in node.devices)]
        if len(with_room) < durability.nodes(kept):
            yield (
                f"the pool {name} has {len(with_room)} nodes with a device that is online, and "
                f"{self.options.durability} needs {durability.nodes(kept)}: give it more, or set another durability"
            )
        for node in nodes:
            if node.state != "online":
                yield f"the pool {name}: Heketi has its node {node.id} as {node.state}"
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            yield from itertools.chain.from_iterable(pool.map(self._of_node, nodes))

    def _of_node(self, node: heketi.Node) -> Iterable[str]:
        try:
            host = host_of(node)
            return [f"the node {host}: {text}" for text in self._missing_on(node, host)]
        except errors.BackendError as error:
            return [error.message]

    def _missing_on(self, node: heketi.Node, host: str) -> Iterator[str]:
        needed = PROGRAMS if self.options.snapshots_per_share else ()
        answer = self.machines.run(host, ["sh", "-c", _MISSING, "sh", self.options.tls_directory, *needed])
        yield from answer.out.splitlines()
        if problem := gluster.silence(self.machines, host):
            yield problem
        if not answer.out and self.authority.is_there:
            left_days = self.seal.left(node).first
            if left_days is not None and left_days < self.authority.renew_days:
                mend = "`abaca certificate renew --restart` brings another"
                yield f"its certificate {when(left_days)}: {mend}"
