# SPDX-License-Identifier: Apache-2.0
"""The process that does the work: it claims operations of its back ends' queues and runs them in threads.

One thread dispatches, one renews leases and does the chores, and each back end has so many threads as it may do things at
once. A worker serves a queue from the moment its driver has started; a back end that cannot start is tried again and again
without holding up the others.
"""

from __future__ import annotations

import concurrent.futures
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import exc

from abaca import errors, logs
from abaca.db import operations as rows
from abaca.db.engine import Database
from abaca.drivers import contract
from abaca.operations.journal import Faults, Op, Operation, Retry, Runner, no_faults
from abaca.operations.wakeup import Listener, NoListener

log = logging.getLogger(__name__)


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """The worker's times, in seconds."""

    lease_s: float = 30.0
    # how often it looks by itself when nothing wakes it
    poll_s: float = 5.0
    # how long running steps may take to end when it is told to stop
    grace_s: float = 10.0
    start_again_s: Sequence[float] = (1, 2, 5, 10, 30)
    retry: Retry = Retry()


class Chore(msgspec.Struct, frozen=True):
    """Something done every `every_s` seconds, once at the start, and never twice at the same time."""

    name: str
    every_s: float
    do: Callable[[], None]


class Served:
    """A back end this worker serves: its driver, and how much it may do at once. Its queue is `backend.host`."""

    def __init__(self, driver: contract.Driver, concurrency: int = 8) -> None:
        self.driver = driver
        self.backend = driver.backend
        self.queue = driver.backend.host
        self.concurrency = concurrency
        self.is_started = False
        self.problem: str | None = None
        self.running = 0


class Worker:
    """See the module. `run` blocks until `stop` is called from another thread or a signal handler."""

    def __init__(
        self,
        name: str,
        db: Database,
        served: Sequence[Served],
        operations: Mapping[str, Operation],
        *,
        timing: Timing | None = None,
        listener: Listener | None = None,
    ) -> None:
        self.name = name
        self.db = db
        self.served: dict[str, Served] = {one.queue: one for one in served}
        self.operations = operations
        self.timing = timing or Timing()
        self.listener: Listener = listener or NoListener()
        self.faults: Faults = no_faults
        self.on_started: Callable[[Served], None] = lambda _served: None
        self.on_stopped: Callable[[], None] = lambda: None
        # told of every run: the operation's kind, how the run ended, and its seconds
        self.on_ended: Callable[[str, str, float], None] = lambda _kind, _outcome, _seconds: None
        self.chores: list[Chore] = []
        self._held: dict[str, Op] = {}
        self._stopping = threading.Event()
        self._wake = threading.Condition()
        self._due: set[str] = set()
        size = sum(one.concurrency for one in served) or 1
        self._pool = concurrent.futures.ThreadPoolExecutor(size, thread_name_prefix="operation")
        self._threads: list[threading.Thread] = []

    # ---------------------------------------------------------------- life

    def run(self) -> None:
        """Serve until told to stop; then let running steps end, hand the rest back, and return."""
        self._until_it_works(self.db.agree_on_time, "the database")
        self.listener.start(self.wake)
        self._thread("leases", self._keep_leases)
        for chore in self.chores:
            self._thread(chore.name, self._do, chore)
        for one in self.served.values():
            self._thread(f"start {one.backend.name}", self._start, one)
        while not self._stopping.is_set():
            self._dispatch()
        self._wind_down()

    def stop(self) -> None:
        """Begin to stop; returns at once, and may be called from a signal handler."""
        self._stopping.set()
        threading.Thread(target=self.wake, args=("",), daemon=True).start()

    def wake(self, queue: str) -> None:
        """There is work on `queue`; on every queue when it is empty."""
        with self._wake:
            self._due |= {queue} if queue else set(self.served)
            self._wake.notify()

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
                delays = self.timing.start_again_s
                delay_s = delays[min(tries, len(delays) - 1)]
                log.warning("%s is not there yet (%s); again in %g s", what, str(error).split("\n")[0], delay_s)
                tries += 1
                self._stopping.wait(delay_s)
        return None

    def _start(self, one: Served) -> None:
        def attempt() -> None:
            try:
                one.driver.start()
                self.on_started(one)
            except errors.AbacaError as error:
                one.problem = error.message
                raise
            except OSError as error:
                one.problem = str(error)
                raise contract.Unreachable(reason=str(error)) from error

        self._until_it_works(attempt, f"back end {one.backend.name}")
        if not self._stopping.is_set():
            one.is_started, one.problem = True, None
            log.info("back end %s is served", one.backend.name)
            self._adopt([one.queue])
            self.wake(one.queue)

    def _wind_down(self) -> None:
        self.listener.stop()
        self._pool.shutdown(wait=False)
        with self._wake:
            self._wake.wait_for(lambda: not self._held, timeout=self.timing.grace_s)
        if self._held:
            log.warning("%d operations are still in a step; they go on at the next start", len(self._held))
        try:
            self.on_stopped()
        except exc.DBAPIError as error:
            log.warning("the database was not told of the end: %s", str(error).split("\n")[0])
        for one in self.served.values():
            if one.is_started:
                one.driver.stop()

    # ---------------------------------------------------------------- claiming

    def _dispatch(self) -> None:
        with self._wake:
            if not self._due and not self._stopping.is_set():
                self._wake.wait(self.timing.poll_s)
            was_woken = bool(self._due)
            # nobody woke us: look everywhere
            due, self._due = self._due or set(self.served), set()
        for queue in due:
            one = self.served.get(queue)
            if one is None or not one.is_started or self._stopping.is_set():
                continue
            try:
                if not self._claim(one) and not was_woken:
                    self._look_ahead(one)
            except exc.IntegrityError:
                # another worker runs something of the same key: it will be over in a moment
                self._again(queue, 0.05)
            except exc.DBAPIError as error:
                log.warning("no work can be claimed: %s", str(error).split("\n")[0])
                self._again(queue, 1.0)

    def _again(self, queue: str, delay_s: float) -> None:
        timer = threading.Timer(delay_s, self.wake, args=(queue,))
        timer.daemon = True
        timer.start()

    def _claim(self, one: Served) -> int:
        free = one.concurrency - one.running
        if free <= 0:
            return 0
        with self.db.write() as tx:
            found = rows.claim(
                tx,
                one.queue,
                list(self.operations),
                free,
                worker=self.name,
                now_s=self.db.time(),
                lease_s=self.timing.lease_s,
            )
        self._submit(one, found)
        return len(found)

    def _look_ahead(self, one: Served) -> None:
        """Set the alarm for the next waiting operation, in case it waits since another worker's life."""
        with self.db.read() as tx:
            due_s = rows.next_due(tx, [one.queue], self.db.time())
        if due_s is not None and due_s - self.db.time() < self.timing.poll_s:
            self._again(one.queue, max(0.01, due_s - self.db.time()))

    def _adopt(self, queues: Sequence[str]) -> None:
        if not queues:
            return
        with self.db.write() as tx:
            found = rows.adopt(
                tx,
                queues,
                list(self.operations),
                self.held,
                worker=self.name,
                now_s=self.db.time(),
                lease_s=self.timing.lease_s,
            )
        for row in found:
            log.info("op=%s kind=%s goes on here, at step %d (%s)", row.id, row.kind, row.step, row.direction)
            self._submit(self.served[row.queue], [row])

    def _submit(self, one: Served, found: Sequence[Any]) -> None:
        for row in found:
            op = Op(self.operations[row.kind], row, self.db, one.driver, one.backend)
            with self._wake:
                self._held[op.id] = op
                one.running += 1
            self._pool.submit(self._run, one, op)

    def _run(self, one: Served, op: Op) -> None:
        with logs.bind(request_id=op.request_id or "-"):
            self._run_bound(one, op)

    def _run_bound(self, one: Served, op: Op) -> None:
        runner = Runner(op, retry=self.timing.retry, stopping=self._stopping.is_set, faults=self.faults)
        started_s, outcome = time.monotonic(), "interrupted"
        try:
            outcome = runner.run()
            log.debug("op=%s kind=%s resource=%s %s", op.id, op.what.kind, op.resource_id, outcome)
        except exc.DBAPIError as error:
            # the row is still ours: the lease keeper finds it and goes on when the database is back
            log.warning("op=%s was interrupted by the database: %s", op.id, str(error).split("\n")[0])
        except Exception:
            log.exception("op=%s kind=%s stopped by a bug in the journal", op.id, op.what.kind)
        finally:
            self.on_ended(op.what.kind, outcome, time.monotonic() - started_s)
            if op.waits_s is not None:
                self._again(one.queue, op.waits_s)
            with self._wake:
                self._held.pop(op.id, None)
                was_full, one.running = one.running >= one.concurrency, one.running - 1
                if op.is_followed or was_full:
                    self._due.add(one.queue)
                self._wake.notify_all()

    # ---------------------------------------------------------------- leases and chores

    def _keep_leases(self) -> None:
        while not self._stopping.wait(self.timing.lease_s / 3):
            try:
                held = self.held
                if held:
                    with self.db.write() as tx:
                        rows.renew(tx, self.name, held, self.db.time() + self.timing.lease_s)
                self._adopt([queue for queue, one in self.served.items() if one.is_started])
            except exc.DBAPIError as error:
                log.warning("leases cannot be renewed: %s", str(error).split("\n")[0])
            except Exception:
                log.exception("the lease keeper stumbled")

    def _do(self, chore: Chore) -> None:
        while True:
            try:
                chore.do()
            except exc.DBAPIError as error:
                log.warning("%s waits for the database: %s", chore.name, str(error).split("\n")[0])
            except errors.AbacaError as error:
                log.warning("%s: %s", chore.name, error.message)
            except Exception:
                log.exception("%s failed", chore.name)
            if self._stopping.wait(chore.every_s):
                return
