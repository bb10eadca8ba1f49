# SPDX-License-Identifier: Apache-2.0
"""A share says that its rules are in force when all are, also those that came while others were written down."""

import threading

import pytest
import sqlalchemy as sa

from abaca.db.tables.shares import share_instances
from tests.conftest import wait_until
from tests.databases import database, on_postgres, postgres  # noqa: F401 (fixtures)
from tests.operations import cases


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
def test_a_rule_that_comes_at_the_end_of_others_is_not_yet_in_force(theatre):
    theatre.enter()
    share_id = cases.a_share(theatre)
    theatre.settle()
    theatre.leave()
    cases.allow(theatre, share_id, "10.0.0.1")
    seen = []

    def look(point):
        if point == "access-rules-sync:take_rules:before":
            seen.append(theatre.ask("GET", f"/shares/{share_id}")["share"]["access_rules_status"])

    late = threading.Thread(target=cases.allow, args=(theatre, share_id, "10.0.0.2"))
    with theatre.db.write() as tx:
        tx.rows(sa.select(share_instances.c.id).with_for_update())
        late.start()
        wait_until(lambda: theatre.waiting() == 1)
        theatre.enter(arms=look)
        wait_until(lambda: theatre.waiting() == 2)
    late.join(60)
    theatre.settle()
    assert seen == ["syncing", "syncing"]
    assert theatre.ask("GET", f"/shares/{share_id}")["share"]["access_rules_status"] == "active"
