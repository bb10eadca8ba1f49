# SPDX-License-Identifier: Apache-2.0
"""One run of a claimed operation: its steps forward, or back, to the end, or to where it waits or is handed back."""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from abaca import errors
from abaca.db.journal import operations as rows
from abaca.journal import events
from abaca.journal.journal import (
    DATABASE_AWAY,
    PASSING,
    Cancelled,
    DatabaseStep,
    Faults,
    Interrupted,
    LeaseLost,
    NotUnderstood,
    Op,
    Paused,
    RecordFunction,
    Retry,
    Step,
    no_faults,
)

if TYPE_CHECKING:
    from abaca.db.engine.database import Database, Tx

log = logging.getLogger(__name__)


class Runner:
    """Runs one claimed operation until it ends, waits, or is handed back."""

    def __init__(self, op: Op, *, retry: Retry, stopping: threading.Event, faults: Faults = no_faults) -> None:
        self.op = op
        self.retry = retry
        self.stopping = stopping
        self.faults = faults
        op.stopping, op.faults = stopping, faults
        # called right before the transaction that ends it
        self.ending: Callable[[], None] = lambda: None

    def run(self) -> str:
        """How this run ended: `done`, `failed`, `cancelled`, `waiting`, `paused`, `handed back` or `lost`.

        Raises what the database raises when it is away while the worker is being stopped.
        """
        try:
            return self._run()
        except LeaseLost:
            log.warning("op=%s kind=%s lost its lease; another worker goes on with it", self.op.id, self.op.what.kind)
            return "lost"

    def _run(self) -> str:
        op = self.op
        while op.direction == "do":
            if op.step == len(op.what.steps):
                return self._end("done", op.what.succeed)
            if self.stopping.is_set():
                return self._hand_back()
            try:
                op.stop_if_cancelled()
                self._forward()
            except LeaseLost:
                raise
            except Interrupted:
                return self._hand_back()
            except Paused:
                return self._park()
            except Exception as error:  # noqa: BLE001 - a step may fail in any way: each ends in undo or another try
                may_pass = isinstance(error, PASSING) and op.attempt < len(self.retry.delays_s)
                if may_pass or op.step >= op.what.pivot:
                    return self._wait(error)
                self._turn_back(_told(error))
        return self._undo()

    def _point(self, name: str, moment: str) -> None:
        self.op.point(name, moment)

    def _forward(self) -> None:
        op, step = self.op, self.op.what.steps[self.op.step]
        is_last = op.step + 1 == len(op.what.steps)
        self._point(step.name, "before")
        if isinstance(step, DatabaseStep):
            with self._recorded() as tx:
                step.do(op, tx)
                op.step, op.attempt = op.step + 1, 0
                op.checkpoint(tx)
                self._point(step.name, "inside")
        else:
            op.be_sure_of_lease()
            step.do(op)
            self._point(step.name, "inside")
            op.step, op.attempt = op.step + 1, 0
            if not is_last:  # the last one is recorded with the end
                self._insist(op.checkpoint)
        self._point(step.name, "after")

    @contextlib.contextmanager
    def _recorded(self) -> Iterator[Tx]:
        """A transaction for a step that is only its record: when it fails, nothing has happened or been recorded."""
        op = self.op
        before = op.step, op.attempt, dict(op.data)
        try:
            with op.db.write() as tx:
                yield tx
        except BaseException:
            op.step, op.attempt, op.data = before
            raise

    def _insist(self, write: Callable[[Tx], None]) -> None:
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

    def _turn_back(self, error: errors.AbacaError) -> None:
        op = self.op
        log.warning("op=%s kind=%s %s fails: %s", op.id, op.what.kind, op.what.steps[op.step].name, error.message)
        op.error = (error.code, error.message)
        op.direction, op.attempt = "undo", 0
        self._insist(op.checkpoint)

    def _undo(self) -> str:
        op = self.op
        while op.step >= 0:
            step = op.what.steps[op.step]
            if self.stopping.is_set():
                return self._hand_back()
            try:
                self._backward(step)
            except LeaseLost:
                raise
            except Interrupted:
                return self._hand_back()
            except Exception as error:  # noqa: BLE001 - as above: the end must come
                is_passing = isinstance(error, PASSING)
                if op.attempt < (len(self.retry.delays_s) if is_passing else self.retry.undo_tries):
                    return self._wait(error)
                # what is left belongs to a resource in error: deleting that takes it away
                log.error("op=%s kind=%s cannot undo %s: %s", op.id, op.what.kind, step.name, error)
                op.step, op.attempt = op.step - 1, 0
        code, text = op.error or ("Error", "unknown")
        told = errors.AbacaError(text)
        told.code = code  # the class attribute gives way to what was recorded
        state = "cancelled" if code == Cancelled.code else "failed"
        return self._end(state, lambda this, tx: op.what.fail(this, tx, told))

    def _backward(self, step: Step | DatabaseStep) -> None:
        op = self.op
        self._point(f"{step.name}:undo", "before")
        if isinstance(step, DatabaseStep):
            with self._recorded() as tx:
                if step.undo is not None:
                    step.undo(op, tx)
                op.step, op.attempt = op.step - 1, 0
                op.checkpoint(tx)
                self._point(f"{step.name}:undo", "inside")
        else:
            if step.undo is not None:
                op.be_sure_of_lease()
                step.undo(op)
            self._point(f"{step.name}:undo", "inside")
            op.step, op.attempt = op.step - 1, 0
            if op.step >= 0:
                self._insist(op.checkpoint)
        self._point(f"{step.name}:undo", "after")

    def _end(self, state: str, write: RecordFunction) -> str:
        op = self.op
        try:
            self._point("end", "before")
            self.ending()
            with op.db.write() as tx:
                op.end(tx, state)
                before = events.before_end(tx, op, state)
                write(op, tx)
                events.ended(tx, op, state, before)
                self._point("end", "inside")
        except LeaseLost:
            raise
        except Exception as problem:  # noqa: BLE001 - nothing was committed: it is tried again, for operators to see
            return self._wait(problem)
        self._point("end", "after")
        return state

    def _wait(self, error: BaseException) -> str:
        op, told = self.op, _told(error)
        delay_s = self.retry.delay_s(op.attempt)
        log.warning(
            "op=%s kind=%s try %d: %s; again in %g s", op.id, op.what.kind, op.attempt + 1, told.message, delay_s
        )
        op.attempt += 1
        # while undoing, the error that is shown stays the one that is being undone
        place = msgspec.structs.replace(op.place(), error=op.error or (told.code, told.message))
        self._insist(lambda tx: _kept(rows.wait(tx, op.id, op.token, place, op.db.time() + delay_s)))
        op.waits_s = delay_s
        return "waiting"

    def _park(self) -> str:
        op = self.op
        op.attempt = 0

        def park(tx: Tx) -> None:
            _kept(rows.park(tx, op.id, op.token, op.place()))
            tx.wake(op.queue)  # it may have been resumed or cancelled at this moment

        self._insist(park)
        return "paused"

    def _hand_back(self) -> str:
        op = self.op
        with op.db.write() as tx:
            _kept(rows.wait(tx, op.id, op.token, op.place(), 0.0))
            tx.wake(op.queue)
        return "handed back"


def _kept(is_ours: bool) -> None:  # noqa: FBT001 - the answer of a guarded write
    if not is_ours:
        raise LeaseLost


def put_aside(db: Database, row: Any, problem: NotUnderstood, retry: Retry) -> float:
    """Give back a claimed row that this release cannot run, for operators to see; the seconds until the next look."""
    delay_s = retry.delay_s(row.attempt)
    log.warning("op=%s kind=%s: %s", row.id, row.kind, problem.message)
    # what is being undone stays told; everything else stays as the other release left it
    error = (row.error_code, row.error_text) if row.direction == "undo" else (problem.code, problem.message)
    place = rows.Place(step=row.step, direction=row.direction, attempt=row.attempt + 1, data=row.data, error=error)
    with db.write() as tx:
        rows.wait(tx, row.id, row.token, place, db.time() + delay_s)
    return delay_s


def _told(error: BaseException) -> errors.AbacaError:
    """The error as a user may read it: ours as it is; a stranger's is a bug, logged whole and told by its name."""
    if isinstance(error, errors.AbacaError):
        return error
    if isinstance(error, PASSING):
        return errors.Unavailable(part="The database")
    log.error("unexpected error in an operation", exc_info=error)
    return errors.AbacaError(f"an unexpected {type(error).__name__} stopped the work; the worker's log has the details")
