# SPDX-License-Identifier: Apache-2.0
"""The process that does the work: it claims operations of the queues that it serves and runs them in threads.

One thread dispatches, one renews leases, one looks after steps that take too long, each periodic task has its own, and
each queue has so many threads as it may do things at once. A worker serves a queue from the moment it has started; a
back end that cannot start is tried again and again without holding up the others.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import exc

from abaca import logs
from abaca.db.engine.database import Database, Tx
from abaca.db.journal import claims, waits
from abaca.domain.operations import OperationRecord
from abaca.journal import starting
from abaca.journal.agenda import Agenda
from abaca.journal.interruptions import NotUnderstood
from abaca.journal.kinds import Faults, Operation, Retry, Step, no_faults
from abaca.journal.leases import Leases
from abaca.journal.op import Op
from abaca.journal.overdue import Overdue
from abaca.journal.periodic_tasks import PeriodicTask, Schedule
from abaca.journal.queues import WorkQueue
from abaca.journal.runner import Runner, put_aside
from abaca.journal.threads import Threads
from abaca.journal.wakeup import Listener, NoListener

log = logging.getLogger(__name__)


# What letting go of everything may take at the end.
END_S = 3.0


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """The worker's times, in seconds."""

    lease_s: float = 30.0
    # how often it looks by itself when nothing wakes it
    poll_s: float = 5.0
    # how long running steps may take to end when it is told to stop
    grace_s: float = 10.0
    # for how long work pauses that has ended its workers again and again
    pause_s: float = 30.0
    start_again_s: Sequence[float] = (1, 2, 5, 10, 30)
    retry: Retry = Retry()


class Hooks:
    """Who is told of what a worker does; by default nobody."""

    def __init__(self) -> None:
        # before any queue is started
        self.on_begun: Callable[[], None] = lambda: None
        self.on_started: Callable[[WorkQueue[Any]], None] = lambda _queue: None
        # of the end, all at once
        self.on_stopped: list[Callable[[], None]] = []
        # why a queue could not be started; it is tried again
        self.on_problem: Callable[[WorkQueue[Any], str], None] = lambda _queue, _problem: None
        # entered around every run
        self.around: Callable[[Op[object]], contextlib.AbstractContextManager[object]] = lambda _op: (
            contextlib.nullcontext()
        )
        # of every run: the operation, how the run ended, and its seconds
        self.on_ended: Callable[[Op[object], str, float], None] = lambda _op, _outcome, _seconds: None
        # of what a run that had lost its lease may have done to the world, and of one whose predecessor may still do
        # it, with the seconds after which that is to be looked for; both in a transaction
        self.on_late: Callable[[Tx, claims.Left], None] = lambda _tx, _left: None
        self.on_taken: Callable[[Tx, claims.Left, float], None] = lambda _tx, _left, _after_s: None
        # of a part of such an operation: its queue, how many were found how, and its seconds
        self.on_part: Callable[[WorkQueue[Any], Mapping[str, int], float], None] = lambda _queue, _counts, _seconds: (
            None
        )


class Worker(Hooks):
    """See the module. `run` blocks until `stop` is called from another thread or a signal handler."""

    def __init__(
        self,
        name: str,
        db: Database,
        queues: Sequence[WorkQueue[object]],
        operations: Mapping[str, Operation],
        *,
        timing: Timing | None = None,
        listener: Listener | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        # who holds the leases: another process of this name, by mistake or before, is somebody else
        self.owner = f"{name}#{uuid.uuid4().hex[:8]}"
        self.db = db
        self.queues: dict[str, WorkQueue[object]] = {one.name: one for one in queues}
        self.operations = operations
        self.timing = timing or Timing()
        self.listener: Listener = listener or NoListener()
        self.faults: Faults = no_faults
        self.periodic_tasks: list[PeriodicTask] = []
        self._stopping = threading.Event()
        self._is_over = threading.Event()
        self._stop_asked, self._ask_to_stop = os.pipe()
        weakref.finalize(self, _close, self._stop_asked, self._ask_to_stop)
        self._schedule = Schedule(self._stopping)
        self._agenda = Agenda(self.queues, self.timing.poll_s)
        self._leases = Leases(name, self.owner, db, self.timing.lease_s, self.timing.pause_s)
        self._leases.wake, self._leases.again = self.wake, self._agenda.again
        self._overdue = Overdue(db, self._agenda.changed, self.wake)
        self._until_it_works = functools.partial(starting.until_it_works, self._stopping, self.timing.start_again_s)
        self._pool = Threads()
        self._threads: list[threading.Thread] = []

    # ---------------------------------------------------------------- life

    def run(self) -> None:
        """Serve until told to stop; then let running steps end, hand the rest back, and return."""
        self._leases.on_taken = self.on_taken
        self._thread("stop", self._await_stop)
        self._until_it_works(self.db.agree_on_time, "the database")
        self._until_it_works(self.on_begun, "the database")
        self.listener.start(self.wake)
        self._thread("leases", self._leases.keep, self._is_over, self._stopping, self._started)
        self._thread("overdue", self._overdue.run)
        self._schedule.start(self.periodic_tasks, self._thread)
        for one in self.queues.values():
            self._thread(f"start {one.label}", self._start, one)
        while not self._stopping.is_set():
            self._dispatch()
        self._wind_down()

    def stop(self) -> None:
        """Begin to stop; returns at once, and may be called from a signal handler, which must not touch any lock."""
        os.write(self._ask_to_stop, b"x")

    def _await_stop(self) -> None:
        os.read(self._stop_asked, 1)
        self._stopping.set()
        self._schedule.stop()
        with self._agenda.changed:
            self._agenda.changed.notify_all()

    def wake(self, queue: str) -> None:
        """There is work on `queue`, on every queue when it is empty; or a condition was announced."""
        if queue.startswith(waits.ANNOUNCED):
            self._agenda.signalled(queue.removeprefix(waits.ANNOUNCED))
            return
        self._schedule.announce(queue)
        self._agenda.announce(queue)

    @property
    def held(self) -> list[str]:
        """The ids of the operations under way."""
        return list(self._leases.held)

    def _started(self) -> list[str]:
        return [name for name, one in self.queues.items() if one.is_started]

    def _thread(self, name: str, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _start(self, one: WorkQueue[object]) -> None:
        self._until_it_works(lambda: starting.start(one, self.on_started, self.on_problem), one.label)
        self._until_it_works(lambda: self._leases.inherit(one.name), "the database")
        if not self._stopping.is_set():
            one.is_started, one.problem = True, None
            log.info("%s is served", one.label)
            self._agenda.look()
            self.wake(one.name)

    def _wind_down(self) -> None:
        with self._leases.taking:  # whoever was taking work has noted it down, and nobody takes more
            self._pool.dismiss()
        changed, held = self._agenda.changed, self._leases.held
        with changed:
            changed.wait_for(lambda: not held, timeout=self.timing.grace_s)
        if held:
            log.warning("%d operations are still in a step; they go on at the next start", len(held))
        self._is_over.set()
        self._overdue.stop()
        until_s = time.monotonic() + END_S
        started = [one.stop for one in self.queues.values() if one.is_started]
        for thread in [_letting_go(one) for one in (self.listener.stop, *self.on_stopped, *started)]:
            thread.join(max(0.0, until_s - time.monotonic()))
        # what was cut off by that, and who is in the middle of a statement, gets a moment to write how it stands
        until_s = min(until_s, time.monotonic() + 1.0)
        with changed:
            changed.wait_for(lambda: not held, timeout=until_s - time.monotonic())
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))

    # ---------------------------------------------------------------- claiming

    def _dispatch(self) -> None:
        due = self._agenda.take(self._stopping.is_set)
        for condition in due.conditions:
            self._carefully("", lambda condition=condition: self._hear(condition))  # type: ignore[misc]
        if due.alarms or due.is_look:
            self._carefully("", lambda: self._promote(due.alarms))
        for one in [self.queues[queue] for queue in due.queues]:
            if one.is_started:
                self._carefully(one.name, lambda one=one: self._claim(one))  # type: ignore[misc]
                if due.is_look:
                    self._carefully(one.name, lambda one=one: self._look_ahead(one))  # type: ignore[misc]

    def _carefully(self, queue: str, look: Callable[[], None]) -> None:
        """What cannot be done now is done again, for `queue` or for all."""
        try:
            look()
            return
        except exc.IntegrityError:
            delay_s = 0.05  # another worker has just taken one of the same key
        except exc.SQLAlchemyError as error:
            log.warning("no work can be claimed: %s", str(error).split("\n")[0])
            delay_s = 1.0
        except Exception:
            log.exception("no work can be claimed")
            delay_s = 5.0
        for name in [queue] if queue else list(self.queues):
            self._agenda.again(name, delay_s)

    def _hear(self, condition: str) -> None:
        with self.db.write() as tx:
            waits.hear(tx, condition)
        for queue in tx.queues:
            self.wake(queue)

    def _promote(self, alarms: int) -> None:
        """What has waited long enough, be it since another worker's life, is queued again."""
        with self.db.write() as tx:
            promoted = claims.promote(tx, self._started(), self.db.time())
        if promoted < alarms:  # an alarm goes by this host's clock, what is due by the database's, which came later
            for one in self._started():
                self._look_ahead(self.queues[one])
        for queue in tx.queues:
            self.wake(queue)

    def _claim(self, one: WorkQueue[object]) -> None:
        with self._leases.taking:
            free = one.free
            if not free or self._stopping.is_set():
                return
            # a power of two, so that the database knows the few statements that come of it
            most = 1 << free.bit_length() - 1
            found, until_s = self._leases.claim(one.name, list(self.operations), most)
            taken = [op for row in found if (op := self._taken(one, row, until_s))]
            with self._agenda.changed:
                one.running += len(taken)
                self._leases.held.update((op.id, op) for op in taken)
                if len(found) == most and one.free:
                    self._agenda.at_once(one.name)  # there may be more
            for op in taken:
                self._pool.submit(lambda op=op: self._run(one, op))  # type: ignore[misc]

    def _taken(self, one: WorkQueue[object], row: OperationRecord, until_s: float) -> Op[object] | None:
        what = self.operations[row.kind]
        try:
            op = Op(what, row, self.db, one.parts)
        except NotUnderstood as problem:
            self._agenda.again(one.name, put_aside(self.db, row, problem, self.timing.retry))
            return None
        op.leased_until_s = until_s
        op.on_part = functools.partial(self.on_part, one)
        return op

    def _look_ahead(self, one: WorkQueue[object]) -> None:
        """Set the alarm for the next waiting operation, in case it waits since another worker's life."""
        with self.db.read() as tx:
            due_s = claims.next_due(tx, [one.name])
        if due_s is not None and due_s - self.db.time() < self.timing.poll_s:
            self._agenda.again(one.name, max(0.01, due_s - self.db.time()))

    # ---------------------------------------------------------------- running

    def _run(self, one: WorkQueue[object], op: Op[object]) -> None:
        announced_before_end: int | None = None

        def ending() -> None:
            nonlocal announced_before_end
            announced_before_end = self._agenda.announced(one.name)

        def watching(step: Step) -> contextlib.AbstractContextManager[None]:
            return self._overdue.watching(op, one, step)

        runner = Runner(op, retry=self.timing.retry, stopping=self._stopping, faults=self.faults)
        runner.ending, runner.watching = ending, watching
        runner.late = lambda tx: self.on_late(tx, _left(op))
        if not self.db.is_sqlite:  # there a signal's transaction is over, or has not begun
            runner.aside.expecting = self._agenda.listen_for
        started_s, outcome = time.monotonic(), "interrupted"
        try:
            with logs.bind(request_id=op.request_id or "-"), self.around(op):
                outcome = self._outcome(runner)
            self.on_ended(op, outcome, time.monotonic() - started_s)
        except Exception:
            log.exception("the end of op=%s was not counted", op.id)
        finally:
            if op.waits_s is not None:
                self._agenda.again(one.name, op.waits_s)
            with self._agenda.changed:
                if self._leases.held.get(op.id) is op:
                    del self._leases.held[op.id]
                was_full, one.running = not one.free, one.running - 1
                if op.is_followed or was_full:
                    self._agenda.at_once(one.name)
                elif announced_before_end not in (None, self._agenda.announced(one.name)):
                    # whoever was woken while the end was being written may have looked too early
                    self._agenda.soon(one.name)
                if self._stopping.is_set():
                    self._agenda.changed.notify_all()

    def _outcome(self, runner: Runner) -> str:
        op = runner.op
        try:
            outcome = runner.run()
        except exc.DBAPIError as error:
            # the row stays ours: the lease keeper, or the next life, goes on with it
            log.warning("op=%s was interrupted by the database: %s", op.id, str(error).split("\n")[0])
        except Exception:
            log.exception("op=%s kind=%s stopped by a bug in the journal", op.id, op.what.kind)
        else:
            log.debug("op=%s kind=%s resource=%s %s", op.id, op.what.kind, op.resource_id, outcome)
            return outcome
        return "interrupted"


def _left(op: Op[object]) -> claims.Left:
    """The operation as a run leaves it that has lost its lease."""
    return claims.Left(
        id=op.id,
        kind=op.what.kind,
        queue=op.queue,
        step=op.step,
        direction=op.direction,
        home=op.home,
        args=msgspec.to_builtins(op.args),
        data=op.data,
    )


def _letting_go(let_go: Callable[[], None]) -> threading.Thread:
    """A thread that does it: what hangs or breaks keeps nothing else from being let go of."""

    def try_to() -> None:
        try:
            let_go()
        except exc.SQLAlchemyError as error:
            log.warning("the database was not told of the end: %s", str(error).split("\n")[0])
        except Exception:
            log.exception("the end stumbled over a bug")

    thread = threading.Thread(target=try_to, name="end", daemon=True)
    thread.start()
    return thread


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
