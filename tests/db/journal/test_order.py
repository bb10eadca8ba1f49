# SPDX-License-Identifier: Apache-2.0
"""Rows of operations are locked in one order, so that two transactions that need several never wait for each other."""

import threading

import pytest
import sqlalchemy as sa

from abaca.db.engine.database import Database
from abaca.db.journal import children, claims, operations, steering, waits
from abaca.journal.leases import Leases
from tests.conftest import wait_until
from tests.databases import database, on_postgres, postgres  # noqa: F401 (fixtures)
from tests.db.journal.journal_rows import add

WAITING = sa.text(
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)
T = operations.t
pytestmark = pytest.mark.parametrize("database", [on_postgres], indirect=True)
OLD = {"state": "running", "owner": "w#1", "lease_until": 10.0}

# What locks several rows, and what these rows are like.
ACTS = {
    "promote": ({"state": "waiting", "not_before": 5.0}, lambda tx: claims.promote(tx, ["q"], 100.0)),
    "hear": ({"state": "waiting"}, lambda tx: waits.hear(tx, "bell")),
    "signal": ({"state": "waiting"}, lambda tx: waits.signal_operations(tx, ["b", "a"])),
    "cancel-children": ({"parent_id": "parent"}, lambda tx: children.cancel(tx, ["parent"])),
    "cancel-of-key": ({}, lambda tx: steering.cancel_of_key(tx, "k")),
}

# What looks for work that was left behind, again and again, and waits for nobody.
LOOKS = {
    "regain": lambda tx: claims.regain(tx, ["q"], [], owner="w#1"),
    "take-over": lambda tx: claims.take_over(tx, ["q"], [], at=claims.Moment(now_s=100.0)),
    "inherit": lambda tx: claims.inherit(tx, ["q"], [], worker="w", at=claims.Moment(now_s=5.0)),
}


@pytest.fixture
def db(database):  # noqa: F811
    """Two operations: `b` has the lower number; `a` has the lower id, and lies before it on the disk."""
    made: Database = database.open()
    with made.write() as tx:
        for name in "ba":
            add(tx, id=name)
            waits.add(tx, name, ["bell"])
    return made


def put(db, **values):
    with db.write() as tx:
        tx.execute(sa.update(T).where(T.c.id == "a").values(**values))
        tx.execute(sa.update(T).where(T.c.id == "b").values(**values))
    with db.write() as tx:
        tx.execute(sa.update(T).where(T.c.id == "b").values(updated_at=tx.now))


def lock(tx, op_id):
    tx.rows(sa.select(T.c.id).where(T.c.id == op_id).with_for_update())


def waiting(db):
    with db.read() as tx:
        return tx.scalar(WAITING)


def problems_of(db, run):
    """What goes wrong in `run`, beside a transaction that locks the higher number first, and then the lower."""
    problems = []

    def running():
        try:
            run()
        except sa.exc.SQLAlchemyError as error:
            problems.append(error)

    thread = threading.Thread(target=running)
    with db.write() as tx:
        lock(tx, "b")
        thread.start()
        wait_until(lambda: waiting(db) == 1)
        lock(tx, "a")  # whoever had that one would wait for this transaction, and it for them
    thread.join(60)
    return problems


@pytest.mark.parametrize("act", list(ACTS))
def test_whoever_locks_several_has_the_one_with_the_lower_number_first(db, act):
    values, do = ACTS[act]
    put(db, **{"step": 0, **values})

    def run():
        with db.write() as tx:
            do(tx)

    assert problems_of(db, run) == []


def test_a_lease_that_cannot_be_renewed_now_keeps_no_other_from_being_renewed(db):
    put(db, **OLD)

    class Held:
        leased_until_s = 0.0

    leases = Leases("w", "w#1", db, 30.0)
    leases.held.update({"a": Held(), "b": Held()})
    thread = threading.Thread(target=leases.renew)
    with db.write() as tx:
        lock(tx, "b")
        thread.start()
        wait_until(lambda: waiting(db) == 1)
        with db.read() as other:
            assert operations.show(other, "a").lease_until > OLD["lease_until"]
        lock(tx, "a")
    thread.join(60)
    assert all(one.leased_until_s > OLD["lease_until"] for one in leases.held.values())
    with db.read() as tx:
        assert operations.show(tx, "b").lease_until > OLD["lease_until"]


@pytest.mark.parametrize("look", list(LOOKS))
def test_what_another_transaction_writes_is_left_to_the_next_look(db, look):
    """The other one may have the higher number, `a`, as its own, and be about to signal the lower."""
    put(db, **OLD)
    with db.write() as writing:
        lock(writing, "a")
        with db.write() as tx:
            LOOKS[look](tx)
        assert queued(db) == {"b"}
    with db.write() as tx:
        LOOKS[look](tx)
    assert queued(db) == {"a", "b"}


def queued(db):
    with db.read() as tx:
        return {name for name in "ab" if operations.show(tx, name).state == "queued"}


def test_what_is_left_of_an_earlier_life_is_waited_for_one_by_one(db):
    put(db, **OLD)
    leases = Leases("w", "w#2", db, 30.0)
    thread = threading.Thread(target=leases.inherit, args=("q",))
    with db.write() as tx:
        lock(tx, "b")
        thread.start()
        wait_until(lambda: waiting(db) == 1)
        lock(tx, "a")
    thread.join(60)
    assert queued(db) == {"a", "b"}


def test_what_is_due_is_not_passed_over_while_a_child_of_it_ends(db):
    """The end of one child of several changes the row of its parent, and wakes nobody."""
    put(db, state="waiting", not_before=5.0, children=2)

    def promote():
        with db.write() as tx:
            claims.promote(tx, ["q"], 100.0)

    thread = threading.Thread(target=promote)
    with db.write() as tx:
        children.ended(tx, "a", is_done=True)
        thread.start()
        wait_until(lambda: waiting(db) == 1)
    thread.join(60)
    assert queued(db) == {"a", "b"}
