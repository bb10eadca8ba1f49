# SPDX-License-Identifier: Apache-2.0
"""The journal's statements: who may take what, also when several transactions are open at the same time."""

import datetime
import random
import threading
import time

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from abaca.db.administration import services
from abaca.db.journal import claims, keys, operations, runs
from tests.conftest import wait_until
from tests.db.journal.journal_rows import add, claim, claim_in, held, place, queue_up


@pytest.fixture
def db(database):
    return database.open()


def test_the_oldest_are_taken_first_and_no_more_than_asked_for(db):
    ids = queue_up(db, *"abcdef")
    assert [row.id for row in claim(db, 2)] == ids[:2]
    assert [row.id for row in claim(db, 2)] == ids[2:4]
    assert [row.id for row in claim(db)] == ids[4:]
    assert claim(db) == []


def test_no_more_are_taken_than_asked_for_from_many(db):
    """Whatever plan the database makes for a large table that it knows well."""
    queue_up(db, *(str(number) for number in range(3000)))
    with db.connect() as connection:
        connection.execute(sa.text("ANALYZE"))
    taken = [row.id for _ in range(5) for row in claim(db, 3)]
    assert len(taken) == len(set(taken)) == 15


def held_key(db, key):
    with db.read() as tx:
        return tx.scalar(sa.select(keys.k.c.held_key).where(keys.k.c.key == key))


def test_what_is_taken_is_told_and_leased(db):
    (op_id,) = queue_up(db, "a")
    (row,) = claim(db)
    assert (row.id, row.state, row.owner, row.token, row.lease_until, held_key(db, "a")) == (
        op_id,
        "running",
        "w#1",
        1,
        1030.0,
        "a",
    )


def test_only_due_work_of_the_own_queue_and_of_known_kinds_is_taken(db):
    queue_up(db, "later", not_before=1000.5)
    queue_up(db, "elsewhere", queue="other")
    queue_up(db, "unknown", kind="new")
    (mine,) = queue_up(db, "mine", not_before=999.5)
    assert [row.id for row in claim(db)] == [mine]


def test_of_one_key_only_the_oldest_is_taken_and_the_next_when_it_has_ended(db):
    first, second = queue_up(db, "a", "a")
    assert [row.id for row in claim(db)] == [first]
    assert claim(db) == []
    with db.write() as tx:
        assert runs.end(tx, first, 1, "done", place(), held("a")) is True
    assert [row.id for row in claim(db)] == [second]
    with db.write() as tx:
        assert runs.end(tx, second, 1, "done", place(), held("a")) is False


def test_who_ends_is_told_of_followers_of_its_own_key_only(db):
    first, _ = queue_up(db, "a", "b")
    assert [row.id for row in claim(db, 1)] == [first]
    with db.write() as tx:
        assert runs.end(tx, first, 1, "done", place(), held("a")) is False


def test_a_row_that_became_visible_late_waits_for_the_younger_that_runs(db):
    """Transactions do not commit in the order of their numbers: the queue goes on all the same."""
    older, younger, other = queue_up(db, "a", "a", "b")
    with db.write() as tx:
        t = operations.t
        tx.execute(t.update().where(t.c.id == younger).values(state="running", token=1, owner="w#2"))
        tx.execute(keys.HOLD, {"ops": [younger]})
    assert [row.id for row in claim(db)] == [other]
    with db.write() as tx:
        runs.end(tx, younger, 1, "done", place(), held("a"))
    assert [row.id for row in claim(db)] == [older]


def test_two_of_one_key_can_never_run_at_once(db):
    _, younger = queue_up(db, "a", "a")
    claim(db)

    def force():
        with db.write() as tx:
            tx.execute(keys.HOLD, {"ops": [younger]})

    with pytest.raises(exc.IntegrityError):
        force()


def test_many_workers_together_take_each_operation_once(db):
    """And of no key two at a time, whatever the order in which they come and end."""
    queue_up(db, *(str(number % 7) for number in range(70)))
    taken, lock, running = [], threading.Lock(), set()
    problems = []

    def work(name):
        while len(taken) < 70 and not problems:
            try:
                rows = claim(db, random.randint(1, 3), owner=name)
            except exc.IntegrityError:
                continue
            for row in rows:
                with lock:
                    taken.append(row.id)
                    if row.keys[0] in running:
                        problems.append(f"two of {row.keys[0]}")
                    running.add(row.keys[0])
            for row in rows:
                with lock:
                    running.discard(row.keys[0])
                with db.write() as tx:
                    if runs.end(tx, row.id, row.token, "done", place(), held(*row.keys)) is None:
                        problems.append("lost")

    threads = [threading.Thread(target=work, args=(f"w{number}#1",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert problems == []
    assert len(taken) == len(set(taken)) == 70


# ---------------------------------------------------------------- coalescing


def test_of_a_coalescing_key_one_waits(db):
    with db.write() as tx:
        first = add(tx, coalesce_key="sync")
        assert add(tx, coalesce_key="sync") == first
    with db.write() as tx:
        assert add(tx, coalesce_key="sync") == first
        assert add(tx, coalesce_key="another") != first


def test_once_it_is_taken_the_next_is_a_new_one(db):
    (first,) = queue_up(db, "a", coalesce_key="sync")
    claim(db)
    (second,) = queue_up(db, "a", coalesce_key="sync")
    assert second != first
    assert queue_up(db, "a", coalesce_key="sync") == [second]


def test_one_that_waits_for_another_try_takes_no_newcomers(db):
    (first,) = queue_up(db, "a", coalesce_key="sync")
    claim(db)
    with db.write() as tx:
        runs.wait(tx, first, 1, place(attempt=1), 2000.0)
    (second,) = queue_up(db, "a", coalesce_key="sync")
    assert second != first, "it may have looked already at what there was to do"


@pytest.mark.system
def test_what_somebody_is_adding_to_is_not_taken_under_his_hands(postgres, tmp_path):
    from tests.databases import Place

    here = Place(postgres.new_database(), tmp_path, postgres)
    db = here.open()
    (first,) = queue_up(db, "a", coalesce_key="sync")
    with db.write() as tx:
        assert add(tx, "a", coalesce_key="sync") == first
        assert claim(db) == [], "the newcomer's transaction is open: a worker would not see what it adds"
    assert [row.id for row in claim(db)] == [first]
    here.close()


def waiting(db):
    """How many transactions wait for another one."""
    those = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with db.read() as tx:
        return tx.scalar(sa.text(those))


@pytest.mark.system
def test_who_adds_to_what_is_just_being_taken_gets_a_new_one(postgres, tmp_path):
    from tests.databases import Place

    here = Place(postgres.new_database(), tmp_path, postgres)
    db = here.open()
    (first,) = queue_up(db, "a", coalesce_key="sync")
    added = []
    thread = threading.Thread(target=lambda: added.extend(queue_up(db, "a", coalesce_key="sync")))
    with db.write() as tx:
        assert [row.id for row in claim_in(tx)] == [first]
        thread.start()
        wait_until(lambda: waiting(db) == 1)
        assert added == [], "it waits for the claim to end"
    thread.join(60)
    assert added != [first]
    assert len(added) == 1
    here.close()


def test_a_thing_added_while_its_operation_is_taken_is_never_missed(db):
    """Each adder notes a thing and queues the coalescing operation in one transaction; each taker reads all things."""
    t = sa.Table("things", sa.MetaData(), sa.Column("name", sa.String(20), primary_key=True))
    t.create(db._writer)
    added, seen, is_over = set(), set(), threading.Event()
    failures = []

    def adder(who):
        for number in range(40):
            name = f"{who}-{number}"
            with db.write() as tx:
                tx.execute(t.insert().values(name=name))
                add(tx, "share", coalesce_key="sync")
            added.add(name)

    def taker(name):
        while True:
            was_over = is_over.is_set()
            try:
                rows = claim(db, owner=name)
            except exc.IntegrityError:
                continue
            if not rows and was_over:
                return
            for row in rows:
                with db.read() as tx:
                    seen.update(tx.connection.execute(sa.select(t.c.name)).scalars())
                with db.write() as tx:
                    if runs.end(tx, row.id, row.token, "done", place(), held(*row.keys)) is None:
                        failures.append("lost")

    adders = [threading.Thread(target=adder, args=(who,)) for who in "abc"]
    takers = [threading.Thread(target=taker, args=(f"w{number}#1",)) for number in range(2)]
    for thread in [*adders, *takers]:
        thread.start()
    for thread in adders:
        thread.join(60)
    is_over.set()
    for thread in takers:
        thread.join(60)
    t.drop(db._writer)
    assert failures == []
    assert len(added) == 120
    assert added == seen


# ---------------------------------------------------------------- looking and forgetting


def test_when_the_next_is_due(db):
    (now,) = queue_up(db, "now")
    queue_up(db, "soon", not_before=1001.5)
    queue_up(db, "late", not_before=1009.0)
    assert [row.id for row in claim(db)] == [now]
    with db.read() as tx:
        assert claims.next_due(tx, ["q"]) == 1001.5
        assert claims.next_due(tx, ["other"]) is None
    claim(db, now_s=1002.0)
    with db.read() as tx:
        assert claims.next_due(tx, ["q"]) == 1009.0
    claim(db, now_s=1010.0)
    with db.read() as tx:
        assert claims.next_due(tx, ["q"]) is None


def test_operations_are_found_newest_first(db):
    ids = queue_up(db, *"abc", project_id="p")
    queue_up(db, "d")
    claim(db, 1)
    with db.write() as tx:
        runs.end(tx, ids[0], 1, "done", place(), held("a"))
    with db.read() as tx:
        assert [row.id for row in operations.find(tx, project_id="p")] == ids[::-1]
        assert [row.id for row in operations.find(tx, project_id="p", live=True)] == [ids[2], ids[1]]
        assert [row.id for row in operations.find(tx, project_id="p", state="done")] == [ids[0]]
        newest = operations.find(tx, limit=1)[0]
        assert [row.id for row in operations.find(tx, before=newest.seq)] == ids[::-1]
        assert operations.show(tx, "nothing") is None


def test_only_what_ended_long_ago_is_forgotten_a_bounded_number_at_a_time(db):
    ids = queue_up(db, *"abcde")
    claim(db, 4)
    with db.write() as tx:
        for op_id, state in zip(ids, ("done", "failed", "cancelled", "done"), strict=False):
            runs.end(tx, op_id, 1, state, place(), held("?"))
    t = operations.t
    with db.write() as tx:
        tx.execute(t.update().where(t.c.id.in_(ids[:3])).values(finished_at=tx.now - datetime.timedelta(days=8)))
    with db.write() as tx:
        limit = tx.now - datetime.timedelta(days=7)
        assert operations.purge(tx, limit, most=2) == 2
        assert operations.purge(tx, limit, most=2) == 1
        assert operations.purge(tx, limit, most=2) == 0
    with db.read() as tx:
        assert {row.id for row in operations.find(tx)} == set(ids[3:])


def test_a_child_is_remembered_until_its_parent_has_ended(db):
    (parent,) = queue_up(db, "a")
    (child,) = queue_up(db, "b", parent_id=parent)
    claim(db)
    long_ago = datetime.timedelta(days=8)
    t = operations.t
    with db.write() as tx:
        runs.end(tx, child, 1, "done", place(), held("b", parent_id=parent))
        tx.execute(t.update().where(t.c.id == child).values(finished_at=tx.now - long_ago))
        assert operations.purge(tx, tx.now - datetime.timedelta(days=7)) == 0
    with db.write() as tx:
        runs.end(tx, parent, 1, "done", place(), held("a"))
        assert operations.purge(tx, tx.now - datetime.timedelta(days=7)) == 1


# ---------------------------------------------------------------- time


@pytest.mark.system
def test_time_is_the_databases_however_wrong_this_hosts_clock_is(postgres, tmp_path):
    from tests.databases import Place

    here = Place(postgres.new_database(), tmp_path, postgres)
    db = here.open(clock=lambda: 0.0)
    db.agree_on_time()
    with db.read() as tx:
        theirs_s = float(tx.scalar(sa.text("SELECT extract(epoch FROM clock_timestamp())")))
    assert abs(db.time() - theirs_s) < 2
    here.close()


@pytest.mark.system
def test_whoever_keeps_time_sees_who_is_up_however_wrong_this_hosts_clock_is(postgres, tmp_path):
    from tests.databases import Place

    here = Place(postgres.new_database(), tmp_path, postgres)
    db, wrong = here.open(), here.open(clock=lambda: time.time() + 7200)
    with db.write() as tx:
        services.register(tx, services.SHARE_BINARY, "h@b", "nova")

    def is_up():
        with wrong.read() as tx:
            return services.find(tx, "h@b").takes_work(services.alive_since(tx, 60))

    assert not is_up()
    wrong.keep_time()
    assert is_up()
    here.close()
