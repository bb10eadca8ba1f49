# SPDX-License-Identifier: Apache-2.0
"""Steps that take longer than they may: shown, counted, and no longer in the way of others.

A driver's call that hangs cannot be ended from outside. It keeps its thread and its lease, so that nobody runs the step
a second time; but its slot is given to others, at most as often as the queue has slots.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import exc

from abaca.db.journal import runs

if TYPE_CHECKING:
    from abaca.db.engine.database import Database
    from abaca.journal.kinds import Step
    from abaca.journal.op import Op
    from abaca.journal.queues import WorkQueue

log = logging.getLogger(__name__)


class _Watched(msgspec.Struct, eq=False):
    """A step under way, and when it is overdue, by the monotonic clock."""

    op: Op[object]
    queue: WorkQueue[object]
    step: str
    within_s: float
    until_s: float
    at_step: int
    is_over: bool = False


class Overdue:
    """Watches the steps of one worker. `lock` guards the slots of its queues; `freed` is told of a queue with more."""

    def __init__(self, db: Database, lock: threading.Condition, freed: Callable[[str], None]) -> None:
        self._db = db
        self._lock = lock
        self._freed = freed
        self._changed = threading.Condition()
        self._watched: dict[str, _Watched] = {}
        # no step is cheaper to watch than one that ends before anybody looks
        self._looks_at_s = math.inf
        self._is_over = False

    @contextlib.contextmanager
    def watching(self, op: Op[object], queue: WorkQueue[object], step: Step) -> Iterator[None]:
        """While a step runs; each of its parts may take as long as the step."""
        if step.within_s is None:
            yield
            return
        one = self._begin(op, queue, step.name, step.within_s)

        def part_ended() -> None:
            nonlocal one
            self._end(one)
            one = self._begin(op, queue, step.name, one.within_s)

        op.part_ended = part_ended
        try:
            yield
        finally:
            op.part_ended = lambda: None
            self._end(one)

    def _begin(self, op: Op[object], queue: WorkQueue[object], step: str, within_s: float) -> _Watched:
        one = _Watched(op, queue, step, within_s, time.monotonic() + within_s, op.step)
        with self._changed:
            self._watched[op.id] = one
            if one.until_s < self._looks_at_s:
                self._looks_at_s = one.until_s
                self._changed.notify()
        return one

    def _end(self, one: _Watched) -> None:
        with self._changed:
            self._watched.pop(one.op.id, None)
        with self._lock:
            one.is_over = True
            if one.op.id in one.queue.overdue:
                one.queue.overdue.discard(one.op.id)
                one.queue.running += 1

    def run(self) -> None:
        """Look after the steps until `stop`."""
        while True:
            with self._changed:
                if self._is_over:
                    return
                now_s = time.monotonic()
                late = [one for one in self._watched.values() if one.until_s <= now_s]
                for one in late:
                    del self._watched[one.op.id]
                if not late:
                    self._looks_at_s = min((one.until_s for one in self._watched.values()), default=math.inf)
                    self._changed.wait(None if math.isinf(self._looks_at_s) else self._looks_at_s - now_s)
            if late:
                self._show(late)

    def stop(self) -> None:
        """`run` returns."""
        with self._changed:
            self._is_over = True
            self._changed.notify()

    def _show(self, late: list[_Watched]) -> None:
        for one in late:
            log.warning(
                "op=%s kind=%s %s takes longer than the %g s that it may",
                one.op.id,
                one.op.what.kind,
                one.step,
                one.within_s,
            )
        try:
            for one in late:  # each by itself: who waits for a row holds none
                with self._db.once() as tx:
                    runs.mark_overdue(tx, one.op.id, one.op.token, one.at_step, self._db.time())
        except exc.SQLAlchemyError as error:
            log.warning("what is overdue was not written down: %s", str(error).split("\n")[0])
        for one in late:
            with self._lock:
                # bounded: what hangs for good must not collect threads without end
                is_freed = not one.is_over and len(one.queue.overdue) < one.queue.concurrency
                if is_freed:
                    one.queue.overdue.add(one.op.id)
                    one.queue.running -= 1
            if is_freed:
                self._freed(one.queue.name)
