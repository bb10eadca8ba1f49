# SPDX-License-Identifier: Apache-2.0
"""A playground: one database, one toy world, and workers that serve its places, here and in processes."""

import contextlib
import itertools
import threading

import msgspec
import sqlalchemy as sa

from abaca.db.engine.database import Database
from abaca.db.journal import operations as rows
from abaca.db.tables.journal import operation_keys, operation_waits
from abaca.journal import queueing
from abaca.journal.kinds import Retry
from abaca.journal.queues import WorkQueue
from abaca.journal.worker import Timing, Worker
from tests.conftest import wait_until
from tests.databases import Place
from tests.journal import toys
from tests.journal.toys import Args
from tests.journal.world import World, facts
from tests.operations.theatre import ACTIONS, Arms

NAME = "toyhost"
# minutes between slow looks: whatever goes on sooner was woken
TIMING = Timing(
    lease_s=30.0, poll_s=600.0, grace_s=20.0, start_again_s=(0.05,), retry=Retry(delays_s=(0.01, 0.02), undo_tries=2)
)
# for those whose work another shall take over soon
HASTY = msgspec.structs.replace(TIMING, lease_s=0.3)

QUEUES = {toys.HOME: toys.Home, toys.SOURCE: toys.Source, toys.DESTINATION: toys.Destination}


def queues(world, concurrency=8):
    return [WorkQueue(name, parts(world), concurrency) for name, parts in QUEUES.items()]


_opened = {}


def opened(url, directory, is_sqlite):
    """The database and the world, known to a process before its children are."""
    if directory not in _opened:
        place = Place(url, directory, None if is_sqlite else "elsewhere")
        _opened[directory] = place, place.open(), World(directory)
    return _opened[directory]


def make_worker(name, place, db, world, timing):
    return Worker(name, db, queues(world), toys.KNOWN, timing=timing, listener=place.listener(name))


def rehearse(**where):
    """Done once by whoever has the children: what they need is compiled, and no connection is left to them."""
    place, db, world = opened(**where)
    ground = Ground(place, world.directory, None, db)
    for kind in ("plain", "joined", "awaited"):
        ground.run(kind, ground.subject("rehearsal"), word="look")
    ground.leave()
    wait_until(lambda: threading.active_count() == 1)  # a fork copies no threads, but the locks that they hold
    db.let_go()


def play_victim(arms, timing, **where):
    """The life of a worker process that does not survive the point at which it is armed to die."""
    place, db, world = opened(**where)
    worker = make_worker(NAME, place, db, world, msgspec.convert(timing, Timing))
    worker.faults = Arms({point: ACTIONS[action] for point, action in arms.items()})
    worker.run()


class Ground:
    """See the module."""

    def __init__(self, place, directory, nursery, db: Database | None = None):
        self.place = place
        self.nursery = nursery
        self.db = db or place.open()
        self.world = World(directory)
        self.where = {"url": place.url, "directory": str(directory), "is_sqlite": place.is_sqlite}
        self._acting = None
        self._numbers = itertools.count(1)
        if nursery is not None:
            nursery.do("tests.journal.ground:rehearse", **self.where)

    # ---------------------------------------------------------------- workers

    def enter(self, name=NAME, *, timing=TIMING, arms=None):
        """A worker in this process; the one before leaves."""
        self.leave()
        worker = make_worker(name, self.place, self.db, self.world, timing)
        worker.faults = arms or Arms({})
        thread = threading.Thread(target=worker.run, name=f"worker {name}")
        self._acting = worker, thread
        thread.start()
        wait_until(lambda: all(one.is_started for one in worker.queues.values()), every_s=0.002)
        return worker

    def leave(self):
        if self._acting is not None:
            worker, thread = self._acting
            worker.stop()
            thread.join(60)
            assert not thread.is_alive()
            self._acting = None

    def victim(self, arms, timing):
        """A worker process that dies where `arms` say."""
        self.leave()
        more = {"arms": arms, "timing": msgspec.to_builtins(timing)}
        return self.nursery.start("tests.journal.ground:play_victim", **self.where, **more)

    # ---------------------------------------------------------------- requests

    def subject(self, word="toy"):
        """The name of what a case is about; whatever belongs to it begins with this."""
        return f"{word}{next(self._numbers)}."

    def enqueue(self, kind, resource_id, *, keys=None, word="", names=()):
        target = queueing.Target(queue=toys.HOME, keys=keys or [f"toy:{resource_id}"], resource_id=resource_id)
        with self.db.write() as tx:
            return queueing.enqueue(tx, toys.KNOWN[kind], Args(word=word, names=names), target, None)

    def run(self, kind, subject, **more):
        """One of that kind from request to end, in a healthy worker."""
        self.enter()
        op_id = self.enqueue(kind, subject, **more)
        if kind == "awaited":
            self.enqueue("ring", f"{subject}-bell", word=subject)
        self.until_ended(subject)
        return self.show(op_id)

    # ---------------------------------------------------------------- looking

    def show(self, op_id):
        with self.db.read() as tx:
            return rows.show(tx, op_id)

    def about(self, subject):
        """All operations about a subject, the oldest first."""
        with self.db.read() as tx:
            return tx.rows(sa.select(rows.t).where(rows.t.c.resource_id.startswith(subject)).order_by(rows.t.c.seq))

    def seen(self, predicate, timeout_s=60.0):
        """The first true value of a predicate that looks into the database, which may be away."""

        def look():
            with contextlib.suppress(sa.exc.OperationalError):
                return predicate()
            return None

        return wait_until(look, timeout_s, every_s=0.003)

    def until_ended(self, subject, timeout_s=60.0):
        """The rows of all operations about a subject, when none is live."""

        def ended():
            found = self.about(subject)
            return found if all(row.state in rows.ENDED for row in found) else None

        return self.seen(ended, timeout_s)

    def check(self, subject):
        """What is wrong after all about a subject has ended; nothing, it is hoped."""
        found = self.about(subject)
        with self.db.read() as tx:
            there = self.world.things(subject) | facts(tx, subject)
            wanted = toys.expected(found)
            ids = [row.id for row in found]
            keys = sa.select(operation_keys.c.key).where(operation_keys.c.operation_id.in_(ids))
            waits = sa.select(operation_waits.c.condition).where(operation_waits.c.operation_id.in_(ids))
            return [
                *(line for row in found for line in unsettled(row)),
                *(f"leaked: key {row.key}" for row in tx.rows(keys)),
                *(f"leaked: wait for {row.condition}" for row in tx.rows(waits)),
                *(f"leaked: {thing}" for thing in sorted(there - wanted)),
                *(f"missing: {thing}" for thing in sorted(wanted - there)),
                *(f"leaked: {line}" for line in self.world.complaints()),
            ]


def unsettled(row):
    """What an operation's row says that it must not say when it has ended."""
    wanted = {
        "owner": None,
        "lease_until": None,
        "wait": None,
        "overdue_since": None,
        "children": 0,
        "progress_done": row.progress_total,
    }
    found = row._asdict()
    return [
        *([f"stuck: {row.kind} is {row.state}"] if row.state not in rows.ENDED else []),
        *(f"leaked: {row.kind} has {name} {found[name]}" for name, value in wanted.items() if found[name] != value),
    ]
