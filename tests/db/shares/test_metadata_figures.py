# SPDX-License-Identifier: Apache-2.0
"""The upgrade counts the metadata that there is, as Python counts characters, on each database."""

import contextlib

import pytest
import sqlalchemy as sa

from abaca.db.catalog import quotas
from abaca.db.engine import schema
from abaca.db.engine.database import Database
from abaca.db.shares import metadata_figures
from abaca.db.tables.catalog import quota_usages
from abaca.db.tables.shares import access_rules, export_locations, shares
from abaca.domain import metadata
from tests.databases import on_postgres, on_sqlite, postgres  # noqa: F401 (fixtures)
from tests.db.test_upgrade import RELEASED, fill

PAIRS = {"größe": "naïve", 'a "quoted" \\ key': "line\nbreak\ttab", "🙂": "🙂" * 7, "null": "null", "7": "8"}
BEFORE = "0007"


@pytest.fixture(params=[on_sqlite, on_postgres])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'abaca.sqlite'}"
    return request.getfixturevalue("postgres").create_database(f"figures_{tmp_path.name[-1]}")


def test_an_upgrade_counts_the_metadata_that_there_is(url):
    fill(url, RELEASED[0])
    schema.upgrade(url, BEFORE)
    with contextlib.closing(Database(url)) as db, db.write() as tx:
        for table in (shares, access_rules, export_locations):
            tx.execute(sa.update(table).values(metadata=PAIRS))
        # one of two projects has never been counted
        projects = sorted({row.project_id for row in tx.rows(sa.select(shares.c.project_id))})
        tx.execute(sa.delete(quota_usages).where(quota_usages.c.project_id == projects[1]))
        things = sum(
            tx.scalar(sa.select(sa.func.count()).select_from(table))
            for table in (shares, access_rules, export_locations)
        )
    schema.upgrade(url)
    with contextlib.closing(Database(url)) as db, db.read() as tx:
        found = {
            row.project_id: row.metadata_characters
            for row in tx.rows(sa.select(quota_usages))
            if row.scope == "project"
        }
        assert found == metadata_figures.of_projects(tx)
        assert len(found) == 2
        assert sum(found.values()) == things * metadata.characters(PAIRS)
        assert {one.resource for one in quotas.differences(tx)} <= {"shares", "gigabytes"}
        others = sa.select(sa.func.count()).where(
            quota_usages.c.scope != "project", quota_usages.c.metadata_characters != 0
        )
        assert tx.scalar(others) == 0
