# SPDX-License-Identifier: Apache-2.0
"""A state that anybody but the mover writes is refused, however the statement is made; all else passes."""

import re
import sqlite3

import pytest
import sqlalchemy as sa

from abaca.db.engine import guard, moving
from abaca.db.engine.database import insert_into
from abaca.db.engine.written import ALL, written
from abaca.db.shares import share_instances, shares
from abaca.db.tables import metadata
from abaca.db.tables.shares import share_instances as t
from tests import planting
from tests.databases import on_postgres, on_sqlite

# Through SQLAlchemy, compiled, and as the statement that is known by then.
TIMES = 3
BROKEN = {"status": "error"}
ROW = {"id": "x", "share_id": "s", "cast_rules_to_readonly": False}
# Columns that are named like states, and why the mover has nothing to do with them.
NO_STATES = {
    "access_rules.state": "of the release before: nobody writes it",
    "operations.state": "the journal's own statements move it, each guarded by the lease's token",
    "servers.status": "what an operator, or the cloud, says of a machine",
    "share_instances.status_rank": "written beside the status",
}


@pytest.fixture
def db(database):
    opened = database.open()
    with opened.write() as tx:
        shares.add(tx, {"id": "s", "project_id": "p", "size": 1, "share_proto": "NFS"})
        share_instances.add(tx, {"id": "i", "share_id": "s", "host": "h@b#p"})
    return opened


def everything(db):
    with db.read() as tx:
        return [tuple(row) for table in metadata.sorted_tables for row in tx.rows(sa.select(table))]


def raw(tx):
    """The driver's own connection."""
    return tx.connection.connection.dbapi_connection


def upserted(tx):
    insert = insert_into(t, tx.dialect)
    row = {**ROW, "created_at": tx.now}
    tx.execute(insert.values(row).on_conflict_do_update(index_elements=[t.c.id], set_=BROKEN))


def upserted_text(tx):
    tx.execute(
        sa.text(
            "INSERT INTO share_instances (id) VALUES (:id) ON CONFLICT (id) DO UPDATE SET host = 'h', status = 'x'"
        ),
        {"id": "i"},
    )


def selected(tx):
    names = ["id", "share_id", "status"]
    tx.execute(sa.insert(t).from_select(names, sa.select(t.c.id + "2", t.c.share_id, t.c.status)))


BY_PARAMETERS = sa.update(t).where(t.c.id == sa.bindparam("which"))
BY_NAME = sa.update(t).where(t.c.id == sa.bindparam("which")).values(status=sa.bindparam("wanted"))
PLANTED = {
    "a dictionary": lambda tx: tx.execute(sa.update(t).values(BROKEN)),
    "a dictionary of columns": lambda tx: tx.execute(sa.update(t).values({t.c.status: "error"})),
    "keywords": lambda tx: tx.execute(sa.update(t).values(status="error")),
    "unpacked values": lambda tx: tx.execute(sa.update(t).values(**BROKEN)),
    "the table's own update": lambda tx: tx.execute(t.update().values(status="error")),
    "ordered values": lambda tx: tx.execute(sa.update(t).ordered_values(("host", "h"), ("status", "error"))),
    "execute parameters": lambda tx: tx.execute(BY_PARAMETERS, {"which": "i", "status": "error"}),
    "a named parameter": lambda tx: tx.execute(BY_NAME, {"which": "i", "wanted": "error"}),
    "rows": lambda tx: tx.rows(sa.update(t).values(status="error").returning(t.c.id)),
    "many": lambda tx: tx.execute(BY_NAME, [{"which": "i", "wanted": one} for one in ("error", "available")]),
    "change": lambda tx: tx.change(t, "i", BROKEN),
    "the module's update": lambda tx: share_instances.update(tx, "i", BROKEN),
    "what stands beside a state": lambda tx: share_instances.update(tx, "i", {"status_rank": 0}),
    "an insert": lambda tx: tx.execute(sa.insert(t), {**ROW, "status": "available", "created_at": tx.now}),
    "many inserts": lambda tx: tx.execute(sa.insert(t), [{**ROW, "id": n, "status": "available"} for n in "yz"]),
    "an insert from a select": selected,
    "an upsert": upserted,
    "an upsert in a text": upserted_text,
    "a text": lambda tx: tx.execute(sa.text("UPDATE share_instances SET status = :to"), {"to": "error"}),
    "a text that is read": lambda tx: tx.rows(sa.text("UPDATE share_instances SET status = 'error' RETURNING id")),
    "the connection": lambda tx: tx.connection.execute(sa.update(t).values(status="error")),
    "driver's SQL": lambda tx: tx.connection.exec_driver_sql("UPDATE share_instances SET status = 'error'"),
    "a cursor of the pool's connection": lambda tx: tx.connection.connection.cursor().execute(
        "UPDATE share_instances SET status = 'error'"
    ),
    "the driver's connection": lambda tx: raw(tx).execute("UPDATE share_instances SET status = 'error'"),
    "the driver's many": lambda tx: raw(tx).cursor().executemany("UPDATE share_instances SET status = 'error'", [()]),
    "a kept cursor": lambda tx: tx.rows(sa.select(t.c.id))
    and tx.connection.connection.info.get("cursor", raw(tx).cursor()).execute(
        "UPDATE share_instances SET status = 'error'"
    ),
}  # fmt: skip
OF_POSTGRESQL = {
    "a common table expression": "WITH a AS (UPDATE share_instances SET status = 'error' RETURNING id) SELECT * FROM a",
    "an anonymous block": "DO $$ BEGIN UPDATE share_instances SET status = 'error'; END $$",
    "a block that hides the words": "DO $$ BEGIN EXECUTE 'UPD' || 'ATE share_instances SET status = 1'; END $$",
    "bytes": b"UPDATE share_instances SET status = 'error'",
    "only": "UPDATE ONLY public.share_instances AS mine SET status = 'error'",
    "merge": "MERGE INTO share_instances USING shares ON false WHEN MATCHED THEN UPDATE SET status = 'error'",
    "prepare": "PREPARE breach AS UPDATE share_instances SET status = 'error'",
    "a name in numbers": "UPDATE U&\"\\0073hare_instances\" SET status = 'error'",
}
OF_SQLITE = {
    "or replace": "INSERT OR REPLACE INTO share_instances (id, share_id, status) VALUES ('i', 's', 'error')",
    "replace": "REPLACE INTO share_instances SELECT * FROM share_instances",
    "brackets": "UPDATE [share_instances] SET [status] = 'error'",
    "strings for names": "UPDATE 'share_instances' SET 'status' = 'error'",
    "a trigger": "CREATE TRIGGER breach AFTER UPDATE ON shares BEGIN UPDATE share_instances SET status = 'error'; END",
}
REFUSED = pytest.raises(guard.StateWriteRefused, match=r"share_instances\.status\w* is a state|share_instances\.\w+, ")


@pytest.mark.parametrize("write", PLANTED.values(), ids=PLANTED)
def test_a_planted_write_is_refused(db, write):
    before = everything(db)
    for _ in range(TIMES):
        with REFUSED, db.write() as tx:
            write(tx)
    for _ in range(TIMES):
        with REFUSED, db.once() as tx:
            write(tx)
    assert everything(db) == before


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
@pytest.mark.parametrize("sql", OF_POSTGRESQL.values(), ids=OF_POSTGRESQL)
def test_postgresqls_own_ways_are_refused(db, sql):
    for _ in range(TIMES):
        with pytest.raises(guard.StateWriteRefused), db.write() as tx:
            raw(tx).execute(sql)
    with pytest.raises(guard.StateWriteRefused), db.write() as tx:
        list(raw(tx).cursor().stream(sql))


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
def test_a_composed_statement_and_a_copy_are_refused(db):
    from psycopg import sql

    composed = sql.SQL("UPDATE {} SET {} = 'error'").format(sql.Identifier("share_instances"), sql.Identifier("status"))
    with pytest.raises(guard.StateWriteRefused), db.write() as tx:
        raw(tx).execute(composed)
    with (
        pytest.raises(guard.StateWriteRefused),
        db.write() as tx,
        raw(tx).cursor().copy("COPY share_instances FROM STDIN"),
    ):
        pass


@pytest.mark.parametrize("database", [on_sqlite], indirect=True)
@pytest.mark.parametrize("sql", OF_SQLITE.values(), ids=OF_SQLITE)
def test_sqlites_own_ways_are_refused(db, sql):
    for send in ("execute", "executescript"):
        with pytest.raises(guard.StateWriteRefused), db.write() as tx:
            getattr(raw(tx), send)(sql)
        with pytest.raises(guard.StateWriteRefused), db.write() as tx:
            getattr(raw(tx).cursor(), send)(sql)


@pytest.mark.parametrize(
    "named", sorted(f"{table}.{name}" for table, names in guard.guarded_columns().items() for name in names)
)
def test_every_declared_state_is_guarded(db, named):
    table, name = named.split(".")
    with pytest.raises(guard.StateWriteRefused, match=re.escape(named)), db.write() as tx:
        tx.execute(sa.text(f"UPDATE {table} SET {name} = {name}"))  # noqa: S608


@pytest.mark.parametrize("table", metadata.sorted_tables, ids=lambda table: table.name)
def test_every_column_that_is_named_like_a_state_is_declared_as_one(table):
    likely = [c for c in table.c if re.search(r"(^|_)(status|state)$", c.name) and "machine" not in c.info]
    assert [f"{table.name}.{c.name}" for c in likely if f"{table.name}.{c.name}" not in NO_STATES] == []


HARMLESS = {
    "a look": lambda tx: tx.rows(sa.select(t).where(t.c.status == "creating")),
    "a look that locks": lambda tx: tx.rows(sa.select(t.c.id).where(t.c.status == "creating").with_for_update()),
    "another column": lambda tx: share_instances.update(tx, "i", {"progress": "50%"}),
    "another column by state": lambda tx: tx.execute(
        sa.update(t).where(t.c.status == "creating").values(progress="1%")
    ),
    "an upsert of another column": lambda tx: tx.execute(
        insert_into(t, tx.dialect)
        .from_select(["id", "share_id", "host"], sa.select(t.c.id, t.c.share_id, t.c.host).where(sa.false()))
        .on_conflict_do_nothing()
    ),
    "words in a value": lambda tx: shares.update(tx, "s", {"name": "UPDATE share_instances SET status = 'error'"}),
    "words in the text": lambda tx: tx.rows(sa.text("SELECT 'update share_instances set status = 1' AS said")),
    "a deletion": lambda tx: tx.execute(sa.delete(t).where(t.c.status == "error")),
    "a new share": lambda tx: shares.add(
        tx, {"id": str(tx.now), "project_id": "p", "size": 1, "share_proto": "NFS", "created_at": tx.now}
    ),
    "a move": lambda tx: share_instances.try_move(tx, "i", "created"),
    "an index": lambda tx: tx.execute(sa.text("CREATE INDEX IF NOT EXISTS more ON share_instances (status)")),
}


@pytest.mark.parametrize("harmless", HARMLESS.values(), ids=HARMLESS)
def test_what_writes_no_state_passes(db, harmless):
    for _ in range(TIMES):
        with db.write() as tx:
            harmless(tx)


def test_the_permission_ends_with_the_move(db):
    for _ in range(TIMES):
        with REFUSED, db.write() as tx:
            share_instances.try_move(tx, "i", "created")
            tx.execute(sa.update(t).values(status="error"))
    with pytest.raises(sa.exc.IntegrityError), db.write() as tx:
        share_instances.add(tx, {"id": "i", "share_id": "s"})
    with REFUSED, db.write() as tx:
        tx.execute(sa.update(t).values(status="error"))


def test_nobody_else_gets_the_permission():
    with pytest.raises(RuntimeError, match="nobody else"):
        guard.claim()


def test_a_new_row_has_a_first_state_and_no_other(db):
    with pytest.raises(guard.StateWriteRefused), db.write() as tx:
        share_instances.add(tx, {**ROW, "status": "available"})
    with pytest.raises(ValueError, match="which event"), db.write() as tx:
        moving.add(tx, t, {**ROW, "created_at": tx.now}, {"status": "create"})
    with pytest.raises(guard.StateWriteRefused), db.write() as tx:
        share_instances.try_move(tx, "i", "created", also={"access_rules_status": "error"})


def test_tests_have_a_door(db):
    planting.put(db, t, status="restoring")
    with db.read() as tx:
        assert tx.scalar(sa.select(t.c.status)) == "restoring"


# ---------------------------------------------------------------- reading the text

TEXTS = (
    "UPDATE share_instances SET status = 'x'",
    "update main.share_instances as s set progress = 1, \"status\" = 'x' where id = 1",
    "UPDATE share_instances SET progress = CASE WHEN status = 'a' THEN 1 ELSE 2 END WHERE host = 'h'",
    "UPDATE share_instances SET host = NOT (status IS NULL), status = host IS DISTINCT FROM id",
    "UPDATE share_instances SET (status, host) = (SELECT name, id FROM shares)",
    "UPDATE share_instances SET host = s.name FROM shares AS s, pools WHERE status = 'y' AND pools.host = s.id",
    "UPDATE OR IGNORE share_instances SET /* progress = 1, */ host = 'status = 1' -- , status = 2",
    "UPDATE `share_instances` SET [status_rank] = (SELECT max(id) FROM shares WHERE name = 'a')",
    "INSERT INTO share_instances (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET status = excluded.host WHERE id = 2",
    "INSERT INTO shares (id) SELECT id FROM share_instances WHERE true ON CONFLICT DO UPDATE SET name = 'status'",
    "WITH a AS (SELECT id FROM share_instances) UPDATE share_instances SET host = 1 WHERE id IN (SELECT id FROM a)",
    "DELETE FROM share_instances WHERE status = 'x'",
    "SELECT status FROM share_instances",
)


@pytest.mark.parametrize("database", [on_sqlite], indirect=True)
@pytest.mark.parametrize("sql", TEXTS)
def test_a_text_is_read_as_sqlite_reads_it(database, sql):
    """SQLite tells which columns a statement updates while it prepares it."""
    seen = set()

    def tell(action, table, column, *_):
        if action == sqlite3.SQLITE_UPDATE:
            seen.add((table, column))
        return sqlite3.SQLITE_OK

    connection = sqlite3.connect(database.url.removeprefix("sqlite:///"))
    connection.set_authorizer(tell)
    connection.execute(f"EXPLAIN {sql}")
    connection.close()
    updated, _, _ = sql.partition("INSERT")
    found = {(table, name) for table, names in written(sql, {"share_instances"}).items() for name in names}
    theirs = {(table, name) for table, name in seen if table == "share_instances"}
    assert theirs <= found
    if updated:
        assert found == theirs


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("INSERT INTO share_instances VALUES (1)", {ALL}),
        ("INSERT INTO share_instances (id, status) VALUES (1, 2)", {"id", "status"}),
        ("INSERT INTO share_instances (SELECT * FROM share_instances)", {ALL}),
        ("INSERT INTO share_instances DEFAULT VALUES", set()),
        ("COPY share_instances FROM STDIN", {ALL}),
        ("SELECT id FROM share_instances FOR NO KEY UPDATE", None),
        ("UPDATE operations SET state = 'x' WHERE key IN (SELECT id FROM share_instances)", None),
        ("CREATE TABLE share_instances (status TEXT)", None),
        ("EXPLAIN QUERY PLAN UPDATE share_instances SET status = 1", None),
        ("EXPLAIN ANALYZE UPDATE share_instances SET status = 1", {"status"}),
        ("SELECT 1; UPDATE share_instances SET status = 1", {"status"}),
    ],
)
def test_what_a_text_writes(sql, columns):
    assert written(sql, {"share_instances"}).get("share_instances") == columns
