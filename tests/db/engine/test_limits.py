# SPDX-License-Identifier: Apache-2.0
"""A statement of a request ends in time, whatever it is; and who asks for much leaves room for all others."""

import threading
import time

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from abaca import errors
from abaca.db.engine import limits
from abaca.db.engine.limits import Limits, Turns
from abaca.http import faults
from tests.conftest import wait_until

ENDLESS = sa.text("WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 - n FROM up) SELECT count(*) FROM up")
ONE = sa.text("SELECT 1")


@pytest.fixture(params=["look", "change"])
def using(request, database):
    """Transactions of one kind, whose statements may take 0.2 s."""
    look_s, change_s = (0.2, 60.0) if request.param == "look" else (60.0, 0.2)
    db = database.open(most=Limits(look_s, change_s), pool_size=1)
    return db.read if request.param == "look" else db.write


def test_a_statement_that_would_never_end_is_stopped_and_the_connection_goes_on(using):
    for _ in range(3):  # through SQLAlchemy, and then past it
        begun_s = time.monotonic()
        with pytest.raises(exc.OperationalError) as caught, using() as tx:
            tx.scalar(ENDLESS)
        assert 0.1 < time.monotonic() - begun_s < 20
        assert limits.is_over(caught.value)
        with using() as tx:
            assert tx.scalar(ONE) == 1
    told = faults.known(caught.value, "r")
    assert (type(told), told.status) == (errors.Unavailable, 503)
    assert "longer than a request may" in told.message


def test_another_error_is_no_matter_of_time(database):
    with pytest.raises(exc.DBAPIError) as caught, database.open().read() as tx:
        tx.scalar(sa.text("SELECT nothing FROM nowhere"))
    assert not limits.is_over(caught.value)


def test_workers_are_not_limited(database):
    with database.open().read() as tx:
        is_off = True if database.is_sqlite else tx.scalar(sa.text("SHOW statement_timeout")) == "0"
    assert is_off


class Asking:
    """Somebody who asks for much in a thread, and says how far they are."""

    def __init__(self, turns):
        self.turns = turns
        self.is_let = threading.Event()
        self.may_end = threading.Event()
        self.error = None
        self.thread = threading.Thread(target=self._ask)
        self.thread.start()

    def _ask(self):
        try:
            with self.turns.one():
                self.is_let.set()
                assert self.may_end.wait(60)
        except errors.Unavailable as error:
            self.error = error

    def end(self):
        self.may_end.set()
        self.thread.join(60)


def test_of_what_takes_long_one_is_under_way_and_one_waits():
    turns = Turns()
    first = Asking(turns)
    assert first.is_let.wait(60)
    others = [Asking(turns) for _ in range(6)]
    wait_until(lambda: sum(one.error is not None for one in others) == 5)
    (waiting,) = (one for one in others if one.error is None)
    assert not waiting.is_let.is_set()
    assert "served first" in others[others.index(waiting) - 1].error.message
    first.end()
    assert waiting.is_let.wait(60)
    waiting.end()
    with turns.one():
        pass


def test_where_threads_are_few_nobody_waits_for_what_takes_long():
    now_s = [0.0]
    turns = Turns(lambda: now_s[0], waiting=0)
    first = Asking(turns)
    assert first.is_let.wait(60)
    now_s[0] = (limits.LONG_S + limits.PATIENCE_S) / 2
    other = Asking(turns)
    wait_until(lambda: other.error is not None)
    first.end()
    with turns.one():
        pass


def test_what_takes_no_time_is_waited_for_by_all():
    turns, done = Turns(lambda: 0.0), []
    first = Asking(turns)
    assert first.is_let.wait(60)
    others = [Asking(turns) for _ in range(6)]
    for one in others:
        one.may_end.set()
    first.end()
    for one in others:
        one.end()
        done.append((one.is_let.is_set(), one.error))
    assert done == [(True, None)] * 6


def test_who_fails_lets_the_next_have_their_turn():
    turns = Turns()
    with pytest.raises(exc.ArgumentError), turns.one():
        raise exc.ArgumentError
    with turns.one():
        pass
