# SPDX-License-Identifier: Apache-2.0
"""How full the clusters are, which are the pools of the GlusterFS driver.

With a node Heketi tells all bricks on it, which takes it a tenth of a millisecond for each volume. So figures are kept
as long as nothing is seen to change.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from abaca.drivers import contract
from abaca.drivers.authority import Authority
from abaca.drivers.clients import heketi
from abaca.drivers.glusterfs import durability
from abaca.drivers.glusterfs.exporting import Exporting
from abaca.drivers.glusterfs.serving import KNOWN_S
from abaca.drivers.glusterfs.volumes import GIB_KIB, Sized, usable_gib


class Room(msgspec.Struct, frozen=True):
    """How devices' room is told: the part that is kept back, and how often everything is kept."""

    reserve_percent: int
    factor: float


class Told(NamedTuple):
    """A pool's figures, from when they are, and what shall not have changed since."""

    seen_s: float
    mark: object
    nodes: list[heketi.Node]
    stats: contract.PoolStats


class Pools(Exporting):
    """Clusters, and what can be had in them."""

    authority: Authority
    believed_s: float = KNOWN_S
    """So long figures are believed of a cluster in which nothing changes that is told at little cost."""

    def connect(self) -> None:
        """See `Serving.connect`."""
        super().connect()
        self._told: dict[str, Told] = {}

    def pools(self) -> list[contract.PoolStats]:
        if self.nfs is not None:
            self.nfs.look()
        kept = durability.factor(durability.read(self.options.durability))
        room = Room(self.options.reserve_percent, kept * (1 + self.options.snapshots_per_share))
        found = []
        for name, id in self.clusters().items():
            _, _, nodes, stats = self._of(name, id, room)
            found.append(msgspec.structs.replace(stats, capabilities={**stats.capabilities, **self._ends(nodes)}))
        return found

    def _of(self, name: str, id: str, room: Room) -> Told:
        """The figures of a cluster, those of a moment ago where it has the same nodes and volumes as then.

        What somebody else makes larger, or takes out of service, shows within `believed_s`; what is done here, at once.
        """
        turns, cluster, known = self.volumes.turns, self.client.cluster(id), self._told.get(name)
        mark = (cluster, turns, room)
        if known is None or known.mark != mark or time.monotonic() > known.seen_s + self.believed_s:
            seen_s, nodes = time.monotonic(), self.looked_at(cluster.nodes)
            stats = _stats(name, nodes, self.volumes.ordered(nodes, cluster.volumes), room)
            known = self._told[name] = Told(seen_s, mark, nodes, stats)
        return known

    def _ends(self, nodes: list[heketi.Node]) -> dict[str, str]:
        """When the first certificate on which the pool rests ends, the authority's own among them."""
        of_nfs = None if self.nfs is None else self.nfs.certificate.ends_at()
        end = min(filter(None, (self.authority.ends_at, self.seal.first_end(nodes), of_nfs)))
        return {contract.CERTIFICATES_END_AT: end.isoformat(timespec="seconds")}


def _stats(name: str, nodes: Sequence[heketi.Node], held: Sequence[Sized], room: Room) -> contract.PoolStats:
    """What a cluster can hold in shares of the back end's durability, beyond its reserve."""
    devices = [device for node, device in _devices(nodes) if node.state == device.state == "online"]
    total_kib = sum(device.storage.total for device in devices)
    reserved_kib = total_kib * room.reserve_percent / 100
    free_kib = max(0.0, sum(device.storage.free for device in devices) - reserved_kib)
    per_gib = GIB_KIB * room.factor
    return contract.PoolStats(
        name=name,
        total_gib=round((total_kib - reserved_kib) / per_gib, 2),
        free_gib=round(free_kib / per_gib, 2),
        allocated_gib=float(sum(usable_gib(one.size_gib) for one in held)),
        capabilities={"glusterfs_cluster": name, contract.DEVICES: [_device(*one) for one in _devices(nodes)]},
    )


def _devices(nodes: Sequence[heketi.Node]) -> Iterator[tuple[heketi.Node, heketi.Device]]:
    return ((node, device) for node in nodes for device in node.devices)


def _device(node: heketi.Node, device: heketi.Device) -> object:
    stats = contract.DeviceStats(
        node=next(iter(node.hostnames.manage), node.id),
        device=device.name,
        total_gib=round(device.storage.total / GIB_KIB, 2),
        free_gib=round(device.storage.free / GIB_KIB, 2),
        is_online=node.state == device.state == "online",
    )
    return msgspec.to_builtins(stats)
