# SPDX-License-Identifier: Apache-2.0
"""Each list of ours says how many there are where it is asked for that, up to a bound."""

import datetime

import pytest
import sqlalchemy as sa

from abaca.db.tables.administration import events
from abaca.http import wire
from tests.api import seeds
from tests.api.test_surface import OWN as ROUTES
from tests.api.test_surface import start

COUNTED_TO = 10_000
LONG_AGO = datetime.datetime(2026, 1, 1)  # noqa: DTZ001 (naive UTC, as all times here)
OWN = [route for route in ROUTES if isinstance(route.view, wire.Many)]


def named(route):
    return route.name


def test_there_are_lists_of_our_own():
    assert len(OWN) > 10


@pytest.mark.parametrize("route", OWN, ids=named)
def test_every_list_of_ours_says_how_many_there_are(planted, route):
    path = start(route) + seeds.filled(route.path, planted.things)
    every = planted.ask("admin", "GET", f"{path}?all_projects=true").body[route.view.keys[0]]
    said = planted.ask("admin", "GET", f"{path}?all_projects=true&with_count=true&limit=1")
    assert (said.status, said.body["count"], said.body["count_is_limited"]) == (200, len(every), False), said.body
    assert "count" not in planted.ask("admin", "GET", f"{path}?limit=1").body
    assert planted.ask("admin", "GET", f"{path}?with_count=perhaps").status == 400


def test_a_count_of_ours_stops_at_its_bound_and_says_so(planted):
    row = {"event_type": "share.create.end", "resource_type": "counted", "resource_id": "x", "project_id": "p"}
    rows = [
        {**row, "id": f"c{at:07}", "seq": 10_000_000 + at, "payload": {}, "created_at": LONG_AGO}
        for at in range(COUNTED_TO + 1)
    ]
    found = []
    for some in (rows[:COUNTED_TO], rows[COUNTED_TO:]):
        with planted.db.write() as tx:
            tx.connection.execute(sa.insert(events), some)
        found.append(
            planted.ask("admin", "GET", "//abaca/v1/events?event_type=share.create.end&limit=1&with_count=1").body
        )
    with planted.db.write() as tx:
        tx.connection.execute(sa.delete(events).where(events.c.resource_type == "counted"))
    assert [one["count"] for one in found] == [COUNTED_TO, COUNTED_TO]
    assert found[1]["count_is_limited"] is True
