# SPDX-License-Identifier: Apache-2.0
"""One run of one operation: what its steps get."""

from __future__ import annotations

import contextlib
import datetime
import logging
import math
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from abaca.db.journal import children, keys, runs
from abaca.db.journal import operations as rows
from abaca.journal import queueing
from abaca.journal.interruptions import (
    Cancelled,
    ChildFailed,
    Interrupted,
    LeaseLost,
    NotUnderstood,
    Paused,
    Wait,
)
from abaca.journal.kinds import Faults, Operation, no_faults
from abaca.journal.queueing import Target

if TYPE_CHECKING:
    from abaca.db.engine.database import Database, Tx
    from abaca.domain.operations import Direction, OperationRecord, Waiting

log = logging.getLogger(__name__)

Parts_co = TypeVar("Parts_co", covariant=True)
# How often a parent looks by itself after children of which it hears.
CHILDREN_S = 60.0


class Op(Generic[Parts_co]):
    """One run of one operation: what its steps get. Raises `NotUnderstood` for a row of another release."""

    def __init__(self, what: Operation, row: OperationRecord, db: Database, parts: Parts_co) -> None:
        self.what = what
        self.db = db
        self.parts = parts
        self.id: str = row.id
        self.token: int = row.token
        # in which order claims were made: back ends that fence compare it
        self.generation: int = row.generation
        self.queue: str = row.queue
        self.home: str = row.home
        self.keys: Sequence[str] = row.keys
        self.parent_id: str | None = row.parent_id
        # its children go where it goes
        self.place: int = row.seq if row.place is None else row.place
        self.has_children: bool = row.children > 0
        # what it waited for when it was put aside, and how often it was signalled before this run began
        self.wait: Waiting | None = row.wait
        # whether this run, or an earlier one, has written down that it waits
        self.has_waits: bool = row.wait is not None
        self.signals: int = row.signals
        self.step: int = row.step
        self.direction: Direction = row.direction
        self.attempt: int = row.attempt
        self.cancel: bool = row.cancel
        # whether a step has ended that is not on record yet
        self.is_ahead = False
        # set at the end: whether others wait for its keys; and when it waits itself: for how long
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
        # the worker's: called when a part of a step has ended
        self.part_ended: Callable[[], None] = lambda: None
        # the worker's: told of each part of how many were found how, and of its seconds
        self.on_part: Callable[[Mapping[str, int], float], None] = lambda _counts, _seconds: None
        # the runner's: whether the worker is being stopped, and where tests break things
        self.stopping = threading.Event()
        self.faults: Faults = no_faults
        # the error that is being undone: code, text
        self.error: tuple[str, str] | None = _error_of(row) if row.direction == "undo" else None
        try:
            self.args: Any = msgspec.convert(row.args, what.args)
        except msgspec.ValidationError as error:
            raise NotUnderstood(reason=str(error)) from error
        if self.step > len(what.steps):
            raise NotUnderstood(reason=f"it stands at step {self.step}")

    def record(self, **values: object) -> None:
        """Remember plain data for later steps and for the end; kept from the next checkpoint on."""
        self.data.update(msgspec.to_builtins(values))

    @contextlib.contextmanager
    def write(self) -> Iterator[Tx]:
        """A transaction that commits only while the lease is ours."""
        with self.db.write() as tx:
            self.guard(tx)
            yield tx

    def guard(self, tx: Tx) -> None:
        """Keep the transaction of somebody who works for it from committing without the lease. Raises `LeaseLost`."""
        self.cancel |= self._owned(runs.touch(tx, self.id, self.token))

    @contextlib.contextmanager
    def part(self) -> Iterator[Tx]:
        """A transaction that ends a part of the present step: what was recorded is kept with what it writes, or not.

        Whoever goes on after a crash gets what the last part recorded. Raises `LeaseLost`.
        """
        before = self.attempt, dict(self.data)
        try:
            with self.db.write() as tx:
                self.guard(tx)
                yield tx
                self.attempt = 0
                self.checkpoint(tx)
        except BaseException:
            self.attempt, self.data = before
            raise
        self.is_on_record()
        self.part_ended()

    def pass_on(self, by: int) -> None:
        """A step has ended: that goes on record with whatever is recorded next, at the latest before the next acts."""
        self.step, self.attempt, self.is_ahead = self.step + by, 0, True

    def is_on_record(self) -> None:
        """A checkpoint was committed. Whoever waits again, waits anew."""
        self.is_ahead = self.has_waits = False
        if self.wait is not None and "conditions" in self.wait:
            self.wait["conditions"] = []

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
            return runs.wants_pause(tx, self.id)

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
        self.cancel |= self._owned(runs.progress(tx, self.id, self.token, done, total))

    def stop_if_cancelled(self, at: int | None = None) -> None:
        """Raises `Cancelled` when that was asked for and there still is a way back from step `at`, the present one."""
        step = self.step if at is None else at
        if self.cancel and self.direction == "do" and step < self.what.pivot and self.what.cancellable:
            raise Cancelled

    def checkpoint(self, tx: Tx) -> None:
        """Record in `tx` where it stands. Raises `LeaseLost`."""
        flag = runs.checkpoint(tx, self.id, self.token, self.standing(), was_waiting=self.has_waits)
        self.cancel |= self._owned(flag)

    def standing(self) -> runs.Place:
        """Where it stands: everything before `step` is done, and what was recorded."""
        return runs.Place(
            step=self.step, direction=self.direction, attempt=self.attempt, data=self.data, error=self.error
        )

    def end(self, tx: Tx, state: str) -> None:
        """End it in `tx`. Raises `LeaseLost`."""
        held = runs.Held(keys=self.keys, parent_id=self.parent_id, has_waits=self.has_waits)
        self.is_followed = self._owned(runs.end(tx, self.id, self.token, state, self.standing(), held))

    def start(
        self,
        tx: Tx,
        what: Operation,
        wanted: Iterable[tuple[msgspec.Struct, Target]],
        *,
        new_keys: Collection[str] = (),
    ) -> list[str]:
        """Start children in the transaction of a `DatabaseStep`, for its requester; their ids, in the order given.

        A child runs under the keys of its ancestors, and goes before whatever came after these. Keys of its own are
        those of things that exist only since this transaction, and stand in `new_keys`: a child that waited for a
        stranger could wait for one whose own child waits for this operation. When this operation goes back, its
        children are cancelled, and end before it undoes anything. Raises `StrangeKeys`.
        """
        inherited = {*self.keys, *children.inherited_keys(tx, self.parent_id)}
        found = [(args, target, [key for key in target.keys if key not in inherited]) for args, target in wanted]
        own = {key for _, _, its in found for key in its}
        keys.refuse_strange(tx, own, new_keys, self.place)
        started = []
        for args, target, its in found:
            row = queueing.row_of(what, args, target, self)
            row["keys"] = its
            started.append(rows.add(tx, {**row, "parent_id": self.id, "place": self.place, "coalesce_key": None}))
            queueing.announce(tx, what, target, args, self)
        children.started(tx, self.id, len(started))
        self.has_children = True
        return started

    def join(self, *, first: bool = False, tolerate: bool = False) -> Sequence[OperationRecord]:
        """The rows of its children when all have ended; with `first` as soon as one is done, and the others cancelled.

        Raises `Wait` until then, and `ChildFailed` when one has failed, or with `first` when all have; with `tolerate`
        it never does: the caller looks at the rows. When this operation was cancelled, `Cancelled` instead.
        """
        with self.db.read() as tx:
            found = children.of(tx, self.id)
        live = [row for row in found if row.state not in rows.ENDED]
        done = [row for row in found if row.state == "done"]
        failed = [row for row in found if row.state in ("failed", "cancelled")]
        if first and done:
            if live:
                with self.write() as tx:
                    children.cancel(tx, [self.id])
        elif failed and not tolerate and (not first or not live):
            # they may have been cancelled with this operation, which then has not failed
            self._see_cancelled()
            self.stop_if_cancelled()
            raise ChildFailed(kind=failed[0].kind, resource=failed[0].resource_id, reason=failed[0].error_text or "")
        if live:
            of_all = f"{len(found) - len(live)} of {len(found)}"
            raise Wait(f"{of_all} operations that it has started have ended", look_again_s=CHILDREN_S, each_child=first)
        return found

    def _see_cancelled(self) -> None:
        with self.db.read() as tx:
            seen = runs.signals(tx, self.id, self.token)
        self.cancel |= self._owned(None if seen is None else seen[1])

    @staticmethod
    def _owned(flag: bool | None) -> bool:  # noqa: FBT001 - the answer of a guarded write
        if flag is None:
            raise LeaseLost
        return flag


def _error_of(row: OperationRecord) -> tuple[str, str] | None:
    return None if row.error_code is None else (row.error_code, row.error_text or "")
