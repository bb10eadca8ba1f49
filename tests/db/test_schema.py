# SPDX-License-Identifier: Apache-2.0
"""The chain of migrations builds what db/tables says, on every database."""

import threading

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from abaca import errors
from abaca.db import migrations, tables
from abaca.db.engine import schema
from abaca.db.engine.database import Database
from abaca.db.tables import catalog as catalog_tables
from tests.databases import on_postgres, on_sqlite


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'abaca.sqlite'}"


@pytest.fixture(params=[on_sqlite, on_postgres])
def empty(request, tmp_path):
    """The URL of an empty database, of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.sqlite'}"
    return request.getfixturevalue("postgres").create_database(f"empty_{tmp_path.name}"[:60].lower())


@pytest.fixture
def db(url):
    db = Database(url)
    yield db
    db.close()


def described(db):
    """Every table, column, index and constraint as text, in a fixed order."""
    with db.read() as tx:
        rows = tx.rows(sa.text("SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"))
    return sorted((row.type, row.name, row.tbl_name, " ".join((row.sql or "").split())) for row in rows)


def differences(db):
    with db.read() as tx:
        context = MigrationContext.configure(tx.connection, opts={"compare_type": True, "compare_server_default": True})
        return compare_metadata(context, tables.metadata)


def test_the_chain_builds_what_tables_py_says(empty):
    assert schema.upgrade(empty) == (None, migrations.HEAD)
    db = Database(empty)
    assert differences(db) == []
    schema.check(db)
    db.close()


def test_creating_at_once_and_the_chain_build_the_same(url, db, tmp_path):
    schema.upgrade(url)
    other = Database(f"sqlite:///{tmp_path / 'other.sqlite'}")
    assert schema.create_if_empty(other)
    assert described(other) == described(db)
    other.close()


def test_the_head_that_code_expects_is_the_last_of_the_chain():
    assert ScriptDirectory.from_config(schema.alembic_config()).get_current_head() == migrations.HEAD


def test_upgrading_again_changes_nothing(url, db):
    schema.upgrade(url)
    before = described(db)
    assert schema.upgrade(url) == (migrations.HEAD, migrations.HEAD)
    assert described(db) == before


def test_what_is_upgraded_can_be_taken_back(url, db):
    schema.upgrade(url)
    schema.downgrade(url, "base")
    assert [name for kind, name, *_ in described(db) if kind == "table"] == ["alembic_version"]


def test_an_empty_database_is_refused_with_the_mend(db):
    with pytest.raises(errors.ConfigError, match=r"is empty.*Run `abaca db upgrade`"):
        schema.check(db)


def test_a_database_behind_the_code_is_refused_and_one_ahead_is_not(url, db):
    schema.upgrade(url)
    stamp = sa.text("UPDATE alembic_version SET version_num = :to")
    with db.write() as tx:
        tx.execute(stamp, {"to": "0000"})
    with pytest.raises(errors.ConfigError, match="at revision 0000"):
        schema.check(db)
    with db.write() as tx:
        tx.execute(stamp, {"to": "9999"})
    schema.check(db)


def test_a_database_that_is_away_is_named_without_its_password():
    db = Database("postgresql://abaca:hush@127.0.0.1:1/abaca")
    with pytest.raises(errors.Unavailable, match=r"127\.0\.0\.1:1/abaca does not answer") as caught:
        schema.check(db)
    assert "hush" not in str(caught.value)


def test_somebody_elses_database_is_left_alone(db):
    with db.write() as tx:
        tx.execute(sa.text("CREATE TABLE theirs (x INTEGER)"))
    with pytest.raises(errors.ConfigError, match="a database of its own"):
        schema.create_if_empty(db)


@pytest.mark.parametrize("empty", [on_postgres], indirect=True)
def test_of_many_that_upgrade_together_one_does(empty):
    """On several hosts somebody always runs it twice."""
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(schema.upgrade(empty))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen, key=str) == [(migrations.HEAD, migrations.HEAD)] * 2 + [(None, migrations.HEAD)]


def test_of_many_that_create_together_one_does(url):
    made, threads = [], []
    databases = [Database(url) for _ in range(4)]
    for db in databases:
        threads.append(threading.Thread(target=lambda db=db: made.append(schema.create_if_empty(db))))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [False, False, False, True]
    schema.check(databases[0])
    for db in databases:
        db.close()


def test_rows_survive_an_upgrade_that_rebuilds_their_table(url, db):
    """Batch migrations on SQLite copy and drop tables: the children of a dropped table must stay."""
    schema.upgrade(url)
    with db.write() as tx:
        values = {"id": "t", "name": "t", "is_public": True, "extra_specs": {}, "created_at": tx.now}
        tx.execute(sa.insert(catalog_tables.share_types), values)
        tx.execute(
            sa.insert(catalog_tables.share_type_projects),
            {"share_type_id": "t", "project_id": "p", "created_at": tx.now},
        )
    engine = schema.migration_engine(db.url)
    with engine.connect() as connection, connection.begin():
        connection.execute(sa.text("CREATE TABLE copy AS SELECT * FROM share_types"))
        connection.execute(sa.text("DROP TABLE share_types"))
        connection.execute(sa.text("ALTER TABLE copy RENAME TO share_types"))
    with db.read() as tx:
        assert tx.scalar(sa.text("SELECT count(*) FROM share_type_projects")) == 1
    engine.dispose()
