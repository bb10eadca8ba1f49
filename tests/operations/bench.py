# SPDX-License-Identifier: Apache-2.0
"""A bench for the journal: small operations whose steps note in a diary what they do, and workers that run them."""

import contextlib
import threading
from pathlib import Path

import msgspec
from sqlalchemy import exc

from abaca import errors
from abaca.db.journal import keys
from abaca.db.journal import operations as rows
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.journal.worker import Timing, Worker
from abaca.operations.parts import BackEnd, queue_of
from tests.conftest import wait_until

QUEUE = "here@shelf"
QUICK = kinds.Retry(delays_s=(0.02, 0.04, 0.06), undo_tries=2)
# minutes between slow looks: whatever starts sooner was woken
TIMING = Timing(lease_s=30.0, poll_s=600.0, grace_s=20.0, start_again_s=(0.05,), retry=QUICK)


class Args(msgspec.Struct, frozen=True):
    word: str = ""


class Shelf(contract.Driver):
    """A back end that has nothing to do; operations of the bench do not use it."""

    def start(self):
        pass

    def stop(self):
        pass

    def pools(self):
        return []

    def create(self, instance):
        return []

    def delete(self, instance):
        pass

    def set_access(self, instance, rules):
        return {}


def shelf(queue=QUEUE, concurrency=4):
    name = queue.partition("@")[2]
    backend = contract.Backend(name=name, host=queue, share_backend_name=name, state_dir=Path("unused"))
    return queue_of(Shelf(backend, None), concurrency)


class Diary:
    """What steps did, in order, by all threads of this process."""

    def __init__(self):
        self._lines = []
        self._change = threading.Condition()

    def note(self, line):
        with self._change:
            self._lines.append(line)
            self._change.notify_all()

    @property
    def lines(self):
        return list(self._lines)

    def until(self, line, times=1, timeout_s=60.0):
        with self._change:
            assert self._change.wait_for(lambda: self._lines.count(line) >= times, timeout_s), self._lines


class Gate:
    """Where a step waits until the test lets it go on; says who has come."""

    def __init__(self):
        self.arrived = threading.Event()
        self.opened = threading.Event()

    def wait(self):
        self.arrived.set()
        assert self.opened.wait(60)


def note_end(diary, kind):
    def succeed(op, tx):
        diary.note(f"{kind} succeeds")

    def fail(op, tx, error):
        diary.note(f"{kind} fails: {error.code}")

    return {"succeed": succeed, "fail": fail}


def operation(kind, *steps, diary=None, **more):
    """An operation of the bench; without a diary its end is not noted."""
    return kinds.operation(
        kind=kind,
        resource="thing",
        args=Args,
        steps=steps,
        **{"parts": BackEnd, **note_end(diary or Diary(), kind), **more},
    )


def step(name, do, undo=kinds.nothing, **more):
    """A step under a name of its own."""

    def named(op):
        do(op)

    named.__name__ = name
    return kinds.Step(named, undo=undo, **more)


def record(name, do, undo=lambda op, tx: None):
    def named(op, tx):
        do(op, tx)

    named.__name__ = name
    return kinds.DatabaseStep(named, undo=undo)


class Bench:
    """One database, the operations that are known on it, and the workers that a test starts."""

    def __init__(self, place):
        self.place = place
        self.db = place.open()
        self.diary = Diary()
        self.known = {}
        self._running = []

    def add(self, kind, *steps, **more):
        """A kind of operation that every worker of this bench knows."""
        self.known[kind] = operation(kind, *steps, diary=self.diary, **more)
        return self.known[kind]

    def worker(self, name="worker", *, queues=None, known=None, timing=TIMING, db=None, faults=None, listens=True):
        """A worker that runs in a thread of its own until `stop`."""
        worker = Worker(
            name,
            db or self.place.open(),
            queues or [shelf()],
            self.known if known is None else known,
            timing=timing,
            listener=self.place.listener(name) if listens else None,
        )
        if faults is not None:
            worker.faults = faults
        thread = threading.Thread(target=worker.run, name=f"worker {name}")
        self._running.append((worker, thread))
        thread.start()
        wait_until(lambda: all(one.is_started for one in worker.queues.values()))
        return worker

    def stop(self, worker=None):
        """Tell a worker, or all, to stop, and wait until they have."""
        for one, thread in self._running:
            if worker in (None, one) and thread.is_alive():
                one.stop()
        for one, thread in self._running:
            if worker in (None, one):
                thread.join(60)
                assert not thread.is_alive(), "the worker does not stop"

    def has_ended(self, worker):
        """Whether a worker that was told to stop has."""
        return not any(one is worker and thread.is_alive() for one, thread in self._running)

    def enqueue(self, kind, key="thing", *, word="", queue=QUEUE, coalesce_key=None, tx=None):
        """Queue an operation, in a transaction of its own unless one is given; its id."""
        what = self.known.get(kind) or operation(kind, step("never", lambda op: None))
        held = [key] if isinstance(key, str) else list(key)
        target = queueing.Target(queue=queue, keys=held, resource_id=held[0], coalesce_key=coalesce_key)
        with contextlib.nullcontext(tx) if tx else self.db.write() as writing:
            return queueing.enqueue(writing, what, Args(word=word), target, None)

    def show(self, op_id):
        with self.db.read() as tx:
            return rows.show(tx, op_id)

    def until(self, op_id, *states, timeout_s=60.0, and_so=lambda row: True):
        """The row, once it is in one of the states."""

        def found():
            try:
                row = self.show(op_id)
            except exc.OperationalError:  # a test has taken the database away
                return None
            # No row yet: the transaction that enqueues the operation is not over.
            return row if row and row.state in states and and_so(row) else None

        return wait_until(found, timeout_s, every_s=0.005)

    def run(self, kind, key="thing", **more):
        """Queue it and wait for its end."""
        return self.until(self.enqueue(kind, key, **more), *rows.ENDED)

    def update(self, op_id, *, holds=False, **values):
        """Set columns by hand, as a fault would have left them; `holds`: it has begun, and holds its keys."""
        t = rows.t
        with self.db.write() as tx:
            tx.execute(t.update().where(t.c.id == op_id).values(**values))
            if holds:
                tx.execute(keys.HOLD, {"ops": [op_id]})


class Final(errors.BackendError):
    """It will never work: {reason}"""

    code = "Final"


def fails(error):
    """A step that raises the error."""

    def do(op):
        raise error

    return do


def fails_first(times, diary, line, error=None):
    """A step that raises `error` (Busy) so many times, and then notes the line."""
    left = [times]

    def do(op):
        if left[0] > 0:
            left[0] -= 1
            diary.note(f"{line} stumbles")
            raise error or contract.Busy(reason="wait")
        diary.note(line)

    return do
