# SPDX-License-Identifier: Apache-2.0
"""The GlusterFS driver's shares: a whole volume each."""

from __future__ import annotations

import contextlib
import datetime
import math
from collections.abc import Mapping, Sequence

from abaca.drivers import contract
from abaca.drivers.clients import heketi
from abaca.drivers.clients.gluster import GIB, Gluster, Info, Quota
from abaca.drivers.exports import clients
from abaca.drivers.glusterfs import durability, names
from abaca.drivers.glusterfs.copying import Copying
from abaca.drivers.glusterfs.exporting import Exporting, is_nfs
from abaca.drivers.glusterfs.growing import Growing
from abaca.drivers.glusterfs.serving import COUNTING, VOLUME_ID, Held, serving
from abaca.drivers.glusterfs.volumes import DELETING, GROWING, MAKING, ordered_gib


class Shares(Exporting, Copying, Growing, contract.Resizes, contract.Manages, contract.MeasuresUsage):
    """A volume with a limit each, and a list of certificates or an export by NFS."""

    def create(self, instance: contract.ShareInstance) -> contract.Created:
        return self.created(instance, self.make(instance, f"{names.LIMIT} {names.LATER}"))

    def make(self, instance: contract.ShareInstance, *marks: str) -> Held:
        """The instance's volume, sealed and handed out to nobody yet; `marks` are what it has set from its first
        moment. It is limited unless they say that this comes later. Raises as `create` does.
        """
        is_just_made = self.settle(instance, MAKING)
        cluster = self.cluster_of(instance)
        if is_nfs(instance):
            self.server()
        nodes = self.nodes(cluster)
        kept = durability.wanted(instance.extra_specs, self.options.durability)
        answering = self._answering(cluster, nodes, kept)
        first = {names.NFS} if is_nfs(instance) else ()
        ours = [
            *(f"{option} on" for option in names.SSL),
            *(f"{option} {value}" for option, value in COUNTING.items()),
            f"{names.ALLOW} {names.allow((node.id for node in nodes), first)}",
            *marks,
            f"{names.MARK} {instance.id}",
        ]
        order = heketi.Order(
            name=names.volume_of(instance.id),
            size=max(ordered_gib(instance.size_gib), durability.least_gib(kept)),
            durability=kept,
            clusters=[cluster],
            # Each is a command to gluster, on all nodes: what is ours is one.
            glustervolumeoptions=[*names.options_of(instance.extra_specs), " ".join(ours)],
            snapshot=self._snapshot_room(),
        )
        self.seal.close(answering)
        try:
            volume = self.volumes.make(order)
        except contract.Full as error:
            if few := _too_few(instance.extra_specs.get(durability.SPEC, self.options.durability), nodes):
                raise contract.Full(reason=few) from error
            raise
        if names.read_options(volume.glustervolumeoptions).get(names.MARK) != instance.id:
            reason = f"Heketi has a volume {volume.name} that somebody else made: delete it, or give it another name"
            raise contract.Refused(reason=reason)
        held = self.made(volume) if is_just_made else self.look(volume)
        self.seal.close(self.holders(held))
        self.write_out(held)
        if not held.info.is_started:
            held.gluster.start(held.name)
        if not self.is_limited_later(held) and self.limit_gib(held) is None:
            self.limit(held, instance.size_gib)
        return held

    def _answering(self, cluster: str, nodes: list[heketi.Node], kept: heketi.Durability) -> list[heketi.Node]:
        """The nodes that can be logged in to; Heketi puts bricks on no others. Raises `contract.Unreachable`."""
        silent = self.silent(cluster)
        answering = [node for node in serving(nodes) if node.id not in silent]
        if silent and len(answering) < durability.nodes(kept):
            raise contract.Unreachable(reason=" ".join(silent.values()))
        return answering

    def created(self, instance: contract.ShareInstance, held: Held) -> contract.Created:
        """The volume is handed out, to nobody yet, and where it can be mounted from."""
        self.hand_out(instance, held)
        return contract.Created(exports=self.exports(instance, held), driver_data={VOLUME_ID: held.volume.id})

    def cluster_of(self, instance: contract.ShareInstance) -> str:
        """The cluster of the instance's pool. Raises `contract.Refused`."""
        cluster = self.clusters().get(instance.pool)
        if cluster is None:
            raise contract.Refused(reason=f"there is no pool {instance.pool!r}: has its cluster been taken away?")
        return cluster

    def _snapshot_room(self) -> heketi.SnapshotRoom:
        """Room in the thin pools for everything once more for each snapshot; a pool that is full loses what is written.

        None but Heketi can give that, and only when it makes a brick.
        """
        most = self.options.snapshots_per_share
        return heketi.SnapshotRoom(enable=True, factor=most + 1) if most else heketi.SnapshotRoom()

    def settle(self, instance: contract.ShareInstance, work: str) -> bool:
        """Whether `work` was begun here for its volume and has ended well. Raises as `Volumes.settle` does."""
        return any(self.volumes.settle(name, work) for name in names.volumes_of(instance))

    def delete(self, instance: contract.ShareInstance) -> None:
        if self.settle(instance, DELETING):
            return
        volume = self.find(instance)
        if volume is None:
            self.forget(instance)
            self.take_back(instance, names.volumes_of(instance))
            return
        try:
            held = self.look(volume)
        except contract.Gone:  # gluster has lost it; Heketi tells for whom it was made
            ordered = names.read_options(volume.glustervolumeoptions)
            if ordered.get(names.MARK) == instance.id or instance.driver_data.get(VOLUME_ID) == volume.id:
                self.stop_copying(volume, ordered)
                self.take_back(instance, [volume.name])
                self.volumes.delete(volume)
            return
        if held.info.options.get(names.MARK) == instance.id:
            self.stop_copying(volume, held.info.options)
            if held.info.snapshot_count:
                self._retire(instance, held)
                return
            self.take_back(instance, [volume.name])
            self.delete_volume(held)

    def _retire(self, instance: contract.ShareInstance, held: Held) -> None:
        """Keep the volume for its snapshots alone, out of everybody's reach.

        Heketi is not asked to delete it meanwhile: it would stop the volume, and fail then.
        """
        strange = [name for name in held.gluster.snapshots(held.name) if not name.startswith(names.SNAPSHOT)]
        if strange:
            raise contract.Refused(
                reason=f"somebody took snapshots of {held.name}, delete them first: {', '.join(strange)}"
            )
        self.take_back(instance, [held.name])
        self.let_in(held, set())
        held.gluster.stop(held.name)
        held.gluster.set(held.name, names.MARK, names.RETIRED)

    def forget(self, instance: contract.ShareInstance) -> None:
        """Nothing that Heketi hides is the instance's, which has no volume. Raises `contract.UnderWay`."""
        for name in names.volumes_of(instance):
            for cluster in self.clusters().values():
                self.volumes.forget(name, cluster)

    def set_access(
        self, instance: contract.ShareInstance, rules: Sequence[contract.AccessRule]
    ) -> dict[str, contract.AccessOutcome]:
        if is_nfs(instance):
            return self._set_clients(instance, rules)
        problems = {rule.id: names.problem_of_rule(rule) for rule in rules}
        wanted = names.of_rules(rules)

        def let_in(gluster: Gluster, volume: str, nodes: Sequence[heketi.Node]) -> Info:
            """By one command, where there is a limit already; a volume that lets in just these is left alone."""
            ids = [node.id for node in nodes]
            allow = names.ALLOW, names.allow(ids, names.fitting(ids, wanted))
            return gluster.set_where(volume, (names.MARK, instance.id), ((names.LIMIT, names.LATER), allow), allow)

        held = self.held(instance, let_in)
        fitting = names.fitting((node.id for node in held.nodes), wanted)
        too_many = f"GlusterFS keeps {names.MOST_ALLOWED} characters of names for a share: take other rules away first"
        problems |= {rule.id: too_many for rule in rules if not problems[rule.id] and rule.to not in fitting}
        if self.is_limited_later(held):
            limited = self.limit_first(held, instance.size_gib) if fitting else ()
            self.let_in(held, fitting, *limited)
        return {
            id: contract.AccessOutcome(state="error", reason=problem) for id, problem in problems.items() if problem
        }

    def _set_clients(
        self, instance: contract.ShareInstance, rules: Sequence[contract.AccessRule]
    ) -> dict[str, contract.AccessOutcome]:
        """Those whom the NFS server lets in; it alone is let in by the volume."""
        held = self.held(instance)
        self.let_in(held, {names.NFS})
        wanted, outcomes = clients.from_rules(rules)
        if wanted and self.is_limited_later(held):
            self.limit(held, instance.size_gib)
        self.hand_out(instance, held, wanted)
        return outcomes

    def extend(self, instance: contract.ShareInstance, new_size_gib: int) -> None:
        self.settle(instance, GROWING)
        held = self.held(instance)
        if held.volume.size < ordered_gib(new_size_gib):
            self.seal.close(serving(held.nodes))
            self.mend_seal(held, self.let_in_by(instance, held))
            self.grow(held, ordered_gib(new_size_gib))
            held = self.held(instance)
        if self.is_root_noted(held):  # it has grown, be it since another call began that
            self.write_out(held)
        self.give_back_root(held)
        if self.limit_gib(held) != new_size_gib:
            self.limit(held, new_size_gib)

    def shrink(self, instance: contract.ShareInstance, new_size_gib: int) -> None:
        held = self.held(instance)
        if self.is_limited_later(held):  # nobody has been in, and it is empty
            self.limit(held, new_size_gib)
            return
        quota = held.gluster.quota(held.name) if self.is_counted(held) else None
        if quota is None:
            raise contract.Refused(reason=f"what {held.name} holds is not counted: have the back end's shares ensured")
        if quota.used_bytes > new_size_gib * GIB:
            raise contract.Refused(reason=f"{quota.used_bytes / GIB:.2f} GiB are in use")
        if quota.limit_bytes != new_size_gib * GIB:
            self.limit(held, new_size_gib)

    def measure_usage(self, instances: Sequence[contract.ShareInstance]) -> dict[str, contract.Usage]:
        now = datetime.datetime.now(datetime.UTC)
        seen = {}
        for instance in instances:
            with contextlib.suppress(contract.Gone, contract.Refused, contract.Busy):
                held = self.held(instance)
                if self.is_limited_later(held):  # nobody has been in
                    seen[instance.id] = contract.Usage(used_gib=0.0, gathered_at=now)
                elif (quota := held.gluster.quota(held.name)) is not None:
                    seen[instance.id] = contract.Usage(used_gib=quota.used_bytes / GIB, gathered_at=now)
        return seen

    def manage(self, instance: contract.ShareInstance, options: Mapping[str, str]) -> contract.Managed:
        volume = self._named_by(instance)
        held = self.look(volume)
        self.check_export(instance, held)
        holder = held.info.options.get(names.MARK, "")
        is_free = holder in {"", names.NOBODY}
        if not is_free and holder != instance.id:
            raise contract.Refused(reason=_holds(volume.name, holder))
        self.seal.close(serving(held.nodes))
        self.mend_seal(held, self.let_in_by(instance, held))
        if is_free:
            held.gluster.set(held.name, names.MARK, instance.id)
        quota = self.quota(held)
        # Without a limit users could have all that there is: one for less might be below what they have.
        size_gib = _size_of(quota) if quota else volume.size
        if self.limit_gib(held) != size_gib:
            self.limit(held, size_gib)
        self.hand_out(instance, held)
        return contract.Managed(
            size_gib=size_gib, exports=self.exports(instance, held), driver_data={VOLUME_ID: volume.id}
        )

    def _named_by(self, instance: contract.ShareInstance) -> heketi.Volume:
        cluster = self.cluster_of(instance)
        for name in names.volumes_in(instance.exports):
            volume = self.volumes.named(name, cluster)
            if volume is not None:
                return volume
        raise contract.Gone(reason=f"Heketi has no volume of that name in the cluster of the pool {instance.pool}")

    def unmanage(self, instance: contract.ShareInstance) -> None:
        with contextlib.suppress(contract.Gone):
            held = self.held(instance)
            held.gluster.set(held.name, *self.limit_first(held, instance.size_gib), names.MARK, names.NOBODY)


def _too_few(kept: str, nodes: Sequence[heketi.Node]) -> str:
    """Why there is no room in these nodes for what is kept so, whatever its size; empty where they are enough."""
    found = sum(any(device.state == "online" for device in node.devices) for node in nodes)
    needed = durability.nodes(durability.read(kept))
    return f"{kept} needs {needed} nodes with a device that is online, the pool has {found}" if found < needed else ""


def _holds(volume: str, holder: str) -> str:
    """Why nobody else can have a volume."""
    if holder == names.RETIRED:
        return f"the volume {volume} is kept for the snapshots of a share that was deleted, and goes with them"
    return f"the volume {volume} is that of instance {holder}"


def _size_of(quota: Quota) -> int:
    """The size of a share whose limit was set by somebody else; what it holds is in it."""
    return max(1, math.ceil(quota.limit_bytes / GIB), math.ceil(quota.used_bytes / GIB))
