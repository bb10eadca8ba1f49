# SPDX-License-Identifier: Apache-2.0
"""The GlusterFS driver's snapshots: gluster's own, in the thin pools of a volume's bricks."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from abaca.drivers import contract
from abaca.drivers.clients.gluster import Gluster
from abaca.drivers.glusterfs import names
from abaca.drivers.glusterfs.serving import Held
from abaca.drivers.glusterfs.shares import Shares
from abaca.drivers.glusterfs.volumes import DELETING


class Snapshots(Shares, contract.Snapshots):
    """One moment of a volume each, as many as its pools have room for were all of it written over."""

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
                    _drop(self.gluster(nodes), name)
            self.forget(instance)
            return
        _drop(self.gluster(self.nodes(volume.cluster)), name)
        with contextlib.suppress(contract.Gone):
            held = self.look(volume)
            if held.info.options.get(names.MARK) == names.RETIRED and not held.info.snapshot_count:
                self.volumes.delete(volume)


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
