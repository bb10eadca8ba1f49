# SPDX-License-Identifier: Apache-2.0
"""One run of a claimed operation: its steps forward, or back, to the end, or to where it waits or is handed back."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from abaca import errors
from abaca.db.engine import trouble
from abaca.db.journal import children, runs
from abaca.drivers import contract
from abaca.journal import events
from abaca.journal.handover import Handover, readable
from abaca.journal.interruptions import (
    PASSING,
    Cancelled,
    ChildFailed,
    Interrupted,
    LeaseLost,
    NotUnderstood,
    Paused,
    Wait,
)
from abaca.journal.kinds import DatabaseStep, Faults, RecordFunction, Retry, Step, no_faults

if TYPE_CHECKING:
    from abaca.db.engine.database import Database, Tx
    from abaca.domain.operations import OperationRecord
    from abaca.journal.op import Op

log = logging.getLogger(__name__)


class Runner:
    """Runs one claimed operation until it ends, waits, or is handed back."""

    def __init__(self, op: Op[object], *, retry: Retry, stopping: threading.Event, faults: Faults = no_faults) -> None:
        self.op = op
        self.retry = retry
        self.stopping = stopping
        self.faults = faults
        op.stopping, op.faults = stopping, faults
        self._point = op.point
        self.aside = Handover(op, retry, stopping)
        # entered around every step of the world
        self.watching: Callable[[Step], contextlib.AbstractContextManager[None]] = lambda _step: (
            contextlib.nullcontext()
        )
        # whether a step of the world has been begun, and what is written when the lease turns out to be lost after that
        self.has_acted = False
        self.late: Callable[[Tx], None] = lambda _tx: None
        # called right before the transaction that ends it
        self.ending: Callable[[], None] = lambda: None

    def run(self) -> str:
        """How this run ended.

        `done`, `failed`, `cancelled`; `waiting` for another try or for what a step waits for; `moved` to another queue;
        `paused`, `handed back` or `lost`.

        Raises what the database raises when it is away while the worker is being stopped.
        """
        try:
            return self._run()
        except LeaseLost:
            log.warning("op=%s kind=%s lost its lease; another worker goes on with it", self.op.id, self.op.what.kind)
            if self.has_acted:
                self.aside.insist(self.late)
            return "lost"

    def _run(self) -> str:
        op = self.op
        while op.direction == "do":
            if op.step == len(op.what.steps):
                if op.has_children and (outcome := self.aside.await_children()) is not None:
                    return outcome
                return self._end("done", op.what.succeed)
            if self.stopping.is_set():
                return self.aside.hand_back()
            outcome = self._try_step()
            if outcome is not None:
                return outcome
        return self._undo()

    def _try_step(self) -> str | None:
        """One step forward, or the turn; how the run ends, if it does so here."""
        op = self.op
        try:
            op.stop_if_cancelled()
            return self._step()
        except LeaseLost:
            raise
        except Interrupted:
            return self.aside.hand_back()
        except Paused:
            return self.aside.park()
        except Exception as error:  # noqa: BLE001 - a step may fail in any way: each ends in undo or another try
            if isinstance(error, ChildFailed) and op.step >= op.what.pivot:
                return self._give_up(error)
            if self._may_pass(error) or op.step >= op.what.pivot:
                return self.aside.try_again(error)
            self._turn_back(readable(error))
        return None

    def _may_pass(self, error: Exception) -> bool:
        """Whether it is tried again: after trouble of the database itself always, after other trouble some times."""
        return trouble.is_away(error) or (isinstance(error, PASSING) and self.op.attempt < len(self.retry.delays_s))

    def _step(self) -> str | None:
        step = self.op.what.steps[self.op.step]
        if isinstance(step, Step) and not step.applies(self.op):
            self.op.pass_on(1)
            return None
        if (queue := self._elsewhere(step)) is not None:
            return self.aside.hop(queue)
        if isinstance(step, Step):
            self.aside.catch_up()
            self.op.stop_if_cancelled()
        try:
            self._forward(step)
        except Wait as wait:
            return self.aside.wait_for(wait)
        self.op.wait = None
        return None

    def _elsewhere(self, step: Step | DatabaseStep) -> str | None:
        """The queue on which a step runs, when that is not the one on which the operation is."""
        if isinstance(step, DatabaseStep):
            return None
        queue = step.queue(self.op) if step.queue is not None else self.op.home
        return queue if queue != self.op.queue else None

    def _forward(self, step: Step | DatabaseStep) -> None:
        op = self.op
        if isinstance(step, DatabaseStep):
            self._point(step.name, "before")
            with self._recorded() as tx:
                step.do(op, tx)
                at, op.step, op.attempt = op.step, op.step + 1, 0
                op.checkpoint(tx)
                op.stop_if_cancelled(at)
                self._point(step.name, "inside")
        else:
            self._point(step.name, "before")
            with self._acting(step):
                step.do(op)
            self._point(step.name, "inside")
            self.op.pass_on(1)
        self._point(step.name, "after")

    @contextlib.contextmanager
    def _acting(self, step: Step) -> Iterator[None]:
        """Around what a step does to the world: what a driver says is under way there is waited for."""
        self.op.be_sure_of_lease()
        self.has_acted = True
        try:
            with self.watching(step):
                yield
        except contract.UnderWay as error:
            raise Wait(error.message, look_again_s=error.look_again_s, within_s=error.within_s) from error

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
        op.is_on_record()

    def _give_up(self, error: ChildFailed) -> str:
        """The end of what can neither go back nor, since a child that has failed stays failed, ever go forward."""
        op = self.op
        if op.has_children and (outcome := self.aside.await_children()) is not None:
            return outcome
        log.error("op=%s kind=%s ends past its pivot, undoing nothing: %s", op.id, op.what.kind, error.message)
        op.error = (error.code, error.message)
        return self._end("failed", lambda this, tx: op.what.fail(this, tx, error))

    def _turn_back(self, error: errors.AbacaError) -> None:
        op = self.op
        log.warning("op=%s kind=%s %s fails: %s", op.id, op.what.kind, op.what.steps[op.step].name, error.message)
        op.error = (error.code, error.message)
        op.direction, op.attempt = "undo", 0
        # how long the way back waits is another matter
        op.wait = None

        def turn(tx: Tx) -> None:
            op.checkpoint(tx)
            if op.has_children:
                children.cancel(tx, [op.id])

        self.aside.insist(turn)
        op.is_on_record()

    def _undo(self) -> str:
        op = self.op
        if op.has_children and (outcome := self.aside.await_children()) is not None:
            return outcome
        while op.step >= 0:
            if self.stopping.is_set():
                return self.aside.hand_back()
            outcome = self._try_undo()
            if outcome is not None:
                return outcome
        code, text = op.error or ("Error", "unknown")
        told = errors.AbacaError(text)
        told.code = code  # the class attribute gives way to what was recorded
        state = "cancelled" if code == Cancelled.code else "failed"
        return self._end(state, lambda this, tx: op.what.fail(this, tx, told))

    def _try_undo(self) -> str | None:
        """One step back; how the run ends, if it does so here."""
        op = self.op
        step = op.what.steps[op.step]
        try:
            return self._step_back(step)
        except LeaseLost:
            raise
        except Interrupted:
            return self.aside.hand_back()
        except Exception as error:  # noqa: BLE001 - as above: the end must come
            if self._may_pass(error) or (not isinstance(error, PASSING) and op.attempt < self.retry.undo_tries):
                return self.aside.try_again(error)
            # what is left belongs to a resource in error: deleting that takes it away
            log.error("op=%s kind=%s cannot undo %s: %s", op.id, op.what.kind, step.name, error)
            op.step, op.attempt, op.wait = op.step - 1, 0, None
        return None

    def _step_back(self, step: Step | DatabaseStep) -> str | None:
        if step.undo is not None and (queue := self._elsewhere(step)) is not None:
            return self.aside.hop(queue)
        try:
            self._backward(step)
        except Wait as wait:
            return self.aside.wait_for(wait)
        self.op.wait = None
        return None

    def _backward(self, step: Step | DatabaseStep) -> None:
        op = self.op
        if isinstance(step, DatabaseStep):
            self._point(f"{step.name}:undo", "before")
            with self._recorded() as tx:
                if step.undo is not None:
                    step.undo(op, tx)
                op.step, op.attempt = op.step - 1, 0
                op.checkpoint(tx)
                self._point(f"{step.name}:undo", "inside")
        else:
            self.aside.catch_up()
            self._point(f"{step.name}:undo", "before")
            if step.undo is not None:
                with self._acting(step):
                    step.undo(op)
            self._point(f"{step.name}:undo", "inside")
            self.op.pass_on(-1)
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
            return self.aside.try_again(problem)
        self._point("end", "after")
        return state


def put_aside(db: Database, row: OperationRecord, problem: NotUnderstood, retry: Retry) -> float:
    """Give back a claimed row that this release cannot run, for operators to see; the seconds until the next look."""
    delay_s = retry.delay_s(row.attempt)
    log.warning("op=%s kind=%s: %s", row.id, row.kind, problem.message)
    # what is being undone stays told; everything else stays as the other release left it
    is_undone = row.direction == "undo" and row.error_code is not None
    error = (row.error_code or "", row.error_text or "") if is_undone else (problem.code, problem.message)
    place = runs.Place(step=row.step, direction=row.direction, attempt=row.attempt + 1, data=row.data, error=error)
    with db.write() as tx:
        runs.wait(tx, row.id, row.token, place, db.time() + delay_s)
    return delay_s
