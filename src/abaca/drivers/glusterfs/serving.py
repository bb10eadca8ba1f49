# SPDX-License-Identifier: Apache-2.0
"""What all parts of the driver stand on: Heketi's volumes, gluster on their nodes, the seal about both."""

from __future__ import annotations

import contextlib
import logging
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from abaca import errors
from abaca.drivers import contract
from abaca.drivers.clients import heketi
from abaca.drivers.clients.gluster import GIB, Gluster, Info, Quota, silence
from abaca.drivers.clients.machines import Machines
from abaca.drivers.glusterfs import names
from abaca.drivers.glusterfs.options import GlusterfsOptions
from abaca.drivers.glusterfs.seal import Seal, host_of, storage_host_of
from abaca.drivers.glusterfs.volumes import Volumes

log = logging.getLogger(__name__)

VOLUME_ID = "volume"
"""What is kept of a share: the id of its volume in Heketi."""
KNOWN_S = 60.0
"""So long is believed what Heketi has told of a node, with which it tells all bricks there."""
FAILED = "failed"
"""What Heketi says of a device whose bricks it has moved to others, and of a node of such."""
SILENT_S = 10.0
"""So long is believed which nodes do not answer."""
_ANSWERS_WITHIN_S = 5.0
_AT_ONCE = 8
# Where a node keeps what Heketi and GlusterFS know of its volumes.
_KEPT = ("/etc", "/var/lib/glusterd", "/var/lib/heketi")
_QUOTA = "features.quota"
COUNTING = {"features.soft-timeout": "0", "features.hard-timeout": "0"}
"""By these options what is used is counted at once. A volume that has them from its start is made sooner."""


Ask = Callable[[Gluster, str, Sequence[heketi.Node]], Info]
"""Asks gluster, in a cluster of these nodes, what it knows of a volume."""


def _info(gluster: Gluster, volume: str, _nodes: Sequence[heketi.Node]) -> Info:
    return gluster.info(volume)


class Held(msgspec.Struct, frozen=True):
    """A volume of ours: as Heketi has it, as gluster has it, and the nodes of its cluster."""

    volume: heketi.Volume
    info: Info
    nodes: list[heketi.Node]
    gluster: Gluster

    @property
    def name(self) -> str:
        return self.volume.name

    @property
    def hosts(self) -> list[str]:
        """Where the volume can be mounted from. What Heketi itself says of that is from when the volume was made."""
        return sorted(map(storage_host_of, serving(self.nodes)))


class Serving:
    """Volumes that are found, sealed and limited."""

    backend: contract.Backend
    options: GlusterfsOptions
    client: heketi.Heketi
    volumes: Volumes
    machines: Machines
    seal: Seal

    def connect(self) -> None:
        """Be ready to ask Heketi; nothing is asked yet. Raises `contract.Refused`."""
        options = self.options
        key = heketi.read_key(Path(options.heketi_key_file))
        self.client = heketi.Heketi(
            options.heketi_url, key, ca_file=options.heketi_ca_file or None, timeout_s=options.heketi_timeout_s
        )
        self.volumes = Volumes(self.client, options.patience_s, self)
        self._known: dict[str, tuple[float, heketi.Node]] = {}
        self._silent: dict[str, tuple[float, Mapping[str, str]]] = {}

    def clusters(self) -> Mapping[str, str]:
        """The ids of the clusters that are pools, by the pools' names."""
        return self.options.clusters or {id: id for id in self.client.clusters()}

    def nodes(self, cluster: str) -> list[heketi.Node]:
        """The nodes that a cluster has now, each as it was a moment ago: Heketi tells all bricks with a node."""
        return self.looked_at(self.client.cluster(cluster).nodes, KNOWN_S)

    def look_anew(self, pools: Collection[str]) -> None:
        """The nodes of these pools are as they are now; as they were where Heketi does not tell."""
        with contextlib.suppress(errors.BackendError):
            for pool, cluster in self.clusters().items():
                if pool in pools:
                    self.looked_at(self.client.cluster(cluster).nodes)

    def looked_at(self, ids: Sequence[str], known_s: float = 0.0) -> list[heketi.Node]:
        """The nodes of these ids that there are, each as it is, or was at most `known_s` seconds ago."""
        found = []
        for id in ids:
            seen_s, node = self._known.get(id, (-KNOWN_S, None))
            if node is None or time.monotonic() > seen_s + known_s:
                try:
                    seen_s, node = time.monotonic(), self.client.node(id)
                except contract.Gone:  # it has just been taken away
                    self._known.pop(id, None)
                    continue
                self._known[id] = seen_s, node
            found.append(node)
        return found

    def silent(self, cluster: str) -> Mapping[str, str]:
        """The nodes of a cluster that shall serve and do not answer, each with the reason, as it was a moment ago."""
        seen_s, found = self._silent.get(cluster, (-SILENT_S, {}))
        if time.monotonic() > seen_s + SILENT_S:
            # Others take what was known meanwhile, rather than wait as well for a node that does not answer.
            self._silent[cluster] = time.monotonic(), found
            hosts = {host_of(node): node.id for node in serving(self.nodes(cluster))}
            problems = self.machines.silent(list(hosts), _ANSWERS_WITHIN_S)
            found = {hosts[host]: problem for host, problem in problems.items()}
            self._silent[cluster] = time.monotonic(), found
        return found

    def away(self, cluster: str) -> str:
        """See `volumes.Nodes`; empty too where Heketi does not tell."""
        with contextlib.suppress(errors.BackendError):
            if found := self.silent(cluster).values():
                return f"while nodes are away: {' '.join(found)}"
        return ""

    def unwell(self, cluster: str) -> str:
        """See `volumes.Nodes`; glusterd is asked for some seconds."""
        if away := self.away(cluster):
            return away
        with contextlib.suppress(errors.BackendError), ThreadPoolExecutor(_AT_ONCE) as pool:
            hosts = [host_of(node) for node in serving(self.nodes(cluster))]
            problems = pool.map(lambda host: silence(self.machines, host), hosts)
            found = [f"{host}: {problem}" for host, problem in zip(hosts, problems, strict=True) if problem]
            return f"while nodes are unwell: {' '.join(found)}" if found else ""
        return ""

    def lost(self, cluster: str) -> str:
        """See `volumes.Nodes`; empty too where Heketi does not tell."""
        with contextlib.suppress(errors.BackendError):
            nodes = self.nodes(cluster)
            there = serving(nodes)
            return ", ".join(host_of(node) for node in nodes if node not in there)
        return ""

    def gluster(self, nodes: Sequence[heketi.Node], volume: str) -> Gluster:
        """Gluster as any of the nodes speaks for it; those that answer and that Heketi has online are asked first.

        Which of these comes first depends on the volume: a glusterd does one thing at a time, and each has its part.
        """
        first = zlib.crc32(volume.encode()) % max(1, len(nodes))
        asked = sorted([*nodes[first:], *nodes[:first]], key=lambda node: node.state != "online")
        hosts = self.machines.answering_first([host_of(node) for node in asked])
        return Gluster(self.machines, hosts, lambda: self.seal.ended(nodes))

    def write_out(self, held: Held) -> None:
        """What the nodes of its bricks have written for the volume is on their disks.

        Among that are bricks that were just made, and what Heketi writes for the next start of a node: after a power
        cut a brick would be missing that has neither. Other bricks there are left alone, which may have much to write.
        """
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda node: self._write_out(host_of(node), _bricks_of(node, held)), self.holders(held)))

    def holders(self, held: Held) -> list[heketi.Node]:
        """The nodes of the volume's bricks."""
        ids = {brick.node for brick in held.volume.bricks}
        return [node for node in held.nodes if node.id in ids]

    def _write_out(self, host: str, bricks: Sequence[str]) -> None:
        try:
            if self.machines.run(host, ["sync", "-f", *bricks, *_KEPT]).code:
                self.machines.run(host, ["sync"])  # of an older system, or something is kept elsewhere
        except contract.Unreachable as error:  # the others have it, and it gets it from them
            log.warning("node=%s was not told to write what it has to its disks: %s", host, error)

    def find(self, instance: contract.ShareInstance) -> heketi.Volume | None:
        """The volume that is, or was, the instance's: by what is kept of it, by its name, by where it is mounted."""
        id = instance.driver_data.get(VOLUME_ID)
        volume = self.volumes.of_id(id) if id else None
        for name in names.volumes_of(instance):
            volume = volume or self.volumes.named(name)
        return volume

    def held(self, instance: contract.ShareInstance, ask: Ask = _info) -> Held:
        """The volume of the instance. Raises `contract.Gone` when there is none, or it is another's by now."""
        volume = self.find(instance)
        if volume is None:
            raise contract.Gone(reason=f"Heketi has no volume {names.volume_of(instance.id)}")
        held = self.look(volume, ask)
        if held.info.options.get(names.MARK) != instance.id:
            raise contract.Gone(reason=f"the volume {volume.name} is not, or no longer, that of instance {instance.id}")
        return held

    def look(self, volume: heketi.Volume, ask: Ask = _info) -> Held:
        """A volume with what gluster says of it, where it is asked by `ask`."""
        nodes = self.nodes(volume.cluster)
        gluster = self.gluster(nodes, volume.name)
        return Held(volume, ask(gluster, volume.name, nodes), nodes, gluster)

    def made(self, volume: heketi.Volume) -> Held:
        """A volume that Heketi has just made, all as ordered; its bricks are in no order.

        Gluster, which does one thing at a time, has told Heketi so, and is not asked again.
        """
        nodes = self.nodes(volume.cluster)
        hosts = {node.id: storage_host_of(node) for node in nodes}
        bricks = [f"{hosts[brick.node]}:{brick.path}" for brick in volume.bricks if brick.node in hosts]
        ordered = names.read_options(volume.glustervolumeoptions)
        info = Info(volume.name, is_started=True, options=ordered, bricks=bricks)
        return Held(volume, info, nodes, self.gluster(nodes, volume.name))

    def unsealed(self, held: Held) -> list[str]:
        """What is not so that nobody reaches the volume without a certificate."""
        found = [f"{option} was not on" for option in names.SSL if held.info.options.get(option) != "on"]
        allowed = held.info.options.get(names.ALLOW, "")
        if not {names.node(node.id) for node in held.nodes} <= set(allowed.split(",")):
            found.append("not all nodes were let in" if allowed else "anybody with a certificate was let in")
        return found

    def mend_seal(self, held: Held, clients: set[str]) -> None:
        """Nobody reaches the volume but the nodes and these clients; a volume that was open is started anew.

        What runs goes on as it was started: options that were set before it stopped would hide, from whoever tries this
        again, that it is open still.
        """
        is_open = [option for option in names.SSL if held.info.options.get(option) != "on"]
        self.let_in(held, clients)
        if is_open:
            held.gluster.stop(held.name)
            for option in is_open:
                held.gluster.set(held.name, option, "on")
        if is_open or not held.info.is_started:
            held.gluster.start(held.name)

    def let_in(self, held: Held, clients: set[str], *options: str) -> None:
        """Make these all the clients that reach the volume, and set options by the same command.

        Raises `contract.Refused` for more than gluster bears.
        """
        wanted = names.allow((node.id for node in held.nodes), clients)
        if options or held.info.options.get(names.ALLOW) != wanted:
            held.gluster.set(held.name, *options, names.ALLOW, wanted)

    def is_counted(self, held: Held) -> bool:
        """Whether what is used is counted, and at once."""
        return held.info.options.get(_QUOTA) == "on" and not self._late(held)

    def _late(self, held: Held) -> dict[str, str]:
        """The options without which what is used is counted some seconds later."""
        return {option: value for option, value in COUNTING.items() if held.info.options.get(option) != value}

    def limit_gib(self, held: Held) -> float | None:
        """How much the volume may hold; None for no limit, and for one that does not count at once."""
        quota = self.quota(held) if self.is_counted(held) else None
        return None if quota is None else quota.limit_bytes / GIB

    def quota(self, held: Held) -> Quota | None:
        """The volume's limit, whenever it counts, and what it holds; None for no limit."""
        return held.gluster.quota(held.name) if held.info.options.get(_QUOTA) == "on" else None

    def limit(self, held: Held, size_gib: int) -> None:
        """Let the volume hold so much."""
        self._limit(held, size_gib)
        if self.is_limited_later(held):
            held.gluster.set(held.name, names.LIMIT, names.LIMITED)

    def limit_first(self, held: Held, size_gib: int) -> Sequence[str]:
        """A volume that is yet to get its limit has it, and nobody is let in before.

        What marks the volume as limited is to be set with whatever is set next.
        """
        if not self.is_limited_later(held):
            return ()
        self._limit(held, size_gib)
        return names.LIMIT, names.LIMITED

    def _limit(self, held: Held, size_gib: int) -> None:
        if held.info.options.get(_QUOTA) != "on":
            held.gluster.enable_quota(held.name)
        for option, value in self._late(held).items():
            held.gluster.set(held.name, option, value)
        held.gluster.limit(held.name, size_gib)

    def is_limited_later(self, held: Held) -> bool:
        """Whether the volume gets its limit only before somebody is let in: that takes longer than all the rest."""
        return held.info.options.get(names.LIMIT) == names.LATER


def serving(nodes: Iterable[heketi.Node]) -> list[heketi.Node]:
    """Those that bricks are or may be on: one that is lost for good stays in Heketi's list, with its devices."""

    def is_lost(node: heketi.Node) -> bool:
        return node.state == FAILED or (bool(node.devices) and all(one.state == FAILED for one in node.devices))

    return [node for node in nodes if not is_lost(node)]


def _bricks_of(node: heketi.Node, held: Held) -> list[str]:
    """The paths of the volume's bricks on the node."""
    placed = (brick.rpartition(":") for brick in held.info.bricks)
    return [path for host, _, path in placed if host in node.hostnames.storage]
