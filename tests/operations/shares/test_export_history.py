# SPDX-License-Identifier: Apache-2.0
"""Where a share could be mounted from, and from when to when: for its users, and for longer than it lives."""

import pytest
import sqlalchemy as sa

from abaca.db.shares import export_location_history as history
from abaca.db.tables.shares import export_location_history, export_locations
from abaca.operations.administration.backend_ensure import Manner
from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.operations import cases
from tests.operations import theatre as stage
from tests.operations.administration.test_backend_ensure import (
    KIND,
    NEWEST,
    change,
    column,
    counts,
    ensured,
    start,
    until_ended,
)
from tests.operations.bench import Gate


@pytest.fixture
def share_id(theatre):
    theatre.enter()
    made = cases.a_share(theatre)
    theatre.settle()
    return made


def told(theatre, share_id, who="member", query=""):
    return theatre.world.ask(who, "GET", f"//abaca/v1/shares/{share_id}/export-locations/history{query}")


def periods(theatre, share_id, who="member", query=""):
    answer = told(theatre, share_id, who, query)
    assert answer.status == 200, answer
    return answer.body["export_locations"]


def move(theatre):
    """The first address of all shares was another one until now."""
    first = export_locations.c.path.startswith("10.0.0.10")
    change(theatre, export_locations, first, path="10.9.9.9:/x")
    then = export_location_history.c
    change(theatre, export_location_history, then.path.startswith("10.0.0.10"), path="10.9.9.9:/x")
    ensured(theatre)


def test_what_a_new_share_has_begins_with_it(theatre, share_id):
    created = theatre.operation("share-create", share_id)
    found = periods(theatre, share_id)
    assert sorted(one["path"].partition(":")[0] for one in found) == ["10.0.0.10", "10.0.0.20"]
    assert {(one["begun_by"], one["begun_by_kind"], one["until"]) for one in found} == {
        (created.id, "share-create", None)
    }
    assert "is_admin_only" not in found[0]
    assert len(periods(theatre, share_id, "admin")) == 3


def test_what_ensuring_changes_ends_and_begins_at_one_moment(theatre, share_id):
    move(theatre)
    (op,) = theatre.operations(KIND)
    found = {one["path"].partition(":")[0]: one for one in periods(theatre, share_id)}
    old, new, other = found["10.9.9.9"], found["10.0.0.10"], found["10.0.0.20"]
    assert old["until"] == new["since"]
    assert (old["ended_by"], old["ended_by_kind"]) == (new["begun_by"], new["begun_by_kind"]) == (op.id, KIND)
    assert (other["until"], new["until"]) == (None, None)
    assert other["begun_by_kind"] == "share-create"
    assert counts(ensured(theatre)) == {"unchanged": 1}
    assert len(periods(theatre, share_id)) == 3


def test_it_comes_in_pages_in_the_order_asked_for(theatre, share_id):
    move(theatre)
    everything = periods(theatre, share_id, query="?sort_dir=asc")
    assert [one["since"] for one in everything] == sorted(one["since"] for one in everything)
    first = periods(theatre, share_id, query="?sort_dir=asc&limit=2")
    rest = periods(theatre, share_id, query=f"?sort_dir=asc&limit=2&marker={first[-1]['id']}")
    assert first + rest == everything
    assert told(theatre, share_id, query="?sort_key=color").status == 400


def test_it_outlives_its_share_and_then_has_its_time(theatre, share_id):
    cases.delete(theatre, share_id)
    theatre.until_ended("share-delete", share_id)
    found = periods(theatre, share_id)
    assert {one["ended_by_kind"] for one in found} == {"share-delete"}
    assert all(one["until"] for one in found)
    with theatre.db.write() as tx:
        assert history.purge(tx, theatre.db.now().replace(year=2000), 100) == 0
        assert history.purge(tx, theatre.db.now().replace(year=2999), 100) == 3
    assert told(theatre, share_id).status == 404


def test_other_projects_see_nothing_of_it(theatre, share_id):
    assert told(theatre, share_id, "other").status == 404
    assert told(theatre, "nothing").status == 404
    cases.delete(theatre, share_id)
    theatre.until_ended("share-delete", share_id)
    assert told(theatre, share_id, "other").status == 404


def test_what_is_current_is_not_purged(theatre, share_id):
    move(theatre)
    with theatre.db.write() as tx:
        assert history.purge(tx, theatre.db.now().replace(year=2999), 100) == 1
    assert len(periods(theatre, share_id)) == 2


def test_which_is_preferred_stays_as_somebody_has_said(theatre, share_id):
    with theatre.db.read() as tx:
        (second,) = tx.rows(sa.select(export_locations).where(export_locations.c.path.startswith("10.0.0.20")))
    path = f"/shares/{share_id}/export_locations/{second.id}/metadata"
    answer = theatre.world.ask("admin", "POST", path, {"metadata": {"preferred": "true", "rack": "7"}}, **NEWEST)
    assert answer.status == 200, answer
    assert counts(ensured(theatre)) == {"unchanged": 1}
    with theatre.db.read() as tx:
        (row,) = tx.rows(sa.select(export_locations).where(export_locations.c.id == second.id))
    assert (row.preferred, row.metadata) == (True, {"rack": "7"})
    change(theatre, export_locations, preferred=False)
    assert counts(ensured(theatre)) == {"updated": 1}
    assert sorted(column(theatre, export_locations.c.preferred)) == [False, False, True]


@pytest.mark.parametrize(("action", "size"), [("extend", 5), ("shrink", 1)])
def test_a_size_that_changes_meanwhile_stays_changed(theatre, share_id, action, size):
    """With the status off nothing keeps users from it."""
    gate = Gate()
    theatre.enter(arms=stage.Arms({f"{KIND}:page-1:marked": gate.wait}))
    op_id = start(theatre, Manner(shows_status=False))
    assert gate.arrived.wait(60)
    cases.act(theatre, share_id, **{action: {"new_size": size}})
    theatre.until_ended(f"share-{action}", share_id)
    gate.opened.set()
    row = until_ended(theatre, op_id)
    assert (row.state, theatre.check(row)) == ("done", [])
    with theatre.db.read() as tx:
        assert theatre.differences(tx, share_id) == []


def test_which_mark_changes_is_said_beforehand(theatre, share_id):
    change(theatre, export_locations, preferred=True)
    body = {"host": "testhost@alpha", "dry_run": True}
    op_id = theatre.world.ask("admin", "POST", "//abaca/v1/services/ensure-shares", body).body["operation"]["id"]
    until_ended(theatre, op_id)
    (found,) = theatre.world.ask("admin", "GET", f"//abaca/v1/operations/{op_id}/findings").body["findings"]
    assert found["why"].count("is no longer preferred") == 2


def test_a_size_that_is_not_so_on_the_back_end_is_mended(theatre, share_id):
    with theatre.driver.state_file.change() as records:
        ((key, entry),) = records.all("instance").items()
        records.put("instance", key, entry | {"size_gib": 9})
    assert counts(ensured(theatre)) == {"repaired": 1}
    with theatre.db.read() as tx:
        assert theatre.differences(tx, share_id) == []
