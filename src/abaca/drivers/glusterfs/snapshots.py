# SPDX-License-Identifier: Apache-2.0
"""The GlusterFS driver's snapshots: gluster's own, in the thin pools of a volume's bricks, and shares from them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from abaca.drivers import contract
from abaca.drivers.clients.gluster import Gluster
from abaca.drivers.glusterfs import names
from abaca.drivers.glusterfs.serving import Held
from abaca.drivers.glusterfs.shares import Shares
from abaca.drivers.glusterfs.volumes import DELETING


class Snapshots(Shares, contract.Snapshots, contract.ClonesSnapshots):
    """One moment of a volume each, as many as its pools have room for were all of it written over.

    A share that starts from one is a volume of its own, as any, to which a node copies; of one snapshot one at a time.
    """

    def create_snapshot(self, snapshot: contract.Snapshot) -> contract.SnapshotOutcome:
        held = self.held(snapshot.instance)
        name = names.snapshot_of(snapshot.id)
        taken = held.gluster.snapshots(held.name)
        if name not in taken:
            _check_room(held, taken)
            held.gluster.take_snapshot(name, held.name)
        return contract.SnapshotOutcome(provider_location=name)

    def delete_snapshot(self, snapshot: contract.Snapshot) -> None:
        """See `contract.Snapshots`. The last one of a share that was deleted takes the volume with it."""
        instance, name = snapshot.instance, names.snapshot_of(snapshot.id)
        if self.settle(instance, DELETING):
            return
        volume = self.find(instance)
        if volume is None:
            for cluster in self.clusters().values():
                if nodes := self.nodes(cluster):
                    _drop(self.gluster(nodes, name), name)
            self.forget(instance)
            return
        _drop(self.gluster(self.nodes(volume.cluster), volume.name), name)
        with contextlib.suppress(contract.Gone):
            held = self.look(volume)
            if held.info.options.get(names.MARK) == names.RETIRED and not held.info.snapshot_count:
                self.delete_volume(held)

    def start_clone(self, clone: contract.Clone) -> None:
        origin = self._origin(clone)
        nodes = self.nodes(origin.volume.cluster)
        held = self.make(clone.instance, self.first_mark(clone.snapshot.id, nodes, clone.instance.id))
        self.push_copy(held, lambda: origin.name)

    def look_at_clone(self, clone: contract.Clone) -> contract.Progress:
        held = self.held(clone.instance)
        return self.push_copy(held, lambda: self._origin(clone).name)

    def end_clone(self, clone: contract.Clone) -> contract.Created:
        held = self.held(clone.instance)
        if not self.is_copied(held):
            raise contract.Busy(reason=f"{held.name} has not all of its content")
        return self.created(clone.instance, held)

    def cancel_clone(self, clone: contract.Clone) -> None:
        self.delete(clone.instance)

    def _origin(self, clone: contract.Clone) -> Held:
        """The volume that the snapshot is of, that of a deleted share too. Raises `contract.Gone`, `Refused`."""
        volume = self.find(clone.snapshot.instance)
        name = names.snapshot_of(clone.snapshot.id)
        if volume is None:
            raise contract.Gone(reason=f"Heketi has no volume with the snapshot {name}")
        if volume.cluster != self.cluster_of(clone.instance):
            raise contract.Refused(reason=f"{name} is in another cluster: its nodes cannot copy to the pool")
        held = self.look(volume)
        if name not in held.gluster.snapshots(held.name):
            raise contract.Gone(reason=f"{held.name} has no snapshot {name}")
        return held


def _check_room(held: Held, taken: Sequence[str]) -> None:
    """Raises `contract.Refused` for a volume that was made without room for snapshots, `contract.Full` beyond it."""
    room = held.volume.snapshot
    most = int(room.factor) - 1 if room.enable else 0
    if most < 1:
        raise contract.Refused(
            reason=f"Heketi made {held.name} without room for snapshots: "
            "shares that are made once snapshots_per_share is set have it"
        )
    if len(taken) >= most:
        raise contract.Full(reason=f"{held.name} has room for {most} snapshots, and has {len(taken)}: delete one first")


def _drop(gluster: Gluster, name: str) -> None:
    with contextlib.suppress(contract.Gone):
        gluster.drop_snapshot(name)
