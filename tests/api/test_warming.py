# SPDX-License-Identifier: Apache-2.0
"""An API process asks itself what its first callers will ask, and leaves nothing behind."""

import contextlib
import dataclasses

import pytest
import sqlalchemy as sa

from abaca import app
from abaca.api import doors, warming
from abaca.db import tables
from abaca.db.engine.database import Database
from abaca.http import pipeline
from abaca.scheduler.known_pools import KnownPools
from tests.api.world import call, world
from tests.databases import on_postgres, on_sqlite, place

NEWEST = {"x-openstack-manila-api-version": "2.99", "content-type": "application/json"}
NOWHERE = "postgresql://nobody@127.0.0.1:1/none"


@pytest.fixture(params=[on_sqlite, on_postgres])
def made(request, tmp_path):
    more = ""
    if request.param == "postgresql":
        more = f"[database]\nconnection = {place('postgresql', tmp_path, request).url}"
    with world(tmp_path, worker=True, more=more) as made:
        wish = {"name": "default", "extra_specs": {"driver_handles_share_servers": "False"}}
        assert made.ask("admin", "POST", "/types", {"share_type": wish}, **NEWEST).status == 200
        yield made


def parts_of(made):
    known = {"compute": app.compute(made.settings, made.db), "known_pools": KnownPools()}
    return pipeline.make_parts(made.settings, made.db, doors.every(), **known)


@contextlib.contextmanager
def written():
    """The statements that SQLAlchemy runs meanwhile: those which are not ready to be handed to the driver."""
    seen = []

    def see(_connection, _cursor, statement, *_):
        seen.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", see)
    try:
        yield seen
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", see)


def counts(db):
    """How many rows each table has."""
    with db.read() as tx:
        return {
            table.name: tx.scalar(sa.select(sa.func.count()).select_from(table))
            for table in tables.metadata.sorted_tables
        }


@pytest.mark.parametrize(
    ("method", "path", "raw"),
    [
        ("GET", "/v2/shares/detail", b""),
        ("GET", "/v2/shares", b""),
        ("POST", "/v2/shares", b'{"share": {"share_proto": "NFS", "size": 1}}'),
    ],
)
def test_the_first_caller_finds_all_ready_and_nothing_is_left_of_it(made, method, path, raw):
    parts = parts_of(made)
    before = counts(made.db)
    warming.warm_up(parts)
    assert counts(made.db) == before
    application = pipeline.application(parts)
    asked = []
    for _ in range(4):
        with written() as seen:
            answer = call(application, method, path, raw, {**NEWEST, "authorization": made.passwords["member"]})
        assert answer.status == 200
        asked.append(sorted(seen))
    assert asked[0] == asked[-1]


def test_a_database_that_is_away_is_left_alone(tmp_path):
    with world(tmp_path, worker=False) as made, contextlib.closing(Database(NOWHERE)) as nowhere:
        warming.warm_up(dataclasses.replace(parts_of(made), db=nowhere))
