# SPDX-License-Identifier: Apache-2.0
"""How a run lets go of its operation: for another try, until something is so, for another queue, or for good."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.engine import trouble
from abaca.db.journal import children, runs
from abaca.journal.interruptions import DATABASE_AWAY, PASSING, LeaseLost, Wait, WaitedTooLong

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.journal.kinds import Retry
    from abaca.journal.op import Op

log = logging.getLogger(__name__)


class Handover:
    """Each of these says how the run ends, and raises `LeaseLost` when the operation is somebody else's by now."""

    def __init__(self, op: Op[object], retry: Retry, stopping: threading.Event) -> None:
        self.op = op
        self.retry = retry
        self.stopping = stopping
        # told of the conditions that a step begins to wait for
        self.expecting: Callable[[Sequence[str]], None] = lambda _conditions: None

    def insist(self, write: Callable[[Tx], None]) -> None:
        """Commit `write`, again and again while the database is away: what was done is not done twice for that."""
        op = self.op
        for pause_s in itertools.chain((0.1, 0.2, 0.5), itertools.repeat(1.0)):
            try:
                with op.db.write() as tx:
                    write(tx)
                return
            except DATABASE_AWAY as error:
                if pause_s == 0.1:
                    log.warning("op=%s waits for the database: %s", op.id, str(error).split("\n")[0])
                if self.stopping.wait(pause_s):
                    raise

    def catch_up(self) -> None:
        """Put on record what has ended, before anything else is done to the world."""
        if self.op.is_ahead:
            self.insist(self.op.checkpoint)
            self.op.is_on_record()

    def hand_back(self) -> str:
        """Give it back to its queue: the worker is being stopped."""
        op = self.op
        with op.db.write() as tx:
            self._forget_waits(tx)
            _kept(runs.hand_back(tx, op.id, op.token, op.standing()))
            tx.wake(op.queue)
        return "handed back"

    def hop(self, queue: str) -> str:
        """Go on from there: what has been done is recorded with the move."""
        op = self.op

        def hop(tx: Tx) -> None:
            self._forget_waits(tx)
            _kept(runs.hop(tx, op.id, op.token, op.standing(), queue))

        self.insist(hop)
        return "moved"

    def _forget_waits(self, tx: Tx) -> None:
        """What an earlier step waited for is no matter of the next."""
        if self.op.is_ahead and self.op.has_waits:
            self.op.checkpoint(tx)

    def park(self) -> str:
        """Let it pause, or go on if that was taken back."""
        op = self.op
        op.attempt = 0

        def park(tx: Tx) -> None:
            self._forget_waits(tx)
            _kept(runs.park(tx, op.id, op.token, op.standing()))
            tx.wake(op.queue)  # it may have been resumed or cancelled at this moment

        self.insist(park)
        return "paused"

    def try_again(self, error: BaseException) -> str:
        """Let it wait for another try."""
        op, problem = self.op, readable(error)
        delay_s = self.retry.delay_s(op.attempt)
        log.warning(
            "op=%s kind=%s try %d: %s; again in %g s", op.id, op.what.kind, op.attempt + 1, problem.message, delay_s
        )
        # the last try is left to what the work itself meets
        if not trouble.is_away(error) or op.attempt + 1 < len(self.retry.delays_s):
            op.attempt += 1
        # while undoing, the error that is shown stays the one that is being undone
        place = msgspec.structs.replace(op.standing(), error=op.error or (problem.code, problem.message))

        def wait(tx: Tx) -> None:
            self._forget_waits(tx)
            _kept(runs.wait(tx, op.id, op.token, place, op.db.time() + delay_s))

        self.insist(wait)
        op.waits_s = delay_s
        return "waiting"

    def wait_for(self, wait: Wait) -> str | None:
        """Put it aside; None when the step is to look once more, since something may have been signalled meanwhile.

        Raises what the wait ends in when it has taken too long.
        """
        op, now_s = self.op, self.op.db.time()
        known = op.wait if op.wait is not None and "since_s" in op.wait else None
        # What may last for another time is another thing, of which the time begins now.
        since_s = known["since_s"] if known is not None and known.get("within_s") == wait.within_s else now_s
        if wait.within_s is not None and now_s - since_s >= wait.within_s:
            raise wait.error or WaitedTooLong(seconds=round(wait.within_s), what=wait.what)
        is_registered = not wait.conditions or (known is not None and known["conditions"] == [*wait.conditions])
        op.wait = {"what": wait.what, "conditions": [*wait.conditions], "since_s": since_s}
        if wait.within_s is not None:
            op.wait |= {"within_s": wait.within_s, "until_s": since_s + wait.within_s}
        if not is_registered:
            self._register(wait)
            return None
        after_s = now_s + wait.look_again_s
        aside = runs.Aside(
            after_s=min(after_s, op.wait.get("until_s", after_s)),
            wait=op.wait,
            heard=op.signals,
            each_child=wait.each_child,
        )
        op.attempt = 0
        if op.direction == "do" and op.wants_pause():
            return self.park()
        return self._put_aside(aside)

    def _register(self, wait: Wait) -> None:
        op = self.op

        def register(tx: Tx) -> None:
            self._hear(runs.register_wait(tx, op.id, op.token, wait.conditions, op.wait or {"what": wait.what}))

        op.has_waits = True
        self.insist(register)
        self.expecting(wait.conditions)
        op.point(self._whereabouts(), "registered")

    def _hear(self, heard: tuple[int, bool] | None) -> None:
        if heard is None:
            raise LeaseLost
        self.op.signals, is_cancelled = heard
        self.op.cancel |= is_cancelled

    def _put_aside(self, aside: runs.Aside) -> str | None:
        op = self.op
        was_put_aside = False

        def put_aside(tx: Tx) -> None:
            nonlocal was_put_aside
            was_put_aside = runs.put_aside(tx, op.id, op.token, op.standing(), aside)
            if not was_put_aside:
                self._hear(runs.signals(tx, op.id, op.token))

        self.insist(put_aside)
        if not was_put_aside:
            return self.hand_back() if self.stopping.is_set() else None
        op.waits_s = max(0.0, aside.after_s - op.db.time())
        op.point(self._whereabouts(), "aside")
        return "waiting"

    def _whereabouts(self) -> str:
        """Where it stands, as points name it."""
        op = self.op
        if not 0 <= op.step < len(op.what.steps):
            return "end"
        return op.what.steps[op.step].name + (":undo" if op.direction == "undo" else "")

    def await_children(self) -> str | None:
        """None when all have ended; before that the operation neither ends nor undoes anything."""
        op = self.op
        while True:
            with op.db.read() as tx:
                live = children.count_live(tx, op.id)
            if not live:
                op.has_children = False
                return None
            outcome = self.wait_for(Wait(f"{live} operations that it has started go on", look_again_s=60.0))
            if outcome is not None:
                return outcome


def _kept(is_ours: bool) -> None:  # noqa: FBT001 - the answer of a guarded write
    if not is_ours:
        raise LeaseLost


def readable(error: BaseException) -> errors.AbacaError:
    """The error as a user may read it: ours as it is; a stranger's is a bug, logged whole and told by its name."""
    if isinstance(error, errors.AbacaError):
        return error
    if isinstance(error, PASSING):
        log.warning("the database: %s", str(error).split("\n")[0])
        if (problem := trouble.of_disk(error)) is not None:
            return errors.Unavailable(f"The database {problem}.")
        return errors.Unavailable(part="The database")
    log.error("unexpected error in an operation", exc_info=error)
    return errors.AbacaError(f"an unexpected {type(error).__name__} stopped the work; the worker's log has the details")
