# SPDX-License-Identifier: Apache-2.0
"""A volume that gets more bricks, and what Heketi leaves of that where it is killed or gives up in the middle.

Heketi keeps such work as abandoned, and as long as it is there neither grows the volume nor deletes it. It cleans up by
taking the new bricks away, those too which GlusterFS has in the volume by then. So they leave the volume before that.
"""

from __future__ import annotations

from abaca.drivers import contract
from abaca.drivers.glusterfs.root_directory import RootDirectory
from abaca.drivers.glusterfs.serving import Held

_LOOK_S, _PATIENCE_S = 5.0, 30 * 86400.0


class Growing(RootDirectory):
    """Volumes that are made larger, and can be taken away whatever came of that."""

    def grow(self, held: Held, to_gib: int) -> None:
        """The volume has at least that size. Raises `contract.UnderWay`, `Full`."""
        self.note_root(held)
        # What GlusterFS was told to add before Heketi died it has added now: it has just set an option.
        held = self.look(held.volume)
        bricks = self._left_bricks(held)
        if bricks and not held.gluster.take_out(held.name, bricks):
            reason = f"{held.name} lets go of the bricks of an expansion that Heketi has given up"
            raise contract.UnderWay(reason=reason, look_again_s=_LOOK_S, within_s=_PATIENCE_S)
        self.volumes.forget_growth(held.volume)
        self.volumes.expand(held.volume, to_gib)

    def delete_volume(self, held: Held) -> None:
        """The volume is gone, with its data. Raises `contract.UnderWay`."""
        if self._left_bricks(held):
            held.gluster.stop(held.name)  # or its bricks hold what Heketi shall take away
        self.volumes.forget_growth(held.volume)
        self.volumes.delete(held.volume)

    def _left_bricks(self, held: Held) -> list[str]:
        """What the volume has of the bricks of expansions that Heketi has given up."""
        left = self.volumes.left_bricks(held.volume)
        return [brick for brick in held.info.bricks if any(id in brick for id in left)]
