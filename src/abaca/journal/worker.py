# SPDX-License-Identifier: Apache-2.0
"""The process that does the work: it claims operations of its back ends' queues and runs them in threads.

One thread dispatches, one renews leases, each task has its own, and each back end has so many threads as it may do
things at once. A worker serves a queue from the moment its driver has started; a back end that cannot start is tried
again and again without holding up the others.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import heapq
import logging
import math
import os
import queue as queues
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import exc

from abaca import errors, logs
from abaca.db.engine.database import Database
from abaca.db.journal import operations as rows
from abaca.drivers import contract
from abaca.journal.journal import Faults, NotUnderstood, Op, Operation, Retry, no_faults
from abaca.journal.runner import Runner, put_aside
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
    start_again_s: Sequence[float] = (1, 2, 5, 10, 30)
    retry: Retry = Retry()


class PeriodicTask(msgspec.Struct, frozen=True):
    """Something done every `every_s` seconds, once at the start, and never twice at the same time.

    When `do` gives a float, it is done again after so many seconds if that is sooner; and at once when `queue` is
    announced.
    """

    name: str
    every_s: float
    do: Callable[[], object]
    queue: str | None = None


class WorkQueue:
    """A back end this worker serves: its driver, and how much it may do at once. Its queue is `backend.host`.

    Work on servers is served alike, with tools in place of a driver; then `is_backend` is False.
    """

    def __init__(self, driver: Any, concurrency: int = 8, *, is_backend: bool = True) -> None:
        self.driver: contract.Driver = driver
        self.is_backend = is_backend
        self.backend = driver.backend
        self.queue = driver.backend.host
        self.concurrency = concurrency
        self.is_started = False
        self.problem: str | None = None
        self.running = 0


class Threads:
    """Threads that run jobs, kept for the next one. Daemons: a step that does not end does not keep the process."""

    def __init__(self) -> None:
        self._jobs: queues.SimpleQueue[Callable[[], None] | None] = queues.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._size = 0

    def submit(self, job: Callable[[], None]) -> None:
        """Run it at once. Only one thread submits; how much there is at once is its business."""
        self._jobs.put(job)
        if not self._idle.acquire(blocking=False):
            self._size += 1
            threading.Thread(target=self._work, name=f"operation-{self._size}", daemon=True).start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job
            self._idle.release()

    def dismiss(self) -> None:
        """No more jobs will come; those under way go on."""
        for _ in range(self._size):
            self._jobs.put(None)


class Worker:
    """See the module. `run` blocks until `stop` is called from another thread or a signal handler."""

    def __init__(
        self,
        name: str,
        db: Database,
        served: Sequence[WorkQueue],
        operations: Mapping[str, Operation],
        *,
        timing: Timing | None = None,
        listener: Listener | None = None,
    ) -> None:
        self.name = name
        # who holds the leases: another process of this name, by mistake or before, is somebody else
        self.owner = f"{name}#{uuid.uuid4().hex[:8]}"
        self.db = db
        self.served: dict[str, WorkQueue] = {one.queue: one for one in served}
        self.operations = operations
        self.timing = timing or Timing()
        self.listener: Listener = listener or NoListener()
        self.faults: Faults = no_faults
        # told before any back end is started
        self.on_begun: Callable[[], None] = lambda: None
        self.on_started: Callable[[WorkQueue], None] = lambda _served: None
        # who is told of the end, all at once
        self.on_stopped: list[Callable[[], None]] = []
        # told why a back end could not be started; it is tried again
        self.on_problem: Callable[[WorkQueue, str], None] = lambda _served, _problem: None
        # entered around every run
        self.around: Callable[[Op], contextlib.AbstractContextManager[object]] = lambda _op: contextlib.nullcontext()
        # told of every run: the operation, how the run ended, and its seconds
        self.on_ended: Callable[[Op, str, float], None] = lambda _op, _outcome, _seconds: None
        # told of a part of such an operation: the back end's name, how many were found how, and its seconds
        self.on_part: Callable[[str, Mapping[str, int], float], None] = lambda _backend, _counts, _seconds: None
        self.periodic_tasks: list[PeriodicTask] = []
        # each task's own, with the queue whose announcement rings it
        self._bells: list[tuple[str | None, threading.Event]] = []
        self._pool = Threads()
        self._threads: list[threading.Thread] = []
        self._held: dict[str, Op] = {}
        # held while work is taken and noted down, lest what was just taken looks like left behind
        self._taking = threading.Lock()
        self._stopping = threading.Event()
        self._is_over = threading.Event()
        self._stop_asked, self._ask_to_stop = os.pipe()
        weakref.finalize(self, _close, self._stop_asked, self._ask_to_stop)
        # guards what follows, and the counts of what runs
        self._wake = threading.Condition()
        self._due: set[str] = set()
        self._alarms: list[tuple[float, str]] = []
        self._wakes: collections.Counter[str] = collections.Counter()
        self._look_at_s = -math.inf

    # ---------------------------------------------------------------- life

    def run(self) -> None:
        """Serve until told to stop; then let running steps end, hand the rest back, and return."""
        self._bells = [(task.queue, threading.Event()) for task in self.periodic_tasks]
        self._thread("stop", self._await_stop)
        self._until_it_works(self.db.agree_on_time, "the database")
        self._until_it_works(self.on_begun, "the database")
        self.listener.start(self.wake)
        self._thread("leases", self._keep_leases)
        for task, (_, bell) in zip(self.periodic_tasks, self._bells, strict=True):
            self._thread(task.name, self._do, task, bell)
        for one in self.served.values():
            self._thread(f"start {one.backend.name}", self._start, one)
        while not self._stopping.is_set():
            self._dispatch()
        self._wind_down()

    def stop(self) -> None:
        """Begin to stop; returns at once, and may be called from a signal handler, which must not touch any lock."""
        os.write(self._ask_to_stop, b"x")

    def _await_stop(self) -> None:
        os.read(self._stop_asked, 1)
        self._stopping.set()
        for _, bell in self._bells:
            bell.set()
        with self._wake:
            self._wake.notify_all()

    def wake(self, queue: str) -> None:
        """There is work on `queue`; on every queue when it is empty."""
        for name, bell in self._bells:
            if name is not None and queue in ("", name):
                bell.set()
        found = [queue] if queue in self.served else [] if queue else list(self.served)
        if found:
            with self._wake:
                self._due.update(found)
                self._wakes.update(found)
                self._wake.notify_all()

    @property
    def held(self) -> list[str]:
        """The ids of the operations under way."""
        return list(self._held)

    def _thread(self, name: str, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _until_it_works(self, attempt: Callable[[], None], what: str) -> None:
        tries = 0
        while not self._stopping.is_set():
            try:
                return attempt()
            except (exc.DBAPIError, errors.AbacaError) as error:
                problem = str(error).split("\n")[0]
            except Exception as error:
                log.exception("%s stumbled over a bug", what)
                problem = f"unexpected {type(error).__name__}"
            delay_s = self.timing.start_again_s[min(tries, len(self.timing.start_again_s) - 1)]
            log.warning("%s is not there yet (%s); again in %g s", what, problem, delay_s)
            tries += 1
            self._stopping.wait(delay_s)
        return None

    def _start(self, one: WorkQueue) -> None:
        def attempt() -> None:
            try:
                one.driver.start()
                if one.is_backend:
                    self.on_started(one)
            except errors.AbacaError as error:
                one.problem = error.message
                self.on_problem(one, one.problem)
                raise
            except OSError as error:
                one.problem = str(error)
                self.on_problem(one, one.problem)
                raise contract.Unreachable(reason=str(error)) from error

        self._until_it_works(attempt, f"back end {one.backend.name}")
        self._until_it_works(lambda: self._inherit(one.queue), "the database")
        if not self._stopping.is_set():
            one.is_started, one.problem = True, None
            log.info("back end %s is served", one.backend.name)
            with self._wake:
                self._look_at_s = -math.inf
            self.wake(one.queue)

    def _wind_down(self) -> None:
        with self._taking:  # whoever was taking work has noted it down, and nobody takes more
            self._pool.dismiss()
        with self._wake:
            self._wake.wait_for(lambda: not self._held, timeout=self.timing.grace_s)
        if self._held:
            log.warning("%d operations are still in a step; they go on at the next start", len(self._held))
        self._is_over.set()
        until_s = time.monotonic() + END_S
        started = [one.driver.stop for one in self.served.values() if one.is_started]
        for thread in [_letting_go(one) for one in (self.listener.stop, *self.on_stopped, *started)]:
            thread.join(max(0.0, until_s - time.monotonic()))
        # what was cut off by that, and who is in the middle of a statement, gets a moment to write how it stands
        until_s = min(until_s, time.monotonic() + 1.0)
        with self._wake:
            self._wake.wait_for(lambda: not self._held, timeout=until_s - time.monotonic())
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))

    # ---------------------------------------------------------------- claiming

    def _dispatch(self) -> None:
        due, is_look = self._wait_for_work()
        for one in [self.served[queue] for queue in due]:
            if not one.is_started:
                continue
            try:
                self._claim(one)
                if is_look:
                    self._look_ahead(one)
            except exc.IntegrityError:
                # another worker has just taken one of the same key
                self._again(one.queue, 0.05)
            except exc.SQLAlchemyError as error:
                log.warning("no work can be claimed: %s", str(error).split("\n")[0])
                self._again(one.queue, 1.0)
            except Exception:
                log.exception("no work can be claimed")
                self._again(one.queue, 5.0)

    def _wait_for_work(self) -> tuple[set[str], bool]:
        """Where to look for work, and whether that is because it is time for a slow look everywhere."""
        with self._wake:
            while True:
                now_s = time.monotonic()
                while self._alarms and self._alarms[0][0] <= now_s:
                    self._due.add(heapq.heappop(self._alarms)[1])
                is_look = now_s >= self._look_at_s
                if is_look:
                    self._look_at_s = now_s + self.timing.poll_s
                    self._due.update(self.served)
                if self._due or self._stopping.is_set():
                    due, self._due = self._due, set()
                    return due, is_look
                until_s = min(self._look_at_s, self._alarms[0][0] if self._alarms else math.inf)
                self._wake.wait(until_s - now_s)

    def _again(self, queue: str, delay_s: float) -> None:
        """Look at `queue` in a while."""
        with self._wake:
            heapq.heappush(self._alarms, (time.monotonic() + delay_s, queue))
            self._wake.notify_all()

    def _claim(self, one: WorkQueue) -> None:
        with self._taking:
            free = one.concurrency - one.running
            if free <= 0 or self._stopping.is_set():
                return
            now_s = self.db.time()
            lease = rows.Lease(owner=self.owner, now_s=now_s, until_s=now_s + self.timing.lease_s)
            with self.db.once() as tx:
                found = rows.claim(tx, one.queue, list(self.operations), free, lease)
            taken = [op for row in found if (op := self._taken(one, row, lease.until_s))]
            with self._wake:
                one.running += len(taken)
                self._held.update((op.id, op) for op in taken)
                if len(found) == free and one.running < one.concurrency:
                    self._due.add(one.queue)  # there may be more, and something ended meanwhile
            for op in taken:
                self._pool.submit(lambda op=op: self._run(one, op))  # type: ignore[misc]

    def _taken(self, one: WorkQueue, row: Any, until_s: float) -> Op | None:
        try:
            op = Op(self.operations[row.kind], row, self.db, one.driver, one.backend)
        except NotUnderstood as problem:
            self._again(one.queue, put_aside(self.db, row, problem, self.timing.retry))
            return None
        op.leased_until_s = until_s
        op.on_part = functools.partial(self.on_part, one.backend.name)
        return op

    def _look_ahead(self, one: WorkQueue) -> None:
        """Set the alarm for the next waiting operation, in case it waits since another worker's life."""
        with self.db.read() as tx:
            due_s = rows.next_due(tx, [one.queue], self.db.time())
        if due_s is not None and due_s - self.db.time() < self.timing.poll_s:
            self._again(one.queue, max(0.01, due_s - self.db.time()))

    # ---------------------------------------------------------------- running

    def _run(self, one: WorkQueue, op: Op) -> None:
        wakes_before_end: int | None = None

        def ending() -> None:
            nonlocal wakes_before_end
            wakes_before_end = self._wakes[one.queue]

        runner = Runner(op, retry=self.timing.retry, stopping=self._stopping, faults=self.faults)
        runner.ending = ending
        started_s, outcome = time.monotonic(), "interrupted"
        try:
            with logs.bind(request_id=op.request_id or "-"), self.around(op):
                outcome = self._outcome(runner)
            self.on_ended(op, outcome, time.monotonic() - started_s)
        except Exception:
            log.exception("the end of op=%s was not counted", op.id)
        finally:
            if op.waits_s is not None:
                self._again(one.queue, op.waits_s)
            with self._wake:
                if self._held.get(op.id) is op:
                    del self._held[op.id]
                was_full, one.running = one.running >= one.concurrency, one.running - 1
                # whoever was woken while the end was being written may have looked too early
                may_be_late = wakes_before_end not in (None, self._wakes[one.queue])
                if op.is_followed or was_full or may_be_late:
                    self._due.add(one.queue)
                self._wake.notify_all()

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

    # ---------------------------------------------------------------- leases and periodic_tasks

    def _keep_leases(self) -> None:
        pause_s = self.timing.lease_s / 3
        while not self._is_over.wait(pause_s):
            pause_s = self.timing.lease_s / 3
            try:
                self.db.agree_on_time()
                self._renew()
                if not self._stopping.is_set():
                    self._reclaim([queue for queue, one in self.served.items() if one.is_started])
            except exc.SQLAlchemyError as error:
                log.warning("leases cannot be renewed: %s", str(error).split("\n")[0])
                pause_s = min(1.0, pause_s)
            except Exception:
                log.exception("the lease keeper stumbled")

    def _renew(self) -> None:
        held = dict(self._held)
        if held:
            until_s = self.db.time() + self.timing.lease_s
            with self.db.once() as tx:
                renewed = rows.renew(tx, self.owner, list(held), until_s)
            for op_id in renewed:
                held[op_id].leased_until_s = until_s

    def _reclaim(self, started: Sequence[str]) -> None:
        with self._taking, self.db.write() as tx:
            found = [
                *rows.regain(tx, started, self.held, owner=self.owner),
                *rows.take_over(tx, started, self.held, now_s=self.db.time()),
            ]
        self._found(found)

    def _inherit(self, queue: str) -> None:
        with self._taking, self.db.write() as tx:
            found = rows.inherit(tx, [queue], self.held, worker=self.name, now_s=self.db.time())
        self._found(found)

    def _found(self, found: Sequence[Any]) -> None:
        for row in found:
            log.info("op=%s kind=%s goes on here, at step %d (%s)", row.id, row.kind, row.step, row.direction)
            self.wake(row.queue)

    def _do(self, task: PeriodicTask, bell: threading.Event) -> None:
        while True:
            pause_s = task.every_s
            try:
                again_s = task.do()
                if isinstance(again_s, float):
                    pause_s = min(pause_s, again_s)
            except exc.DBAPIError as error:
                log.warning("%s waits for the database: %s", task.name, str(error).split("\n")[0])
            except errors.AbacaError as error:
                log.warning("%s: %s", task.name, error.message)
            except Exception:
                log.exception("%s failed", task.name)
            bell.wait(pause_s)
            if self._stopping.is_set():
                return
            bell.clear()


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
