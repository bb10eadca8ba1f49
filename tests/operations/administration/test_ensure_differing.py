# SPDX-License-Identifier: Apache-2.0
"""Where a back end can look, only shares that are not as they shall be are touched by ensuring."""

import pytest
import sqlalchemy as sa

from abaca.db.tables.shares import export_locations, instance_access_rules, shares
from abaca.db.tables.shares import share_instances as instances
from abaca.drivers import wrappers
from abaca.operations.administration.backend_ensure import Manner
from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.operations import theatre as stage
from tests.operations.administration.test_backend_ensure import (  # noqa: F401 (fixtures)
    HOST,
    KIND,
    change,
    counts,
    ensured,
    made,
    start,
    until_ended,
)
from tests.operations.bench import Gate


def written(theatre):
    """The rows of the shares, with when they were written; on PostgreSQL which version of each it is as well."""
    version = [] if theatre.db.is_sqlite else [sa.literal_column("CAST(ctid AS text)")]
    with theatre.db.read() as tx:
        tables = (shares, instances, export_locations, instance_access_rules)
        return [sorted(map(str, tx.rows(sa.select(*version, table)))) for table in tables]


@pytest.mark.parametrize("shows_status", [True, False])
def test_of_what_is_as_it_shall_be_no_row_is_written(theatre, made, shows_status):  # noqa: F811
    before = written(theatre)
    assert counts(ensured(theatre, Manner(shows_status=shows_status, page_size=3))) == {"unchanged": 7}
    assert written(theatre) == before


def test_of_a_page_only_what_differs_is_held(theatre, made):  # noqa: F811
    change(theatre, instances, instances.c.share_id == made[4], access_rules_status="error")
    gate = Gate()
    theatre.enter(arms=stage.Arms({f"{KIND}:page-2:marked": gate.wait}))
    op_id = start(theatre)
    assert gate.arrived.wait(60)
    assert [theatre.status(share_id) for share_id in made] == ["available"] * 4 + ["ensuring"] + ["available"] * 2
    gate.opened.set()
    assert counts(until_ended(theatre, op_id).data["findings"]) == {"unchanged": 6, "repaired": 1}


def test_while_all_of_a_page_differ_the_next_is_not_looked_at_before(theatre, made):  # noqa: F811
    calls = []

    def note(name, call):
        if name in ("inspect", "ensure"):
            calls.append(name)
        return call()

    differing = sa.select(instances.c.id).where(instances.c.share_id.in_(made[:4]))
    change(theatre, export_locations, export_locations.c.share_instance_id.in_(differing), path="10.9.9.9:/x")
    parts = theatre.ensure_actor().queues[HOST].parts
    parts.driver = wrappers.wrap(parts.driver, note)
    assert counts(ensured(theatre, Manner(page_size=2))) == {"updated": 4, "unchanged": 3}
    # the third page is ensured unseen, and is found to be well
    assert calls == ["inspect", "ensure", "ensure", "ensure", "inspect"]
