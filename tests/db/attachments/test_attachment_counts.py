# SPDX-License-Identifier: Apache-2.0
"""How many attachments there are is known without counting them, whoever adds some or adds them up meanwhile."""

import contextlib

import pytest
import sqlalchemy as sa

from abaca.db.attachments import attachment_counts
from abaca.db.tables.attachments import attachment_counts as t
from tests.databases import on_postgres


@pytest.fixture
def db(database):
    opened = database.open()
    yield opened
    opened.close()


def change(db, *numbers):
    for number in numbers:
        with db.write() as tx:
            attachment_counts.change(tx, number)


def add_up(db, most=100):
    with db.write() as tx:
        return attachment_counts.add_up(tx, most)


def rows(db):
    with db.read() as tx:
        return sorted(row.number for row in tx.rows(sa.select(t.c.number)))


def number(db):
    with db.read() as tx:
        return attachment_counts.by_state(tx).get("active", 0)


def test_many_changes_become_one_row_with_their_sum(db):
    before = number(db)
    change(db, 1, 1, -1, 5)
    assert number(db) == before + 6
    add_up(db)
    assert rows(db) == [before + 6]
    assert number(db) == before + 6


def test_where_there_is_one_row_nothing_is_written(db):
    change(db, 3)
    add_up(db)
    with db.read() as tx:
        kept = tx.row(sa.select(t)).id
    assert add_up(db) == 1
    with db.read() as tx:
        assert tx.row(sa.select(t)).id == kept


def test_they_are_added_up_some_at_a_time(db):
    before = number(db)
    change(db, *range(1, 8))
    while add_up(db, 3) == 3 and len(rows(db)) > 1:
        assert number(db) == before + 28
    assert rows(db) == [before + 28]


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
def test_nobody_waits_for_another_one_and_nothing_is_counted_twice(db):
    before = number(db)
    change(db, 1, 1)
    with contextlib.ExitStack() as open_transactions:
        adding, adding_up, also = (open_transactions.enter_context(db.write()) for _ in range(3))
        for tx in (adding, adding_up, also):
            tx.connection.exec_driver_sql("SET LOCAL lock_timeout = '1s'")
        attachment_counts.change(adding, 1)
        adding.flush()
        assert attachment_counts.add_up(adding_up, 100) > 1
        adding_up.flush()
        assert attachment_counts.add_up(also, 100) == 0
        attachment_counts.change(also, 1)
    assert number(db) == before + 4


def test_after_a_change_by_hand_it_is_made_right(db):
    change(db, 2)
    with db.write() as tx:
        assert attachment_counts.recount(tx) == (2, 0)
    with db.write() as tx:
        assert attachment_counts.recount(tx) is None
    assert number(db) == 0
