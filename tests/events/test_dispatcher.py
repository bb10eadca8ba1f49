# SPDX-License-Identifier: Apache-2.0
"""Whatever commits is delivered, in the order of its resource, by as many workers as there are; nothing else is."""

import contextlib
import datetime
import os
import random
import threading
import time

import pytest
from sqlalchemy import exc

from abaca.db.administration import events as rows
from abaca.domain.administration.events import About, Subscriptions
from abaca.events.contract import Away, Refused
from abaca.reconcile.events import Dispatcher, Timing
from abaca.reconcile.expiry import Expiry
from tests.conftest import wait_until
from tests.databases import on_postgres
from tests.events import told

QUICK = Timing(lease_s=1.0, delays_s=(0.02,))


class Shelf:
    """A target that keeps what it gets; `before` may raise or wait."""

    concurrency = 3
    timeout_s = 0.1

    def __init__(self, name="shelf"):
        self.name = name
        self.before = lambda _event: None
        self.got = []
        self._lock = threading.Lock()

    def send(self, event):
        self.before(event)
        with self._lock:
            self.got.append(event)

    def close(self):
        pass

    def numbers(self, resource_id):
        """In the order of first arrival."""
        return list(dict.fromkeys(one.payload["number"] for one in list(self.got) if one.resource_id == resource_id))


@pytest.fixture
def db(database):
    made = database.open()
    made.subscriptions = Subscriptions({"shelf": ["*"], "other": ["thing.rare"]})
    return made


def tell(db, resource_id, number, event_type="thing.change"):
    with db.write() as tx:
        rows.write(tx, event_type, About(resource_type="thing", resource_id=resource_id), {"number": number})


class Threads:
    """Dispatchers in threads of their own, until the end of the block."""

    def __init__(self, *dispatchers):
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(one,)) for one in dispatchers]

    def _work(self, dispatcher):
        pause_s = 0.0
        while not self._over.wait(min(0.01, pause_s)):
            pause_s = dispatcher.deliver()

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exception):
        self._over.set()
        for thread in self._threads:
            thread.join(60)


def undelivered(db):
    with db.read() as tx:
        return {target.name: waiting.undelivered for target, waiting in rows.targets(tx)}


def test_three_workers_deliver_in_order_while_it_is_written(db):
    shelf = Shelf()
    dice = random.Random(7)
    # a receiver in whose time others get their turn
    shelf.before = lambda _event: [os.sched_yield() for _ in range(dice.randrange(50))]
    things = [f"thing{number}" for number in range(7)]
    with Threads(*(Dispatcher(db, shelf, f"worker{number}", QUICK) for number in range(3))):
        writers = [
            threading.Thread(target=lambda one=one: [tell(db, one, number) for number in range(20)]) for one in things
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        wait_until(lambda: undelivered(db) == {"shelf": 0})
    for one in things:
        assert shelf.numbers(one) == list(range(20))


def test_another_worker_goes_on_when_the_lease_has_ended(db):
    shelf = Shelf()
    tell(db, "a", 1)
    first, second = Dispatcher(db, shelf, "one", QUICK), Dispatcher(db, shelf, "two", QUICK)
    first.deliver()
    tell(db, "a", 2)
    assert 0 < second.deliver() <= QUICK.lease_s + 0.2  # until then it is the first one's
    assert shelf.numbers("a") == [1]
    with Threads(second):
        wait_until(lambda: shelf.numbers("a") == [1, 2])


def test_a_worker_that_comes_back_under_its_name_goes_on_at_once(db):
    shelf = Shelf()
    tell(db, "a", 1)
    Dispatcher(db, shelf, "one", Timing(lease_s=600)).deliver()
    tell(db, "a", 2)
    Dispatcher(db, shelf, "one", Timing(lease_s=600)).deliver()
    assert shelf.numbers("a") == [1, 2]


def test_what_is_left_by_a_worker_that_stops_is_anybody_s(db):
    shelf = Shelf()
    first = Dispatcher(db, shelf, "one", Timing(lease_s=600))
    first.deliver()
    first.leave()
    tell(db, "a", 1)
    Dispatcher(db, shelf, "two").deliver()
    assert shelf.numbers("a") == [1]


def test_a_worker_that_has_left_takes_nothing_more(db):
    """Its thread may come late to a last look."""
    shelf = Shelf()
    tell(db, "a", 1)
    first = Dispatcher(db, shelf, "one", Timing(lease_s=600))
    first.leave()
    first.deliver()
    assert shelf.numbers("a") == []
    Dispatcher(db, shelf, "two").deliver()
    assert shelf.numbers("a") == [1]


def test_a_worker_leaves_when_what_is_under_way_has_arrived(db):
    """And what has arrived is not sent again by whoever goes on."""
    shelf, arrived, go_on = Shelf(), threading.Event(), threading.Event()

    def hold(_event):
        arrived.set()
        assert go_on.wait(60)

    shelf.timeout_s = 10
    shelf.before = hold
    for number in range(3):
        tell(db, "a", number)
    first = Dispatcher(db, shelf, "one", Timing(lease_s=600))
    delivering, leaving = threading.Thread(target=first.deliver), threading.Thread(target=first.leave)
    delivering.start()
    assert arrived.wait(60)
    leaving.start()
    wait_until(lambda: first.is_leaving)
    second = Dispatcher(db, shelf, "two", Timing(lease_s=600))
    assert second.deliver() > 0  # not its turn yet
    go_on.set()
    delivering.join(60)
    leaving.join(60)
    second.deliver()
    assert [one.payload["number"] for one in shelf.got] == [0, 1, 2]


@pytest.mark.parametrize("database", [on_postgres], indirect=True)  # SQLite has one writer: nothing commits late
def test_what_commits_late_is_not_passed_by(db):
    shelf = Shelf()
    dispatcher = Dispatcher(db, shelf, "one", QUICK)
    with db.write() as tx:
        rows.write(tx, "thing.change", About(resource_type="thing", resource_id="early"), {"number": 1})
        tell(db, "late", 2)  # takes a later number and commits first
        dispatcher.deliver()
        assert [event.resource_id for event in shelf.got] == ["late"]
    dispatcher.deliver()
    assert [event.resource_id for event in shelf.got] == ["late", "early"]


def test_what_is_rolled_back_was_never_told(db):
    def tell_and_fail():
        with db.write() as tx:
            rows.write(tx, "thing.change", About(resource_type="thing", resource_id="a"), {"number": 1})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tell_and_fail()
    shelf = Shelf()
    Dispatcher(db, shelf, "one").deliver()
    assert shelf.got == []


def test_nothing_is_written_when_nobody_wants_it(database):
    db = database.open()
    tell(db, "a", 1)
    db.subscriptions = Subscriptions({"shelf": ["thing.other.*"]})
    tell(db, "a", 2)
    with db.read() as tx:
        assert told.newest_first(tx) == []


def test_each_target_gets_what_it_asked_for(db):
    shelf, other = Shelf(), Shelf("other")
    tell(db, "a", 1)
    tell(db, "a", 2, "thing.rare")
    for target in (shelf, other):
        Dispatcher(db, target, "one").deliver()
    assert (shelf.numbers("a"), other.numbers("a")) == ([1, 2], [2])


def test_a_target_that_takes_one_at_a_time_gets_them_as_they_were_written(db):
    shelf = Shelf()
    shelf.concurrency = 1
    for number in range(6):
        tell(db, f"thing{number % 3}", number)

    def refuse(event):
        if event.resource_id == "thing1":
            raise Refused(reason="not this one")

    shelf.before = refuse
    Dispatcher(db, shelf, "one").deliver()
    assert [event.payload["number"] for event in shelf.got] == [0, 2, 3, 5]


def test_a_target_that_is_away_is_asked_ever_less_often_and_shows_why(db):
    shelf = Shelf()

    def is_away(_event):
        raise Away(reason="it is on holiday")

    shelf.before = is_away
    tell(db, "a", 1)
    dispatcher = Dispatcher(db, shelf, "one", Timing(delays_s=(0.01, 100, 300)))
    assert dispatcher.deliver() == pytest.approx(0.01)
    wait_until(lambda: dispatcher.deliver() > 50)
    with db.read() as tx:
        ((stuck, waiting),) = rows.targets(tx)
    assert (stuck.attempts, stuck.error, waiting.undelivered) == (2, "it is on holiday", 1)
    shelf.before = lambda _event: None
    dispatcher.deliver()
    assert shelf.got == []
    with db.write() as tx:
        assert rows.retry_now(tx, "shelf")
    dispatcher.deliver()
    assert shelf.numbers("a") == [1]
    with db.read() as tx:
        ((well, waiting),) = rows.targets(tx)
    assert (well.attempts, well.error, waiting.undelivered, well.delivered) == (0, None, 0, 1)


def test_what_nobody_took_in_time_is_dropped_and_counted(db, database, caplog):
    shelf = Shelf()
    Dispatcher(db, shelf, "one").deliver()
    tell(db, "a", 1)
    later = database.open(clock=lambda: time.time() + 7200)
    expiry = Expiry(later, (), keep_messages_s=1, keep_operations_s=1, keep_events_s=3600)
    expiry.events()
    with db.read() as tx:
        ((target, waiting),) = rows.targets(tx)
        assert told.newest_first(tx) == []
    assert (waiting.undelivered, target.dropped) == (0, 1)
    assert "1 events for shelf are given up" in caplog.text


def test_an_event_says_when_it_was_written(db):
    shelf = Shelf()
    tell(db, "a", 1)
    Dispatcher(db, shelf, "one").deliver()
    assert abs(shelf.got[0].created_at - db.now()) < datetime.timedelta(seconds=60)


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
def test_a_database_that_went_away_and_came_back_loses_nothing(db, database):
    shelf = Shelf()
    dispatcher = Dispatcher(db, shelf, "one", QUICK)
    tell(db, "a", 1)
    shelf.before = lambda _event: database.server.restart()  # between reading and writing down
    with contextlib.suppress(exc.DBAPIError):
        dispatcher.deliver()
    shelf.before = lambda _event: None
    tell(db, "a", 2)
    with Threads(dispatcher):
        wait_until(lambda: undelivered(db) == {"shelf": 0})
    assert shelf.numbers("a") == [1, 2]
