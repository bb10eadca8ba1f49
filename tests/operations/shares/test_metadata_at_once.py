# SPDX-License-Identifier: Apache-2.0
"""Two who write metadata of one thing at the same moment: what each has written is there."""

import threading

import pytest
import sqlalchemy as sa

from abaca.db.tables import shares as share_tables
from tests.conftest import wait_until
from tests.databases import database, on_postgres, postgres  # noqa: F401 (fixtures)
from tests.operations import cases


def of_share(_theatre, share_id):
    return "POST", f"/shares/{share_id}/metadata"


def of_rule(theatre, share_id):
    return "PUT", f"/share-access-rules/{cases.allow(theatre, share_id, '10.0.0.1')}/metadata"


def of_export_location(theatre, share_id):
    location = theatre.ask("GET", f"/shares/{share_id}/export_locations")["export_locations"][0]["id"]
    return "POST", f"/shares/{share_id}/export_locations/{location}/metadata"


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
@pytest.mark.parametrize(
    ("thing", "table"),
    [
        (of_share, share_tables.shares),
        (of_rule, share_tables.access_rules),
        (of_export_location, share_tables.export_locations),
    ],
)
def test_both_pairs_are_there(theatre, thing, table):
    theatre.enter()
    share_id = cases.a_share(theatre)
    method, path = thing(theatre, share_id)
    theatre.settle()
    threads = [
        threading.Thread(target=theatre.ask, args=(method, path, {"metadata": {key: "said"}})) for key in ("one", "two")
    ]
    with theatre.db.write() as tx:
        tx.rows(sa.select(table.c.id).with_for_update())
        for number, thread in enumerate(threads, 1):
            thread.start()
            wait_until(lambda number=number: theatre.waiting() == number)
    for thread in threads:
        thread.join(60)
    with theatre.db.read() as tx:
        found = [row.metadata for row in tx.rows(sa.select(table.c.metadata))]
    assert any({"one", "two"} <= pairs.keys() for pairs in found)
