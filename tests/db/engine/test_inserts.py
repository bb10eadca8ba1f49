# SPDX-License-Identifier: Apache-2.0
"""Rows that a transaction adds are there for whatever it does next, and set no state that they must not."""

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from abaca.db.engine import guard, inserts
from abaca.db.journal import operations
from abaca.db.shares import share_instances, shares
from abaca.db.tables.journal import operation_keys
from abaca.db.tables.shares import export_locations
from abaca.db.tables.shares import share_instances as t

SHARE = {"project_id": "p", "size": 1, "share_proto": "NFS"}
WORK = {"kind": "k", "queue": "it's a \\ queue", "args": {}, "resource_type": "share", "resource_id": "s"}


@pytest.fixture
def db(database):
    return database.open()


def add(tx, name):
    shares.add(tx, {**SHARE, "id": f"s{name}"})
    share_instances.add(tx, {"id": f"i{name}", "share_id": f"s{name}"})


def ids(db):
    with db.read() as tx:
        return [row.id for row in tx.rows(sa.select(t.c.id).order_by(t.c.id))]


def test_what_was_added_is_seen_by_the_next_statement_and_after_the_end(db):
    for name in range(3):
        with db.write() as tx:
            add(tx, name)
            assert tx.scalar(sa.select(t.c.status).where(t.c.id == f"i{name}")) == "creating"
            add(tx, f"{name}b")
    assert ids(db) == ["i0", "i0b", "i1", "i1b", "i2", "i2b"]


def test_what_was_added_is_moved_like_any_other(db):
    for name in range(3):
        with db.write() as tx:
            add(tx, name)
            share_instances.move(tx, f"i{name}", "refuse")
            assert tx.scalar(sa.select(t.c.status).where(t.c.id == f"i{name}")) == "error"


def test_many_rows_of_a_table_go_together(db):
    with db.write() as tx:
        for name in range(5):
            add(tx, name)
    assert ids(db) == [f"i{name}" for name in range(5)]


def test_very_many_rows_go_in_statements_of_one_size(db):
    texts = []
    with db.write() as tx:
        sa.event.listen(tx.connection, "before_cursor_execute", lambda _c, _cursor, text, *_: texts.append(text))
        for number in range(60):
            add(tx, f"{number:02}")
    assert ids(db) == [f"i{number:02}" for number in range(60)]
    assert max(text.count("INSERT INTO") for text in texts) <= inserts.MOST


def test_what_is_taken_back_is_not_added(db):
    def fail():
        with db.write() as tx:
            add(tx, 1)
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    with db.rehearsal().write() as tx:
        add(tx, 2)
        operations.add(tx, {**WORK, "keys": ["share:s2"]})
    assert ids(db) == []


def test_what_the_database_refuses_is_refused_at_the_end_at_the_latest(db):
    with pytest.raises(exc.IntegrityError), db.write() as tx:
        share_instances.add(tx, {"id": "i", "share_id": "none"})
    assert ids(db) == []


def test_an_operation_takes_rows_along_and_has_its_keys_in_their_order(db):
    for name in range(3):
        with db.write() as tx:
            add(tx, name)
            op_id = operations.add(tx, {**WORK, "keys": ["a:1", "b:2", "a:1"], "not_before": 7.0 * name})
        with db.read() as tx:
            row = operations.show(tx, op_id)
            assert (row.state, row.keys, row.queue) == (
                ("queued", "waiting")[name > 0],
                ["a:1", "b:2", "a:1"],
                WORK["queue"],
            )
            mine = (
                sa.select(operation_keys).where(operation_keys.c.operation_id == op_id).order_by(operation_keys.c.key)
            )
            found = tx.rows(mine)
            assert [(one.key, one.seq, one.place, one.held_key) for one in found] == [
                (key, row.seq, row.seq, None) for key in ("a:1", "b:2")
            ]
    assert ids(db) == ["i0", "i1", "i2"]


def test_a_move_takes_rows_along(db):
    for name in range(3):
        with db.write() as tx:
            add(tx, name)
        row = {"share_instance_id": f"i{name}", "path": "p", "is_admin_only": False, "preferred": False}
        row |= {"preferred_by_hand": False, "metadata": {}}
        with db.write() as tx:
            tx.add(export_locations, {**row, "id": f"l{name}", "created_at": tx.now})
            share_instances.finish_create(tx, f"i{name}")
        with db.read() as tx:
            assert tx.scalar(sa.select(t.c.status).where(t.c.id == f"i{name}")) == "available"
            assert tx.scalar(sa.select(sa.func.count()).select_from(export_locations)) == name + 1


def test_a_state_is_refused_by_itself_and_beside_one_that_is_allowed(db):
    for _ in range(3):
        with db.write() as tx:
            add(tx, "x")
            with pytest.raises(guard.StateWriteRefused):
                tx.add(t, {"id": "i", "share_id": "sx", "cast_rules_to_readonly": False, "status": "error"})
            with pytest.raises(guard.StateWriteRefused):
                tx.along(tx.execute, sa.update(t).values(status=sa.bindparam("new")), {"new": "error"})
            share_instances.update(tx, "ix", {"host": "h@b#p"})
        with db.write() as tx:
            assert tx.scalar(sa.select(t.c.status)) == "creating"
            share_instances.delete(tx, "ix")
            tx.execute(sa.delete(shares.shares))
