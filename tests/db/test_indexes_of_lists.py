# SPDX-License-Identifier: Apache-2.0
"""The upgrades that bring the indexes of lists go beside whoever writes, and are repeated where they ended half-way."""

import contextlib
import uuid

import psycopg
import pytest

from abaca.db.engine import schema
from abaca.db.engine.database import Database
from tests.db import large

pytestmark = pytest.mark.system
BEFORE, AFTER = "0009", "0010"
MORE_BEFORE, MORE_AFTER = "0025", "0026"
STATES = (
    "SELECT relname, indisvalid FROM pg_index JOIN pg_class ON oid = indexrelid WHERE relname LIKE 'ix!_%' ESCAPE '!'"
)


@pytest.fixture
def url(postgres):
    """A database of the revision before, with rows in every table that grows."""
    return filled_at(BEFORE, postgres)


def filled_at(revision, postgres):
    made = postgres.create_database(f"indexed_{uuid.uuid4().hex}")
    schema.upgrade(made, revision)
    large.fill(made, 500)
    return made


def connect(url):
    return psycopg.connect(url.replace("+psycopg", ""), autocommit=True)


def indexes(url):
    with connect(url) as connection:
        return dict(connection.execute(STATES).fetchall())


def test_an_index_that_a_killed_run_left_half_made_is_made_anew(url):
    with connect(url) as connection:
        for name, column in (("ix_shares_name_created_at_id", "name"), ("ix_operations_kind", "kind")):
            connection.execute(f"CREATE INDEX {name} ON {name.split('_')[1]} ({column})")
        connection.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_shares_name_created_at_id'::regclass"
        )
    assert schema.upgrade(url) == (BEFORE, schema.HEAD)
    found = indexes(url)
    assert set(found.values()) == {True}
    assert {"ix_shares_metadata", "ix_shares_name_trigrams", "ix_share_instances_created_at_id"} <= found.keys()
    assert "ix_shares_project_id_name" not in found
    with connect(url) as connection:
        (made,) = connection.execute("SELECT pg_get_indexdef('ix_shares_name_created_at_id'::regclass)").fetchone()
    assert made.endswith("(name, created_at, id)")


def test_of_later_indexes_those_that_are_half_made_or_replaced_go_too(postgres):
    url = filled_at(MORE_BEFORE, postgres)
    with connect(url) as connection:
        connection.execute("CREATE INDEX ix_shares_size_id ON shares (id)")
        connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_shares_size_id'::regclass")
        connection.execute("CREATE INDEX ix_snapshots_updated_at_id ON snapshots (updated_at, id)")
    assert schema.upgrade(url, MORE_AFTER) == (MORE_BEFORE, MORE_AFTER)
    found = indexes(url)
    assert set(found.values()) == {True}
    assert {"ix_share_instances_status", "ix_snapshot_instances_status"}.isdisjoint(found)
    with connect(url) as connection:
        (made,) = connection.execute("SELECT pg_get_indexdef('ix_shares_size_id'::regclass)").fetchone()
    assert made.endswith("(size, id)")


@pytest.mark.parametrize(("before", "after"), [(BEFORE, AFTER), (MORE_BEFORE, MORE_AFTER)])
def test_nobody_who_writes_waits_for_it(postgres, before, after):
    """PostgreSQL would refuse it in a transaction, and in a transaction alone it would lock writers out."""
    url = filled_at(before, postgres)
    with connect(url) as connection:
        connection.execute("CREATE TABLE seen (statement text)")
        connection.execute(
            "CREATE FUNCTION see() RETURNS event_trigger LANGUAGE plpgsql AS "
            "$$ BEGIN INSERT INTO seen VALUES (current_query()); END $$"
        )
        connection.execute(
            "CREATE EVENT TRIGGER see ON ddl_command_start WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION see()"
        )
    assert schema.upgrade(url, after) == (before, after)
    with connect(url) as connection:
        seen = [row[0] for row in connection.execute("SELECT statement FROM seen")]
    assert seen
    assert [one for one in seen if not one.startswith("CREATE INDEX CONCURRENTLY ")] == []


def test_what_is_counted_together_is_known_from_the_upgrade_on(postgres):
    """And a run that ended before it was counted is repeated."""
    url = filled_at("0026", postgres)
    counted = "SELECT stxdmcv IS NOT NULL FROM pg_statistic_ext_data JOIN pg_statistic_ext ON oid = stxoid"
    with connect(url) as connection:
        connection.execute(
            "CREATE STATISTICS st_shares_project_id_description (mcv) ON project_id, description FROM shares"
        )
        assert connection.execute(counted).fetchall() == []
    assert schema.upgrade(url, "0027") == ("0026", "0027")
    with connect(url) as connection:
        assert connection.execute(counted).fetchall() == [(True,)]


def test_without_the_right_to_an_extension_the_upgrade_says_so_and_goes_on(postgres, caplog):
    name = f"plain_{uuid.uuid4().hex}"
    made = postgres.create_database(name)
    postgres.execute("DROP ROLE IF EXISTS plain", "CREATE ROLE plain LOGIN")
    with connect(made) as connection:
        connection.execute("GRANT ALL ON SCHEMA public TO plain")
    plain = made.replace("abaca@", "plain@")
    assert schema.upgrade(plain) == (None, schema.HEAD)
    assert "pg_trgm cannot be had" in caplog.text
    assert "ix_shares_name_trigrams" not in indexes(made)
    with contextlib.closing(Database(plain)) as db:
        schema.check(db)
    postgres.drop_database(name)
    postgres.execute("DROP ROLE plain")
