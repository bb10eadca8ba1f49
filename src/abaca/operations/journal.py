# SPDX-License-Identifier: Apache-2.0
"""Durable operations: what they are, how one is queued, and how one is run to its end.

An operation is a row that commits with the state move it explains. It is a list of steps, each `(do, undo)` and each
idempotent, with at most one pivot. A step that ends is checkpointed; whoever goes on after a crash repeats at most
the step that was under way. Errors that can pass are tried again with growing delays; any other error before the
pivot undoes what was done, in reverse, beginning with the step that failed; after the pivot the operation only goes
forward. The end (state event, quota, message, the row itself) is one transaction.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from sqlalchemy import exc

from abaca import errors
from abaca.db import operations as rows
from abaca.drivers import contract

if TYPE_CHECKING:
    from abaca.db.engine import Database, Tx

log = logging.getLogger(__name__)

# The database is away, restarts, is full of connections, or has just lost its right to write to another server.
DATABASE_AWAY = (exc.OperationalError, exc.InterfaceError, exc.InternalError, exc.TimeoutError)
PASSING = (contract.Busy, contract.Unreachable, errors.Unavailable, *DATABASE_AWAY)


class LeaseLost(Exception):
    """Somebody else holds this operation now; whatever is under way here no longer counts."""


class Interrupted(Exception):
    """The worker is being stopped, and this operation can go on from where it is in another life."""


class Cancelled(errors.AbacaError):
    """Cancelled on request."""

    code = "Cancelled"


class NotUnderstood(errors.AbacaError):
    """It waits for a worker of a release that understands it: {reason}"""

    code = "NotUnderstood"


class Requester(Protocol):
    """Who asked: an API caller, or an operator."""

    @property
    def project_id(self) -> str | None: ...
    @property
    def user_id(self) -> str | None: ...
    @property
    def request_id(self) -> str | None: ...


StepFunction = Callable[["Op"], None]
RecordFunction = Callable[["Op", "Tx"], None]


def nothing(_op: Op) -> None:
    """The undo of a step that leaves nothing behind when it fails."""


class Step(msgspec.Struct, frozen=True):
    """Do something to the world, outside any transaction. `undo` takes it back, also when it was half done."""

    do: StepFunction
    undo: StepFunction | None = None
    is_pivot: bool = False

    @property
    def name(self) -> str:
        """What operators see."""
        return self.do.__name__


class Record(msgspec.Struct, frozen=True):
    """A step that only writes the database: it runs inside the transaction of its own checkpoint.

    It, too, is idempotent: the answer to a commit can get lost.
    """

    do: RecordFunction
    undo: RecordFunction | None = None
    is_pivot: bool = False

    @property
    def name(self) -> str:
        """What operators see."""
        return self.do.__name__


def Pivot(do: StepFunction) -> Step:  # noqa: N802 - it reads as a kind of step
    """The step from which there is no way back."""
    return Step(do, is_pivot=True)


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of durable work. `succeed` and `fail` write inside the transaction that ends it."""

    kind: str
    args: type[msgspec.Struct]
    steps: tuple[Step | Record, ...]
    succeed: RecordFunction
    fail: Callable[[Op, Tx, errors.AbacaError], None]
    resource: str
    # from this step on it only goes forward
    pivot: int = -1
    # an accepted delete, say, is not taken back
    cancellable: bool = True


def operation(**parts: Any) -> Operation:
    """An `Operation`, checked: at most one pivot, and every step before it can be undone."""
    steps: tuple[Step | Record, ...] = parts["steps"]
    pivots = [i for i, step in enumerate(steps) if step.is_pivot]
    if len(pivots) > 1:
        raise ValueError(f"{parts['kind']}: more than one pivot")
    reach = pivots[0] if pivots else len(steps)
    for step in steps[:reach]:
        if step.undo is None:
            raise ValueError(f"{parts['kind']}: step {step.name} stands before the pivot and has no undo")
    return Operation(**parts, pivot=reach)


class Target(msgspec.Struct, frozen=True):
    """Where an operation runs and what it is about: operations of one `key` run one after another."""

    queue: str
    key: str
    resource_id: str
    coalesce_key: str | None = None


def enqueue(tx: Tx, what: Operation, args: msgspec.Struct, target: Target, by: Requester | None) -> str:
    """Write the operation into the caller's transaction; its id."""
    return rows.add(tx, _row(what, args, target, by))


def enqueue_many(tx: Tx, what: Operation, found: Sequence[tuple[msgspec.Struct, Target]], by: Requester | None) -> None:
    """The same for many that all coalesce, in one statement."""
    rows.add_many(tx, [_row(what, args, target, by) for args, target in found])


def _row(what: Operation, args: msgspec.Struct, target: Target, by: Requester | None) -> dict[str, Any]:
    return {
        "kind": what.kind,
        "queue": target.queue,
        "key": target.key,
        "coalesce_key": target.coalesce_key,
        "args": msgspec.to_builtins(args),
        "resource_type": what.resource,
        "resource_id": target.resource_id,
        "request_id": by.request_id if by else None,
        "project_id": by.project_id if by else None,
        "user_id": by.user_id if by else None,
    }


class Op:
    """One run of one operation: what its steps get. Raises `NotUnderstood` for a row of another release."""

    def __init__(self, what: Operation, row: Any, db: Database, driver: Any, backend: contract.Backend) -> None:
        self.what = what
        self.db = db
        self.driver = driver
        self.backend = backend
        self.id: str = row.id
        self.token: int = row.token
        self.queue: str = row.queue
        self.key: str = row.key
        self.step: int = row.step
        self.direction: str = row.direction
        self.attempt: int = row.attempt
        self.cancel: bool = row.cancel
        # set at the end: whether others of its key wait; and when it waits itself: for how long
        self.is_followed = False
        # kept by the worker: until when, as far as it knows, nobody else takes it
        self.leased_until_s = math.inf
        self.waits_s: float | None = None
        self.data: dict[str, Any] = dict(row.data)
        self.resource_id: str = row.resource_id
        self.request_id: str | None = row.request_id
        self.project_id: str | None = row.project_id
        self.user_id: str | None = row.user_id
        # the runner's: whether the worker is being stopped, and where tests break things
        self.stopping = threading.Event()
        self.faults: Faults = no_faults
        # the error that is being undone: code, text
        self.error: tuple[str, str] | None = (row.error_code, row.error_text) if row.direction == "undo" else None
        try:
            self.args: Any = msgspec.convert(row.args, what.args)
        except msgspec.ValidationError as error:
            raise NotUnderstood(reason=str(error)) from error
        if self.step > len(what.steps):
            raise NotUnderstood(reason=f"it stands at step {self.step}")

    def learn(self, **values: Any) -> None:
        """Remember plain data for later steps and for the end; kept from the next checkpoint on."""
        self.data.update(msgspec.to_builtins(values))

    @contextlib.contextmanager
    def write(self) -> Iterator[Tx]:
        """A transaction that commits only while the lease is ours."""
        with self.db.write() as tx:
            self.cancel |= self._owned(rows.touch(tx, self.id, self.token))
            yield tx

    @contextlib.contextmanager
    def part(self) -> Iterator[Tx]:
        """A transaction that ends a part of the present step: what was learnt is kept with what it writes, or not.

        Whoever goes on after a crash gets what the last part learnt. Raises `LeaseLost`.
        """
        before = self.attempt, dict(self.data)
        try:
            with self.db.write() as tx:
                self.cancel |= self._owned(rows.touch(tx, self.id, self.token))
                yield tx
                self.attempt = 0
                self.checkpoint(tx)
        except BaseException:
            self.attempt, self.data = before
            raise

    def between_parts(self) -> None:
        """Raises what keeps a long step from going on: `Cancelled`, `Interrupted`, `LeaseLost`."""
        self.stop_if_cancelled()
        if self.stopping.is_set():
            raise Interrupted
        self.be_sure_of_lease()

    def point(self, name: str, moment: str) -> None:
        """A moment at which a process may die, for tests."""
        self.faults(f"{self.what.kind}:{name}:{moment}")

    def be_sure_of_lease(self) -> None:
        """Before touching the world: a process that was stopped for long may have lost it. Raises `LeaseLost`."""
        if self.db.time() > self.leased_until_s:
            with self.write():
                log.info("op=%s comes late, but is still ours", self.id)

    def progress(self, done: int, total: int) -> None:
        """Show how far it is. Raises `LeaseLost`, or `Cancelled` when that was asked for and is possible."""
        with self.db.write() as tx:
            self.show_progress(tx, done, total)
        self.stop_if_cancelled()

    def show_progress(self, tx: Tx, done: int, total: int) -> None:
        """The same in `tx`. Raises `LeaseLost`."""
        self.cancel |= self._owned(rows.progress(tx, self.id, self.token, done, total))

    def stop_if_cancelled(self) -> None:
        """Raises `Cancelled` when that was asked for and there still is a way back."""
        if self.cancel and self.direction == "do" and self.step < self.what.pivot and self.what.cancellable:
            raise Cancelled

    def checkpoint(self, tx: Tx) -> None:
        """Record in `tx` where it stands. Raises `LeaseLost`."""
        self.cancel |= self._owned(rows.checkpoint(tx, self.id, self.token, self.place()))

    def place(self) -> rows.Place:
        """Where it stands: everything before `step` is done, and what was learnt."""
        return rows.Place(
            step=self.step, direction=self.direction, attempt=self.attempt, data=self.data, error=self.error
        )

    def end(self, tx: Tx, state: str) -> None:
        """End it in `tx`. Raises `LeaseLost`."""
        self.is_followed = self._owned(rows.end(tx, self.id, self.token, state, self.place(), self.key))

    @staticmethod
    def _owned(flag: bool | None) -> bool:  # noqa: FBT001 - the answer of a guarded write
        if flag is None:
            raise LeaseLost
        return flag


class Retry(msgspec.Struct, frozen=True):
    """How long to wait before the next try, in seconds: the last value goes on for ever after a pivot."""

    delays_s: Sequence[float] = (1, 2, 4, 8, 16, 32, 60, 120)
    # how often an undo that fails for good is tried before the end is written all the same
    undo_tries: int = 4

    def delay_s(self, attempt: int) -> float:
        """Before try number `attempt` + 1."""
        return self.delays_s[min(attempt, len(self.delays_s) - 1)]


class Faults(Protocol):
    """Where tests break things: called with `kind:step:moment` at every moment at which a process may die."""

    def __call__(self, point: str, /) -> None: ...


def no_faults(_point: str) -> None:
    """Production: nothing breaks on purpose."""


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
        """How this run ended: `done`, `failed`, `cancelled`, `waiting`, `handed back` or `lost`.

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
        if isinstance(step, Record):
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
        """A transaction for a step that is only its record: when it fails, nothing has happened or been learnt."""
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

    def _backward(self, step: Step | Record) -> None:
        op = self.op
        self._point(f"{step.name}:undo", "before")
        if isinstance(step, Record):
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
                write(op, tx)
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


def waiting_for(row: Any, steps: Mapping[str, Operation]) -> str:
    """The name of the step that an operation's row stands at, for people."""
    what = steps.get(row.kind)
    if what is None:
        return "a worker that knows this kind"
    return what.steps[row.step].name if 0 <= row.step < len(what.steps) else "the end"
