# SPDX-License-Identifier: Apache-2.0
"""What is due of the attachments is found page after page, whatever else is due at the same moment."""

import datetime

import pytest
import sqlalchemy as sa

from abaca.db.attachments import attachments
from abaca.db.shares import shares
from abaca.db.tables.attachments import attachments as t
from tests import planting
from tests.db import ways

NUMBER, PAGE, TIMES = 6_000, 10, 8
AT = datetime.datetime(2026, 1, 1)  # noqa: DTZ001
LATER, BEFORE = AT + datetime.timedelta(days=1), AT - datetime.timedelta(days=1)
SHARE = {"id": "s", "project_id": "p", "size": 1, "share_proto": "NFS", "created_at": AT}


def _row(number, **values):
    same = {"share_id": "s", "project_id": "p", "mode": "network", "access_level": "rw", "wanted": "attached"}
    own = {"id": f"a{number:06}", "server_id": f"n{number}", "mount_point": f"/{number}", "tag": f"{number}"}
    return {**same, **own, "addresses": [], "created_at": AT, **values}


@pytest.fixture
def db(database):
    """As many are to be looked at as are to be tried again, all since the same moment: as after a cluster's change."""
    opened = database.open()
    with planting.by_hand(opened) as tx:
        shares.add(tx, SHARE)
        tx.flush()
        of_states = ({"state": "active", "last_verified_at": AT}, {"state": "error", "retry_at": AT})
        for number, values in enumerate(of_states):
            tx.execute(sa.insert(t), [_row(NUMBER * number + at, **values) for at in range(NUMBER)])
    with opened.read() as tx:
        tx.connection.exec_driver_sql("ANALYZE")
    return opened


# PostgreSQL takes several processes for a statement of which it believes that it reads much, as among a million shares.
SEVERAL = {"parallel_setup_cost": 0, "parallel_tuple_cost": 0, "min_parallel_table_scan_size": 0}


def unverified(tx, after=None):
    return attachments.unverified(tx, LATER, PAGE, after)


def due(tx, after=None):
    return attachments.due(tx, PAGE, after)


def none_unverified(tx, _after=None):
    return attachments.unverified(tx, BEFORE, PAGE)


def done(tx, ask, after=None):
    """What the database did for it, once it has the plan that it keeps."""
    watch = ways.OnSqlite(tx) if tx.dialect == "sqlite" else ways.OnPostgresql(tx)
    for name, value in SEVERAL.items() if tx.dialect == "postgresql" else ():
        tx.connection.exec_driver_sql(f"SET {name} = {value}")
    for _ in range(TIMES):
        ask(tx, after)
    with watch.looking() as looked:
        ask(tx, after)
    return looked().wrong


@pytest.mark.parametrize("ask", [unverified, due, none_unverified])
def test_a_page_of_what_is_due_is_found_without_reading_all_that_is(db, ask):
    with db.read() as tx:
        first = ask(tx)
        found = {"first": done(tx, ask)}
        if first:
            found["next"] = done(tx, ask, first[-1])
    assert {part: wrong for part, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("ask", [unverified, due])
def test_page_after_page_all_that_is_due_is_found_once(db, ask):
    found = []
    with db.read() as tx:
        while page := ask(tx, found[-1] if found else None):
            found += page
    assert [one.id for one in found] == sorted({one.id for one in found})
    assert len(found) == NUMBER
