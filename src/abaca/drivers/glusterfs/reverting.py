# SPDX-License-Identifier: Apache-2.0
"""How a share of the GlusterFS driver goes back to a snapshot: a node empties it, and copies what the snapshot holds.

The end does it all, and is asked again until it is done: until then nobody but the nodes reaches the volume, whose
bricks were stopped once, so that nobody writes any more who did before. How far it is stands in an option of the
volume, of which whoever goes on begins: `wanted`, `closing`, `going`, `done`. What was written since the snapshot is
lost from `going` on: then it can be taken back no more, and is `lost`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from abaca.drivers import contract
from abaca.drivers.glusterfs import names
from abaca.drivers.glusterfs.names import CLOSING, GOING
from abaca.drivers.glusterfs.serving import Held, serving
from abaca.drivers.glusterfs.shares import Shares

_WANTED, _DONE, _LOST = "wanted", "done", "lost"
_LOOK_S, _PATIENCE_S = 5.0, 30 * 86400.0


class Reverting(Shares, contract.RevertsAtOnce):
    """A share whose content becomes that of its newest snapshot, which stays."""

    def start_revert(self, revert: contract.Revert) -> None:
        held = self._held_with(revert.snapshot)
        self.seal.close(serving(held.nodes))
        if _how_far(held, revert.snapshot) not in {CLOSING, GOING}:
            _note(held, _WANTED, revert.snapshot)

    def revert(self, snapshot: contract.Snapshot, rules: Sequence[contract.AccessRule]) -> None:
        """See `contract.RevertsAtOnce`. Raises `contract.UnderWay` as long as it is copied."""
        held = self._held_with(snapshot)
        if _how_far(held, snapshot) != _DONE:
            self._push(held, snapshot)
        self.set_access(snapshot.instance, rules)

    def cancel_revert(self, revert: contract.Revert) -> None:
        """See `contract.Reverts`. One that has gone back whole has nothing that could be taken back."""
        with contextlib.suppress(contract.Gone):
            held = self.held(revert.snapshot.instance)
            how_far = _how_far(held, revert.snapshot)
            if how_far in {CLOSING, GOING, _DONE}:
                self._open_again(held, revert)
            is_lost = how_far in {GOING, _LOST}
            if how_far in {_WANTED, CLOSING, GOING}:
                _note(held, _LOST if is_lost else names.NOBODY, revert.snapshot)
            if is_lost:
                reason = f"what {held.name} held before is lost, and it may have part of the snapshot: go back to that"
                raise contract.Refused(reason=reason)

    def _push(self, held: Held, snapshot: contract.Snapshot) -> None:
        """Raises `contract.UnderWay` until the volume has what the snapshot holds."""
        if _how_far(held, snapshot) != GOING or not self.is_marked(held, snapshot.id):
            self._close(held, snapshot)
            held = self.look(held.volume)
        progress = self.push_copy(held, lambda: held.name, is_emptied=True)
        if not progress.is_done:
            reason = f"{progress.details}, {progress.percent} %"
            raise contract.UnderWay(reason=reason, look_again_s=_LOOK_S, within_s=_PATIENCE_S)
        self.limit(held, snapshot.instance.size_gib)
        _note(held, _DONE, snapshot)

    def _close(self, held: Held, snapshot: contract.Snapshot) -> None:
        """Nobody writes to it any more, and it may be copied to.

        The bricks know of who is let in only some moments later, unless they are started by it. What is deleted counts
        for a while still, so that the limit would stop the copy.
        """
        _note(held, CLOSING, snapshot)
        self.take_back(snapshot.instance, [held.name])
        self.let_in(held, set())
        held.gluster.stop(held.name)
        held.gluster.start(held.name)
        self.limit(held, 2 * held.volume.size)
        self.mark_copy(held, snapshot.id)
        _note(held, GOING, snapshot)

    def _open_again(self, held: Held, revert: contract.Revert) -> None:
        """Nothing copies to it, and it is reached as before, with whatever it has."""
        instance = revert.snapshot.instance
        self.stop_copying(held.volume, held.info.options)
        self.unmark_copy(held)
        held.gluster.start(held.name)
        self.limit(held, instance.size_gib)
        self.set_access(instance, revert.rules)

    def _held_with(self, snapshot: contract.Snapshot) -> Held:
        """The volume that has the snapshot. Raises `contract.Gone`."""
        held = self.held(snapshot.instance)
        name = names.snapshot_of(snapshot.id)
        if name not in held.gluster.snapshots(held.name):
            raise contract.Gone(reason=f"{held.name} has no snapshot {name}")
        return held


def _how_far(held: Held, snapshot: contract.Snapshot) -> str:
    """Empty for one that does not go back to that snapshot."""
    how_far, _, id = held.info.options.get(names.REVERT, "").partition("@")
    return how_far if id == snapshot.id and how_far != names.NOBODY else ""


def _note(held: Held, how_far: str, snapshot: contract.Snapshot) -> None:
    held.gluster.set(held.name, names.REVERT, f"{how_far}@{snapshot.id}")
