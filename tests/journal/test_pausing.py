# SPDX-License-Identifier: Apache-2.0
"""Work that goes in pages can pause between two of them, for as long as an operator likes; then it holds nothing."""

import pytest
import sqlalchemy as sa

from abaca.cli.main import main
from abaca.db.journal import operations as rows
from abaca.db.tables.administration import services
from abaca.db.tables.shares import export_locations
from abaca.db.tables.shares import share_instances as instances
from tests.conftest import wait_until
from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.operations import cases
from tests.operations import theatre as stage
from tests.operations.administration.test_backend_ensure import (  # noqa: F401 (fixtures)
    HOST,
    KIND,
    change,
    column,
    counts,
    hurt,
    is_ensuring,
    made,
    move,
    nursery,
    shown,
    start,
    until_ended,
)
from tests.operations.bench import Gate
from tests.reconcile.test_stuck_states import StuckStates


def steer(theatre, op_id, verb):
    return theatre.world.ask("admin", "POST", f"//abaca/v1/operations/{op_id}/{verb}")


def steered(theatre, op_id, verb):
    answer = steer(theatre, op_id, verb)
    assert answer.status == 202, answer
    return answer.body["operation"]["state"]


def until(theatre, op_id, state):
    wait_until(lambda: shown(theatre, op_id).state == state, every_s=0.003)
    return shown(theatre, op_id)


def pause_in_page(theatre, number):
    """An ensuring that is asked to pause while it has that page in its hands, and then does."""
    gate = Gate()
    theatre.enter(arms=stage.Arms({f"{KIND}:page-{number}:marked": gate.wait}))
    op_id = start(theatre)
    assert gate.arrived.wait(60)
    assert steered(theatre, op_id, "pause") == "running"
    gate.opened.set()
    return until(theatre, op_id, "paused")


def test_it_pauses_after_its_page_and_holds_nothing(theatre, made):  # noqa: F811
    row = pause_in_page(theatre, 2)
    assert (row.progress_done, row.owner, row.lease_until) == (6, None, None)
    assert set(column(theatre, instances.c.status)) == {"available"}
    assert is_ensuring(theatre)
    cases.extend(theatre, made[0])
    theatre.until_ended("share-extend", made[0])
    assert steered(theatre, row.id, "resume") == "queued"
    assert counts(until_ended(theatre, row.id).data["findings"]) == {"unchanged": 7}
    assert not is_ensuring(theatre)


def test_it_stays_paused_over_a_restart(theatre, made):  # noqa: F811
    row = pause_in_page(theatre, 1)
    theatre.leave()
    theatre.enter()
    cases.a_share(theatre)
    assert shown(theatre, row.id).state == "paused"
    assert StuckStates(theatre.db, [HOST]).heal() == 0
    assert is_ensuring(theatre)


def test_whoever_asks_again_joins_it_and_is_told(theatre, made):  # noqa: F811
    row = pause_in_page(theatre, 1)
    body = {"host": HOST}
    answer = theatre.world.ask("admin", "POST", "//abaca/v1/services/ensure-shares", body)
    assert (answer.body["operation"]["id"], answer.body["operation"]["state"]) == (row.id, "paused")
    assert theatre.world.ask("admin", "POST", "/services/ensure-shares", body, **NEWEST).status == 202
    assert shown(theatre, row.id).state == "paused"


def test_a_new_configuration_waits_until_it_is_resumed_and_can_be_looked_at_before(theatre, made):  # noqa: F811
    row = pause_in_page(theatre, 1)
    theatre.leave()
    first = export_locations.c.path.startswith("10.0.0.10")
    change(theatre, export_locations, first, path="10.9.9.9:/x")
    change(theatre, services, backend_info="what it said before")
    change(theatre, rows.t, rows.t.c.id == row.id, data={**row.data, "backend_info": "what it said before"})
    theatre.enter()
    assert shown(theatre, row.id).state == "paused"
    body = {"host": HOST, "dry_run": True}
    dry = theatre.world.ask("admin", "POST", "//abaca/v1/services/ensure-shares", body).body["operation"]["id"]
    assert counts(until_ended(theatre, dry).data["findings"]) == {"updated": 7}
    steered(theatre, row.id, "resume")
    assert until_ended(theatre, row.id).state == "done"
    assert counts(until_ended(theatre, start(theatre)).data["findings"])["unchanged"] == 7


NEWEST = {"x-openstack-manila-api-version": stage.NEWEST}


def test_it_is_cancelled_while_it_is_paused(theatre, made):  # noqa: F811
    row = pause_in_page(theatre, 2)
    assert steered(theatre, row.id, "cancel") == "queued"
    row = until_ended(theatre, row.id)
    assert (row.state, counts(row.data["findings"])) == ("cancelled", {"unchanged": 6})
    assert not is_ensuring(theatre)


def test_before_any_worker_has_it_it_pauses_at_once(theatre, made):  # noqa: F811
    theatre.leave()
    op_id = start(theatre)
    assert steered(theatre, op_id, "pause") == "paused"
    theatre.enter()
    cases.a_share(theatre)
    assert shown(theatre, op_id).state == "paused"
    steered(theatre, op_id, "resume")
    assert until_ended(theatre, op_id).state == "done"


def test_a_pause_that_is_taken_back_in_time_never_happens(theatre, made):  # noqa: F811
    gate = Gate()
    theatre.enter(arms=stage.Arms({f"{KIND}:page-2:marked": gate.wait}))
    op_id = start(theatre)
    assert gate.arrived.wait(60)
    steered(theatre, op_id, "pause")
    assert steered(theatre, op_id, "resume") == "running"
    gate.opened.set()
    assert until_ended(theatre, op_id).state == "done"


def test_what_makes_no_sense_is_refused(theatre, made):  # noqa: F811
    theatre.leave()
    deleting = cases.delete(theatre, made[0])
    other = theatre.operation("share-delete", deleting).id
    answer = steer(theatre, other, "pause")
    assert answer.status == 409, answer
    assert "does not go in parts" in str(answer.body)
    assert steer(theatre, other, "resume").status == 409
    theatre.enter()
    theatre.settle()
    for verb in ("cancel", "retry", "resume"):
        assert steer(theatre, other, verb).status == 409
    assert steer(theatre, "nothing", "pause").status == 404
    assert theatre.world.ask("member", "POST", f"//abaca/v1/operations/{other}/cancel").status == 403


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_commands_pause_and_resume(theatre, made, capsys):  # noqa: F811
    theatre.leave()
    op_id = start(theatre)

    def said(*arguments):
        group, command, *rest = arguments
        with pytest.raises(SystemExit) as end:
            main([group, command, "--config-file", str(theatre.config), *rest])
        captured = capsys.readouterr()
        assert end.value.code == 0, captured.err
        return captured.out

    assert "pauses" in said("operation", "pause", op_id)
    assert "paused" in said("operation", "list")
    assert f"abaca operation resume {op_id}" in said("operation", "show", op_id)
    assert f"`abaca operation resume {op_id}` lets it go on" in said("backend", "ensure", HOST)
    assert "goes on" in said("operation", "resume", op_id)
    theatre.enter()
    assert until_ended(theatre, op_id).state == "done"
    out = said("backend", "ensure", HOST, "--dry-run", "--watch")
    assert "finds out what ensuring would change" in out
    assert "done: 7 of 7" in out


@pytest.mark.system
def test_a_worker_that_dies_before_it_pauses_leaves_no_share_ensuring(hurt):  # noqa: F811
    hurt.enter()
    for _ in range(4):
        cases.new_share(hurt, None)
    hurt.settle()
    hurt.leave()
    move(hurt)
    op_id = start(hurt)
    child = hurt.kill_at({f"{KIND}:page-1:inside": "die"}, stage.TIMING)
    assert child.ends_within(), child.explain()
    assert "ensuring" in column(hurt, instances.c.status)
    assert steered(hurt, op_id, "pause") == "running"
    hurt.enter()
    row = until(hurt, op_id, "paused")
    assert row.progress_done == 0
    assert set(column(hurt, instances.c.status)) == {"available"}
    with hurt.db.read() as tx:
        assert tx.scalar(sa.select(rows.t.c.pause).where(rows.t.c.id == op_id))
    steered(hurt, op_id, "resume")
    assert counts(until_ended(hurt, op_id).data["findings"]) == {"updated": 4}
