# SPDX-License-Identifier: Apache-2.0
"""The chain of migrations builds what the tables say, on every database."""

import contextlib
import itertools
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
from abaca.db.migrations import description
from abaca.db.tables import catalog as catalog_tables
from abaca.db.tables import columns
from tests import planting
from tests.databases import on_postgres, on_sqlite


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'abaca.sqlite'}"


@pytest.fixture(params=[on_sqlite, on_postgres])
def new_database(request, tmp_path):
    """`new_database()`: the URL of an empty database, of each kind."""
    numbers = itertools.count()
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path / f'empty{next(numbers)}.sqlite'}"
    server = request.getfixturevalue("postgres")
    return lambda: server.create_database(f"empty_{tmp_path.name[:50].lower()}_{next(numbers)}")


@pytest.fixture
def db(url):
    db = Database(url)
    yield db
    db.close()


def described(url):
    """Every line of the schema of the database there."""
    with contextlib.closing(Database(url)) as db, db.read() as tx:
        return description.lines(tx.connection)


def differences(url, metadata=tables.metadata):
    """What Alembic would write into the next revision."""
    with contextlib.closing(Database(url)) as db, db.read() as tx:
        options = {"compare_type": True, "compare_server_default": True, "include_object": columns.is_compared}
        context = MigrationContext.configure(tx.connection, opts=options)
        return compare_metadata(context, metadata)


def test_every_new_database_has_its_indexes_in_one_order(db):
    """Of two that seem as good to it SQLite takes one by their order."""
    schema.create_if_empty(db)
    made = "SELECT tbl_name, name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY rowid"
    with db.read() as tx:
        names = {}
        for table, name in tx.connection.exec_driver_sql(made):
            names.setdefault(table, []).append(name)
    assert len(names["shares"]) > 5
    assert {table: found for table, found in names.items() if found != sorted(found)} == {}


def created(url):
    """The database there, with the schema that the tables say."""
    with contextlib.closing(Database(url)) as db:
        assert schema.create_if_empty(db)
    return url


def change(url, *statements):
    with contextlib.closing(Database(url)) as db, planting.by_hand(db) as tx:
        for statement in statements:
            tx.connection.exec_driver_sql(statement)


def test_the_chain_builds_what_the_tables_say(new_database):
    chained = new_database()
    assert schema.upgrade(chained) == (None, migrations.HEAD)
    assert sorted(described(chained) ^ described(created(new_database()))) == []
    assert differences(chained) == []


NEW_INDEX = "CREATE INDEX ix_shares_created_at_id ON shares (created_at, id)"
PLANTED = {
    "a column": ["ALTER TABLE shares ADD COLUMN colour VARCHAR(36)"],
    "a missing column": ["ALTER TABLE services DROP COLUMN problem"],
    "a table": ["CREATE TABLE colours (id INTEGER)"],
    "a missing table": ["DROP TABLE orphaned_mounts"],
    "an index": ["CREATE INDEX ix_new ON shares (size)"],
    "a missing index": ["DROP INDEX ix_shares_name_created_at_id"],
    "a unique index": [
        "DROP INDEX ix_pools_service_host",
        "CREATE UNIQUE INDEX ix_pools_service_host ON pools (service_host)",
    ],
    "no condition": ["DROP INDEX ix_shares_created_at_id", NEW_INDEX],
    "another condition": ["DROP INDEX ix_shares_created_at_id", f"{NEW_INDEX} WHERE project_id > 'a'"],
    "another order": [
        "DROP INDEX ix_shares_created_at_id",
        "CREATE INDEX ix_shares_created_at_id ON shares (created_at DESC, id) WHERE project_id > ''",
    ],
    "a default": [
        "ALTER TABLE pools DROP COLUMN claimed_gib",
        "ALTER TABLE pools ADD COLUMN claimed_gib BIGINT NOT NULL DEFAULT 0",
    ],
    "a view": ["CREATE VIEW seen AS SELECT id FROM shares"],
}
PLANTED_ON_SQLITE = {
    "an index's collation": [
        "DROP INDEX ix_shares_share_proto_created_at_id",
        "CREATE INDEX ix_shares_share_proto_created_at_id ON shares (share_proto COLLATE NOCASE, created_at, id)",
    ],
    "a column's collation": [
        "ALTER TABLE messages DROP COLUMN reason",
        "ALTER TABLE messages ADD COLUMN reason TEXT COLLATE NOCASE",
    ],
    "a trigger": ["CREATE TRIGGER t AFTER DELETE ON shares BEGIN DELETE FROM messages; END"],
}
OF_SHARE = "CONSTRAINT fk_access_rules_share_id_shares"
PLANTED_ON_POSTGRESQL = {
    "a type": ["ALTER TABLE shares ALTER COLUMN size TYPE BIGINT"],
    "a length": ["ALTER TABLE shares ALTER COLUMN name TYPE VARCHAR(64)"],
    "NULL": ["ALTER TABLE shares ALTER COLUMN size DROP NOT NULL"],
    "a language's order": ["ALTER TABLE quotas ALTER COLUMN scope TYPE VARCHAR(255) COLLATE pg_catalog.default"],
    "a planner's estimate": ["ALTER TABLE shares ALTER COLUMN project_id RESET (n_distinct)"],
    "a missing statistic": ["DROP STATISTICS st_shares_project_id_description"],
    "a foreign key without its cascade": [
        f"ALTER TABLE access_rules DROP {OF_SHARE}",
        f"ALTER TABLE access_rules ADD {OF_SHARE} FOREIGN KEY (share_id) REFERENCES shares",
    ],
    "a constraint's name": ["ALTER TABLE pools RENAME CONSTRAINT pk_pools TO pools_pkey"],
    "a missing unique constraint": ["ALTER TABLE operation_keys DROP CONSTRAINT uq_operation_keys_held_key"],
    "a trigger": [
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "CREATE TRIGGER t AFTER DELETE ON shares EXECUTE FUNCTION f()",
    ],
}


def test_the_comparison_sees_every_planted_difference(new_database):
    url = new_database()
    own = PLANTED_ON_SQLITE if url.startswith("sqlite") else PLANTED_ON_POSTGRESQL
    unseen = []
    for what, statements in (PLANTED | own).items():
        url = created(new_database())
        before = described(url)
        change(url, *statements)
        unseen += [what] if described(url) == before else []
    assert unseen == []


def test_alembic_sees_a_column_that_only_the_tables_have(new_database):
    url = new_database()
    schema.upgrade(url)
    planted = sa.MetaData()
    for table in tables.metadata.sorted_tables:
        table.to_metadata(planted)
    planted.tables["shares"].append_column(sa.Column("colour", sa.String(36)))
    assert [(found[0], found[3].name) for found in differences(url, planted)] == [("add_column", "colour")]


def test_the_head_that_code_expects_is_the_last_of_the_chain():
    assert ScriptDirectory.from_config(schema.alembic_config()).get_current_head() == migrations.HEAD


def test_upgrading_again_changes_nothing(url):
    schema.upgrade(url)
    before = described(url)
    assert schema.upgrade(url) == (migrations.HEAD, migrations.HEAD)
    assert described(url) == before


def test_what_is_upgraded_can_be_taken_back(new_database):
    url = new_database()
    schema.upgrade(url)
    schema.downgrade(url, "base")
    assert described(url) == set()


def test_an_empty_database_is_refused_with_the_mend(db):
    with pytest.raises(errors.ConfigError, match=r"is empty.*Run `abaca db upgrade`"):
        schema.check(db)


def test_a_database_that_is_behind_or_ahead_of_the_code_is_refused(url, db):
    schema.upgrade(url)
    stamp = sa.text("UPDATE alembic_version SET version_num = :to")
    with db.write() as tx:
        tx.execute(stamp, {"to": "0000"})
    with pytest.raises(errors.ConfigError, match="at revision 0000"):
        schema.check(db)
    with db.write() as tx:
        tx.execute(stamp, {"to": "9999"})
    with pytest.raises(errors.ConfigError, match="at revision 9999, ahead of this release's"):
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


@pytest.mark.parametrize("new_database", [on_postgres], indirect=True)
def test_of_many_that_upgrade_together_one_does(new_database):
    """On several hosts somebody always runs it twice."""
    seen = []
    empty = new_database()
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
