# SPDX-License-Identifier: Apache-2.0
"""What ensuring would change is said, one by one, and nothing is changed; then it is changed, exactly so."""

import pytest
import sqlalchemy as sa

from abaca.db.journal import operations as rows
from abaca.db.tables.administration import services
from abaca.db.tables.shares import access_rules, export_location_history, export_locations, share_instances, shares
from tests import planting
from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.operations import cases
from tests.operations import theatre as stage
from tests.operations.bench import Gate

HOST = "testhost@alpha"
DOOR = "//abaca/v1/services/ensure-shares"
TABLES = (access_rules, export_location_history, export_locations, services, share_instances, shares)
# a service says every few seconds that it is alive
BEATS = ("heartbeat_at", "updated_at")


@pytest.fixture
def made(theatre):
    """Three shares: one has moved, one has a rule in error, the back end has lost one; and one that is busy."""
    theatre.enter()
    moved, ruled, lost, busy = ids = [cases.a_share(theatre) for _ in range(4)]
    cases.allow(theatre, ruled, "10.0.0.1")
    theatre.settle()
    with planting.by_hand(theatre.db) as tx:
        by_share = {row.share_id: row.id for row in tx.rows(sa.select(share_instances))}
        t = export_locations
        is_first = sa.and_(t.c.share_instance_id == by_share[moved], t.c.path.startswith("10.0.0.10"))
        tx.execute(sa.update(t).where(is_first).values(path="10.9.9.9:/x"))
        at = share_instances.c.share_id
        tx.execute(sa.update(share_instances).where(at == ruled).values(access_rules_status="error"))
        tx.execute(sa.update(share_instances).where(at == busy).values(status="error"))
    with theatre.driver.state_file.change() as records:
        records.drop("instance", by_share[lost])
    theatre.leave()
    return ids


def everything(theatre):
    with theatre.db.read() as tx:
        return {
            table.name: sorted(
                str({key: value for key, value in row._mapping.items() if table is not services or key not in BEATS})
                for row in tx.rows(sa.select(table))
            )
            for table in TABLES
        }


def asked(theatre, *, dry_run):
    answer = theatre.world.ask("admin", "POST", DOOR, {"host": HOST, "dry_run": dry_run})
    assert answer.status == 202, answer
    return answer.body["operation"]


def seen(theatre, op_id, path="", query=""):
    answer = theatre.world.ask("admin", "GET", f"//abaca/v1/operations/{op_id}{path}{query}")
    assert answer.status == 200, answer
    return answer.body


def until_ended(theatre, op_id):
    theatre.settle()
    found = seen(theatre, op_id)["operation"]
    assert found["state"] == "done", found
    return found


def counts(operation):
    return {kind: operation["findings"][kind] for kind in ("unchanged", "updated", "repaired", "skipped", "failed")}


def test_it_says_what_would_change_and_changes_nothing(theatre, made):
    before = everything(theatre)
    theatre.enter()
    operation = asked(theatre, dry_run=True)
    assert operation["kind"] == "backend-ensure-dry-run"
    ended = until_ended(theatre, operation["id"])
    assert counts(ended) == {"unchanged": 0, "updated": 1, "repaired": 1, "skipped": 1, "failed": 1}
    moved, ruled, lost, busy = made
    listed = seen(theatre, operation["id"], "/findings")["findings"]
    assert {one["share_id"]: one["kind"] for one in listed} == {
        moved: "updated",
        ruled: "repaired",
        lost: "failed",
        busy: "skipped",
    }
    why = {one["share_id"]: one["why"] for one in listed}
    assert why[moved].startswith("10.9.9.9:/x goes, 10.0.0.10:/dummy/")
    assert why[ruled] == "its access rules are applied again"
    assert why[lost] == "the back end has no such share"
    theatre.leave()
    assert everything(theatre) == before


def test_what_it_says_is_what_then_happens(theatre, made):
    theatre.enter()
    foreseen = until_ended(theatre, asked(theatre, dry_run=True)["id"])
    operation = asked(theatre, dry_run=False)
    done = until_ended(theatre, operation["id"])
    assert operation["kind"] == "backend-ensure"
    assert counts(done) == counts(foreseen)
    listed = seen(theatre, operation["id"], "/findings", "?kind=skipped")["findings"]
    assert [one["share_id"] for one in listed] == [made[3]]
    again = until_ended(theatre, asked(theatre, dry_run=True)["id"])
    assert counts(again) == {"unchanged": 2, "updated": 0, "repaired": 0, "skipped": 2, "failed": 0}


def test_findings_come_in_pages_and_go_with_their_operation(theatre, made):
    theatre.enter()
    op_id = until_ended(theatre, asked(theatre, dry_run=True)["id"])["id"]
    first = seen(theatre, op_id, "/findings", "?limit=3")["findings"]
    rest = seen(theatre, op_id, "/findings", f"?limit=3&marker={first[-1]['id']}")["findings"]
    assert (len(first), len(rest)) == (3, 1)
    assert theatre.world.ask("member", "GET", f"//abaca/v1/operations/{op_id}/findings").status == 403
    with theatre.db.write() as tx:
        rows.purge(tx, theatre.db.now().replace(year=2999))
    assert theatre.world.ask("admin", "GET", f"//abaca/v1/operations/{op_id}/findings").status == 404


def test_a_second_request_joins_the_first_and_ensuring_goes_on_beside_it(theatre, made):
    gate = Gate()
    theatre.enter(arms=stage.Arms({"backend-ensure-dry-run:page-1:inside": gate.wait}))
    first = asked(theatre, dry_run=True)["id"]
    assert gate.arrived.wait(60)
    assert asked(theatre, dry_run=True)["id"] == first
    real = asked(theatre, dry_run=False)["id"]
    theatre.until_ended("backend-ensure", seen(theatre, real)["operation"]["resource_id"])
    gate.opened.set()
    until_ended(theatre, first)


@pytest.mark.parametrize(
    ("body", "status"), [({}, 400), ({"host": "nowhere@alpha"}, 404), ({"host": HOST, "dry_run": "perhaps"}, 400)]
)
def test_what_makes_no_sense_is_refused(theatre, body, status):
    theatre.enter()
    assert theatre.world.ask("admin", "POST", DOOR, body).status == status
    assert theatre.world.ask("member", "POST", DOOR, {"host": HOST}).status == 403
