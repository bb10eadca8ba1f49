# SPDX-License-Identifier: Apache-2.0
"""Durable operations: what they are, how one is queued, and what its steps get; runner.py runs them.

An operation is a row that commits with the state move it explains. It is a list of steps, each `(do, undo)` and each
idempotent, with at most one pivot. A step that ends is checkpointed; whoever goes on after a crash repeats at most
the step that was under way. Errors that can pass are tried again with growing delays; any other error before the
pivot undoes what was done, in reverse, beginning with the step that failed; after the pivot the operation only goes
forward. The end (state event, quota, message, the row itself) is one transaction.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from sqlalchemy import exc

from abaca import errors
from abaca.db.journal import operations as rows
from abaca.domain.ids import new_id
from abaca.drivers import contract
from abaca.journal import events

if TYPE_CHECKING:
    from abaca.db.engine.database import Database, Tx

log = logging.getLogger(__name__)

# The database is away, restarts, is full of connections, or has just lost its right to write to another server.
DATABASE_AWAY = (exc.OperationalError, exc.InterfaceError, exc.InternalError, exc.TimeoutError)
PASSING = (contract.Busy, contract.Unreachable, errors.Unavailable, *DATABASE_AWAY)


class LeaseLost(Exception):
    """Somebody else holds this operation now; whatever is under way here no longer counts."""


class Interrupted(Exception):
    """The worker is being stopped, and this operation can go on from where it is in another life."""


class Paused(Exception):
    """Somebody has asked that it pauses, and nothing is half done."""


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


class DatabaseStep(msgspec.Struct, frozen=True):
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
    steps: tuple[Step | DatabaseStep, ...]
    succeed: RecordFunction
    fail: Callable[[Op, Tx, errors.AbacaError], None]
    resource: str
    # from this step on it only goes forward
    pivot: int = -1
    # an accepted delete, say, is not taken back
    cancellable: bool = True
    # the events of it
    notifies: events.Notification | None = None
    # whether it goes in parts, between which it can wait for as long as an operator likes
    pausable: bool = False


def operation(**parts: Any) -> Operation:
    """An `Operation`, checked: at most one pivot, and every step before it can be undone."""
    steps: tuple[Step | DatabaseStep, ...] = parts["steps"]
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


def enqueue(
    tx: Tx, what: Operation, args: msgspec.Struct, target: Target, by: Requester | None, *, wait_s: float = 0.0
) -> str:
    """Write the operation into the caller's transaction, not to be taken before `wait_s` have passed; its id."""
    row = _row(what, args, target, by)
    if wait_s > 0:
        row["not_before"] = tx.now.replace(tzinfo=datetime.UTC).timestamp() + wait_s
    if what.notifies is None or tx.subscriptions is None:
        return rows.add(tx, row)
    op_id = new_id()
    found = rows.add(tx, {**row, "id": op_id})
    if found == op_id:  # otherwise one that waits already takes this with it, and has told
        events.accepted(tx, what.notifies, (what.resource, target.resource_id), args, by)
    return found


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
        self.accepted_at: datetime.datetime = row.created_at
        # the worker's: told of each part of how many were found how, and of its seconds
        self.on_part: Callable[[Mapping[str, int], float], None] = lambda _counts, _seconds: None
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

    def record(self, **values: Any) -> None:
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
        """A transaction that ends a part of the present step: what was recorded is kept with what it writes, or not.

        Whoever goes on after a crash gets what the last part recorded. Raises `LeaseLost`.
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
        """Raises what keeps a long step from going on: `Cancelled`, `Paused`, `Interrupted`, `LeaseLost`."""
        self.stop_if_cancelled()
        if self.wants_pause():
            raise Paused
        if self.stopping.is_set():
            raise Interrupted
        self.be_sure_of_lease()

    def wants_pause(self) -> bool:
        """Whether it shall pause as soon as nothing is half done."""
        if not self.what.pausable:
            return False
        with self.db.read() as tx:
            return rows.wants_pause(tx, self.id)

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
        """Where it stands: everything before `step` is done, and what was recorded."""
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


def waiting_for(row: Any, steps: Mapping[str, Operation]) -> str:
    """The name of the step that an operation's row stands at, for people."""
    what = steps.get(row.kind)
    if what is None:
        return "a worker that knows this kind"
    return what.steps[row.step].name if 0 <= row.step < len(what.steps) else "the end"
