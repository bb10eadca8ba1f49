# SPDX-License-Identifier: Apache-2.0
"""A database that was filled under an earlier release is upgraded: all rows stay, and the API and workers go on.

The rows of a released revision are literal (filled/<revision>.json); what later revisions make of them says kept.py.
"""

import contextlib
import datetime
import io
import json

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory

from abaca.cli.main import main
from abaca.db import migrations
from abaca.db.engine import schema
from abaca.db.engine.database import Database
from tests.api.world import working, world
from tests.conftest import wait_until
from tests.databases import on_postgres, on_sqlite
from tests.db import filling, kept
from tests.house_migrations import ROOT, released

RELEASED = sorted(name[:4] for name in released(ROOT))
NEWEST = {"x-openstack-manila-api-version": "2.99"}


def literal(revision):
    return json.loads((filling.FILLED / f"{revision}.json").read_text())


def fill(url, revision):
    """Make a database of that revision, with its rows."""
    schema.upgrade(url, revision)
    engine = schema.migration_engine(sa.make_url(url))
    found = sa.MetaData()
    with engine.connect() as connection, connection.begin():
        found.reflect(connection)
        for table in found.sorted_tables:
            rows = literal(revision).get(table.name)
            if rows:
                connection.execute(sa.insert(table), [typed(table, row) for row in rows])
                count_on(connection, table)
    engine.dispose()


def typed(table, row):
    times = {column.name for column in table.columns if isinstance(column.type, sa.DateTime)}
    return {
        name: datetime.datetime.fromisoformat(value) if name in times and value else value
        for name, value in row.items()
    }


def count_on(connection, table):
    """PostgreSQL counts numbers of its own on from those that were given."""
    numbers = [column for column in table.primary_key.columns if isinstance(column.type, sa.Integer)]
    for column in numbers if connection.dialect.name == "postgresql" else ():
        counter = f"pg_get_serial_sequence('{table.name}', '{column.name}')"
        connection.execute(sa.select(sa.func.setval(sa.literal_column(counter), sa.func.max(column))))


class Upgraded:
    """An installation whose database comes from an earlier release."""

    def __init__(self, directory, url, revision):
        self.directory = directory
        self.url = url
        self.revision = revision
        self.more = f"[database]\nconnection = {url}\n"
        fill(url, revision)
        self.config = directory / "abaca.conf"
        self.config.write_text(f"[DEFAULT]\nstate_path = {directory}\nauth_strategy = none\n{self.more}")
        said = io.StringIO()
        with contextlib.redirect_stdout(said), pytest.raises(SystemExit) as end:
            main(["db", "upgrade", "--config-file", str(self.config)])
        self.said = (end.value.code, said.getvalue().strip())

    @property
    def expected(self):
        """The rows that must be there."""
        chain = ScriptDirectory.from_config(schema.alembic_config()).walk_revisions()
        later = sorted(one.revision for one in chain if one.revision > self.revision)
        return kept.after(literal(self.revision), later)


@pytest.fixture(scope="module", params=RELEASED)
def revision(request):
    return request.param


@pytest.fixture(scope="module", params=[on_sqlite, on_postgres])
def upgraded(request, tmp_path_factory, revision):
    """Looked at by all tests, changed by the last alone."""
    directory = tmp_path_factory.mktemp(f"upgraded-{revision}")
    url = f"sqlite:///{directory / 'abaca.sqlite'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres").create_database(f"upgraded_{revision}_{directory.name[-1]}")
    return Upgraded(directory, url, revision)


@pytest.fixture(scope="module")
def installation(upgraded):
    """The API of today on it, with nobody at work."""
    with world(upgraded.directory, worker=False, more=upgraded.more) as made:
        yield made


def test_every_released_revision_has_a_filled_database_with_rows_in_every_table(revision):
    rows = literal(revision)
    assert [name for name, found in rows.items() if not found] == []


def test_filling_a_database_of_today_leaves_no_table_of_the_release_before_empty(tmp_path):
    """So that with the next release its rows can be recorded: see filling.py."""
    rows = filling.fill(tmp_path)
    assert [name for name in literal(RELEASED[-1]) if name in rows and not rows[name]] == []


def test_the_command_upgrades_it(upgraded):
    at_head = upgraded.revision == migrations.HEAD
    said = f"The database is at revision {migrations.HEAD}." if at_head else f"{upgraded.revision} -> {migrations.HEAD}"
    assert upgraded.said == (0, said)
    with contextlib.closing(Database(upgraded.url)) as db:
        assert schema.revision(db) == migrations.HEAD


def test_every_row_is_kept(upgraded):
    with contextlib.closing(Database(upgraded.url)) as db, db.read() as tx:
        there = filling.rows(tx.connection)
    for name, expected in upgraded.expected.items():
        named = [set(row) for row in expected]
        found = [{key: row[key] for key in keys} for row, keys in zip(there[name], named, strict=True)]
        assert found == expected, name


def test_no_row_has_lost_what_it_refers_to(upgraded):
    """PostgreSQL has watched; SQLite does not while tables are rebuilt."""
    found = sa.MetaData()
    lost = []
    with contextlib.closing(Database(upgraded.url)) as db, db.read() as tx:
        found.reflect(tx.connection)
        for table in found.sorted_tables:
            for foreign in table.foreign_keys:
                there = sa.select(foreign.column.table.alias("there").c[foreign.column.name])
                strange = sa.select(foreign.parent).where(foreign.parent.is_not(None), foreign.parent.not_in(there))
                lost += [(str(foreign.parent), row[0]) for row in tx.connection.execute(strange)]
    assert lost == []


# who asks for what; under which name the answer has it; the rows that must be in it, and no others
LISTS = [
    ("/shares/detail?all_tenants=1", "shares", "shares", lambda row: not row["is_soft_deleted"]),
    ("/shares/detail?all_tenants=1&is_soft_deleted=true", "shares", "shares", lambda row: row["is_soft_deleted"]),
    ("/types?is_public=all", "share_types", "share_types", None),
    ("/resource-locks?all_projects=true", "resource_locks", "resource_locks", None),
    ("/messages", "messages", "messages", None),
    ("/services", "services", "services", None),
    ("/availability-zones", "availability_zones", "availability_zones", None),
    ("//abaca/v1/attachments?all_projects=true", "attachments", "attachments", None),
    ("//abaca/v1/operations?all_projects=true", "operations", "operations", None),
    ("//abaca/v1/servers?all_projects=true", "servers", "servers", None),
]


@pytest.mark.parametrize(("path", "key", "table", "wanted"), LISTS, ids=[path for path, *_ in LISTS])
def test_the_api_lists_what_there_was(upgraded, installation, path, key, table, wanted):
    answer = installation.ask("admin", "GET", path, **NEWEST)
    assert answer.status == 200, answer.body
    expected = [row["id"] for row in upgraded.expected[table] if wanted is None or wanted(row)]
    assert expected
    assert sorted(str(one["id"]) for one in answer.body[key]) == sorted(str(one) for one in expected)


def test_the_api_shows_shares_with_all_that_is_theirs(upgraded, installation):
    rows = upgraded.expected
    for share in rows["shares"]:
        path = f"/shares/{share['id']}"
        shown = ask(installation, path)["share"]
        assert (shown["name"], shown["size"], shown["metadata"]) == (share["name"], share["size"], share["metadata"])
        rules = ask(installation, f"/share-access-rules?share_id={share['id']}")["access_list"]
        assert ids(rules) == ids(row for row in rows["access_rules"] if row["share_id"] == share["id"])
        instances = {row["id"]: row for row in rows["share_instances"] if row["share_id"] == share["id"]}
        assert shown["status"] in {row["status"] for row in instances.values()}
        assert ids(ask(installation, f"{path}/instances")["share_instances"]) == sorted(instances)
        exports = ask(installation, f"{path}/export_locations")["export_locations"]
        assert ids(exports) == ids(row for row in rows["export_locations"] if row["share_instance_id"] in instances)
        history = ask(installation, f"//abaca/v1{path}/export-locations/history")["export_locations"]
        assert len(history) == sum(row["share_id"] == share["id"] for row in rows["export_location_history"])


def test_the_api_counts_on_what_was_counted(upgraded, installation):
    usages = {(row["project_id"], row["scope"]): row for row in upgraded.expected["quota_usages"]}
    for (project, scope), row in usages.items():
        if scope == "project":
            shown = ask(installation, f"/quota-sets/{project}/detail")["quota_set"]
            assert (shown["shares"]["in_use"], shown["gigabytes"]["in_use"]) == (row["shares"], row["gigabytes"])


def ask(installation, path):
    answer = installation.ask("admin", "GET", path, **NEWEST)
    assert answer.status == 200, answer.body
    return answer.body


def ids(rows):
    return sorted(row["id"] for row in rows)


def test_what_was_under_way_comes_to_its_end(upgraded, installation):
    """What was queued is done; what a worker had in its hands when it died is taken up by the next."""
    live = {row["id"]: row["state"] for row in upgraded.expected["operations"] if row["finished_at"] is None}
    assert set(live.values()) == {"queued", "running"}
    with working(installation):
        wait_until(lambda: not live.keys() & {one["id"] for one in operations(installation, "live=true")})
    shares = ask(installation, "/shares/detail?all_tenants=1")["shares"]
    ended = {one["name"]: one["status"] for one in shares if one["name"] in {"queued", "half-made"}}
    assert ended == {"queued": "available", "half-made": "available"}


def operations(installation, query):
    return ask(installation, f"//abaca/v1/operations?all_projects=true&{query}")["operations"]
