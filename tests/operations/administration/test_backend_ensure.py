# SPDX-License-Identifier: Apache-2.0
"""A back end's shares become what its configuration says, page by page; whatever dies, none stays `ensuring`."""

import contextlib
import threading
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa

from abaca import errors
from abaca.cli.main import main
from abaca.db.administration import services
from abaca.db.journal import operations as rows
from abaca.db.journal import steering
from abaca.db.shares import share_instances
from abaca.db.tables.administration import services as service_rows
from abaca.db.tables.shares import export_locations, instance_access_rules, shares
from abaca.db.tables.shares import share_instances as instances
from abaca.drivers import contract
from abaca.journal.kinds import Retry
from abaca.journal.worker import Worker
from abaca.operations.administration import backend_ensure
from abaca.operations.administration.backend_ensure import Manner
from abaca.operations.shares.share_instances import contract_instance
from tests import planting
from tests.conftest import wait_until
from tests.databases import database, on_postgres, postgres  # noqa: F401 (fixtures)
from tests.operations import bench, cases
from tests.operations import theatre as stage
from tests.operations.bench import Gate
from tests.operations.nursery import Nursery

HOST = "testhost@alpha"
KIND = "backend-ensure"
SMALL = Manner(page_size=3)
# seven shares in pages of three
PAGES = (1, 2, 3)


@pytest.fixture
def made(theatre):
    """The ids of seven shares, in the order of their instances."""
    theatre.enter()
    found = [cases.new_share(theatre, None) for _ in range(7)]
    theatre.settle()
    theatre.leave()
    with theatre.db.read() as tx:
        order = [row.share_id for row in tx.rows(sa.select(instances).order_by(instances.c.id))]
    assert sorted(order) == sorted(found)
    return order


def start(theatre, manner=SMALL):
    with theatre.db.write() as tx:
        return backend_ensure.ask(tx, HOST, 60, manner, None).id


def shown(theatre, op_id):
    with theatre.db.read() as tx:
        return rows.show(tx, op_id)


def until_ended(theatre, op_id):
    wait_until(lambda: shown(theatre, op_id).state in rows.ENDED, every_s=0.003)
    return shown(theatre, op_id)


def ensured(theatre, manner=SMALL):
    """What an ensuring from beginning to end has found."""
    theatre.ensure_actor()
    row = until_ended(theatre, start(theatre, manner))
    assert row.state == "done"
    return row.data["findings"]


def change(theatre, table, *conditions, **values):
    planting.put(theatre.db, table, *conditions, **values)


def column(theatre, what):
    with theatre.db.read() as tx:
        return [row[0] for row in tx.rows(sa.select(what))]


def move(theatre):
    """None of the shares is any more where it is said to be."""
    change(theatre, export_locations, export_locations.c.path.startswith("10.0.0.10"), path="10.9.9.9:/x")


@pytest.fixture
def moved(theatre, made):
    """The same, when all of them have moved."""
    move(theatre)
    return made


def is_ensuring(theatre):
    (found,) = theatre.ask("GET", f"/services?host={HOST}", who="admin")["services"]
    return found["ensuring"]


def counts(findings):
    return {name: value for name, value in findings.items() if name != "listed" and isinstance(value, int) and value}


def test_what_is_true_already_is_unchanged(theatre, made):
    before = sorted(column(theatre, export_locations.c.id))
    assert counts(ensured(theatre)) == {"unchanged": 7}
    assert sorted(column(theatre, export_locations.c.id)) == before


def test_an_address_that_has_changed_is_shown(theatre, made):
    move(theatre)
    assert counts(ensured(theatre)) == {"updated": 7}
    paths = column(theatre, export_locations.c.path)
    assert len(paths) == 21
    assert not any(path.startswith("10.9.9.9") for path in paths)


def test_a_location_keeps_its_id_when_only_another_is_preferred(theatre, made):
    before = sorted(column(theatre, export_locations.c.id))
    change(theatre, export_locations, preferred=True)
    assert counts(ensured(theatre)) == {"updated": 7}
    assert sorted(column(theatre, export_locations.c.id)) == before
    assert column(theatre, export_locations.c.preferred).count(True) == 7


def test_rules_that_are_in_error_are_applied_again(theatre, made):
    theatre.enter()
    for share_id in made[:2]:
        cases.allow(theatre, share_id, "10.0.0.1")
    theatre.settle()
    change(theatre, instance_access_rules, state="error")
    change(theatre, instances, instances.c.share_id.in_(made[:2]), access_rules_status="error")
    assert counts(ensured(theatre)) == {"unchanged": 5, "repaired": 2}
    theatre.settle()
    assert set(column(theatre, instances.c.access_rules_status)) == {"active"}
    assert set(column(theatre, instance_access_rules.c.state)) == {"active"}


def test_a_share_that_the_back_end_has_lost_is_in_error_and_its_users_are_told(theatre, made):
    lost = made[3]
    with theatre.db.read() as tx:
        (row,) = tx.rows(sa.select(instances).where(instances.c.share_id == lost))
        instance = contract_instance(share_instances.whole(tx, row.id))
    theatre.driver.delete(instance)
    findings = ensured(theatre)
    assert counts(findings) == {"unchanged": 6, "failed": 1}
    why = "the back end has no such share"
    assert findings["some_failed"] == [{"share_id": lost, "instance_id": row.id, "why": why}]
    assert theatre.status(lost) == "error"
    (message,) = theatre.ask("GET", "/messages")["messages"]
    assert message["resource_id"] == lost
    assert why in message["user_message"]


def test_what_is_busy_or_broken_is_skipped_and_named(theatre, made):
    change(theatre, instances, instances.c.share_id == made[0], status="extending")
    change(theatre, instances, instances.c.share_id == made[6], status="error")
    findings = ensured(theatre)
    assert counts(findings) == {"unchanged": 5, "skipped": 2}
    assert {one["share_id"]: one["why"] for one in findings["some_skipped"]} == {made[0]: "extending", made[6]: "error"}
    assert [theatre.status(share_id) for share_id in made].count("available") == 5


def test_a_share_that_was_left_ensuring_is_taken_up(theatre, made):
    change(theatre, instances, status="ensuring")
    assert counts(ensured(theatre)) == {"unchanged": 7}
    assert {theatre.status(share_id) for share_id in made} == {"available"}


def test_only_the_page_under_way_shows_it(theatre, moved):
    gate = Gate()
    theatre.enter(arms=stage.Arms({f"{KIND}:page-2:marked": gate.wait}))
    op_id = start(theatre)
    assert gate.arrived.wait(60)
    assert [theatre.status(share_id) for share_id in moved] == ["available"] * 3 + ["ensuring"] * 3 + ["available"]
    assert is_ensuring(theatre)
    row = shown(theatre, op_id)
    assert (row.progress_done, row.progress_total) == (3, 7)
    allow = {"access_type": "ip", "access_to": "10.0.0.1"}
    for body in ({"extend": {"new_size": 9}}, {"shrink": {"new_size": 1}}, {"allow_access": allow}):
        answer = theatre.world.ask("member", "POST", f"/shares/{moved[3]}/action", body, **NEWEST)
        assert answer.status == 400, answer
        assert "ensuring" in answer.body["badRequest"]["message"]
    assert theatre.world.ask("member", "DELETE", f"/shares/{moved[3]}", **NEWEST).status == 403
    reset = {"reset_status": {"status": "ensuring"}}
    assert theatre.world.ask("admin", "POST", f"/shares/{moved[3]}/action", reset, **NEWEST).status == 400
    cases.extend(theatre, moved[0])
    gate.opened.set()
    assert until_ended(theatre, op_id).state == "done"
    assert not is_ensuring(theatre)
    theatre.settle()
    assert {theatre.status(share_id) for share_id in moved} == {"available"}


NEWEST = {"x-openstack-manila-api-version": stage.NEWEST}


def test_with_the_option_off_no_share_ever_shows_it(theatre, moved):
    gate = Gate()
    theatre.enter(arms=stage.Arms({f"{KIND}:page-2:marked": gate.wait}))
    op_id = start(theatre, Manner(shows_status=False, page_size=3))
    assert gate.arrived.wait(60)
    assert {theatre.status(share_id) for share_id in moved} == {"available"}
    assert is_ensuring(theatre)
    gate.opened.set()
    assert counts(until_ended(theatre, op_id).data["findings"]) == {"updated": 7}


def test_a_share_that_is_forced_away_meanwhile_stays_away(theatre, moved):
    gate = Gate()
    theatre.enter(arms=stage.Arms({f"{KIND}:page-1:inside": gate.wait}))
    op_id = start(theatre)
    assert gate.arrived.wait(60)
    answer = theatre.world.ask("admin", "POST", f"/shares/{moved[0]}/action", {"force_delete": None}, **NEWEST)
    assert answer.status == 202
    theatre.until_ended("share-delete", moved[0])
    gate.opened.set()
    assert counts(until_ended(theatre, op_id).data["findings"]) == {"updated": 6, "skipped": 1}
    assert moved[0] not in column(theatre, shares.c.id)


def test_a_second_request_joins_the_first(theatre, made):
    gate = Gate()
    first = start(theatre)
    assert start(theatre) == first
    theatre.enter(arms=stage.Arms({f"{KIND}:page-1:marked": gate.wait}))
    assert gate.arrived.wait(60)
    assert start(theatre) == first
    gate.opened.set()
    assert until_ended(theatre, first).state == "done"
    assert not is_ensuring(theatre)
    assert start(theatre) != first


def test_it_is_cancelled_between_two_pages(theatre, moved):
    gate = Gate()
    theatre.enter(arms=stage.Arms({f"{KIND}:page-2:marked": gate.wait}))
    op_id = start(theatre)
    assert gate.arrived.wait(60)
    with theatre.db.write() as tx:
        assert steering.request_cancel(tx, op_id)
    gate.opened.set()
    row = until_ended(theatre, op_id)
    assert row.state == "cancelled"
    assert counts(row.data["findings"]) == {"updated": 6}
    assert not is_ensuring(theatre)
    assert {theatre.status(share_id) for share_id in moved} == {"available"}


def test_a_worker_that_is_stopped_hands_it_back_between_two_pages(theatre, moved):
    gate = Gate()
    theatre.enter(arms=stage.Arms({f"{KIND}:page-1:marked": gate.wait}))
    op_id = start(theatre)
    assert gate.arrived.wait(60)
    theatre.acting.stop()
    wait_until(theatre.acting._stopping.is_set, every_s=0.002)
    gate.opened.set()
    theatre.leave()
    row = shown(theatre, op_id)
    assert (row.state, row.data["page"], row.progress_done) == ("queued", 2, 3)
    assert is_ensuring(theatre)
    theatre.enter()
    assert counts(until_ended(theatre, op_id).data["findings"]) == {"updated": 7}


def test_while_the_back_end_is_away_its_shares_can_be_worked_with(theatre, moved):
    def away():
        raise contract.Unreachable(reason="on purpose")

    patient = msgspec.structs.replace(stage.TIMING, retry=Retry(delays_s=(600,)))
    theatre.enter(timing=patient, arms=stage.Arms({f"{KIND}:page-2:inside": away}))
    op_id = start(theatre)
    wait_until(lambda: shown(theatre, op_id).attempt == 1, every_s=0.003)
    assert {theatre.status(share_id) for share_id in moved} == {"available"}
    assert is_ensuring(theatre)
    row = shown(theatre, op_id)
    assert (row.state, row.progress_done, row.error_text) == (
        "waiting",
        3,
        "The back end cannot be reached: on purpose",
    )
    with theatre.db.write() as tx:
        assert steering.retry_now(tx, op_id)
    assert counts(until_ended(theatre, op_id).data["findings"]) == {"updated": 7}


def test_another_configuration_in_the_middle_begins_it_anew(theatre, moved):
    op_id = start(theatre)
    change(theatre, rows.t, data={"backend_info": "old", "cursor": "zzz", "page": 9, "total": 7, "findings": {}})
    theatre.enter()
    assert counts(until_ended(theatre, op_id).data["findings"]) == {"updated": 7}


def test_a_driver_that_cannot_ensure_is_told_of(theatre, made):
    op_id = start(theatre)
    worker = Worker("plain", theatre.db, [bench.shelf(HOST)], {KIND: backend_ensure.OPERATION}, timing=stage.TIMING)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        row = until_ended(theatre, op_id)
    finally:
        worker.stop()
        thread.join(60)
    assert row.state == "failed"
    assert "unsupported by its driver" in row.error_text
    assert not is_ensuring(theatre)


def test_another_configuration_at_the_start_ensures_the_shares_while_serving(theatre, made):
    move(theatre)
    stored = column(theatre, service_rows.c.backend_info)
    assert stored == [backend_ensure.digest(theatre.driver)]
    theatre.enter()
    theatre.settle()
    assert theatre.operations(KIND) == []
    change(theatre, service_rows, backend_info="what it said before")
    theatre.enter()
    (row,) = theatre.operations(KIND)
    assert counts(until_ended(theatre, row.id).data["findings"]) == {"updated": 7}
    assert column(theatre, service_rows.c.backend_info) == stored


def test_each_page_is_counted(theatre, moved):
    change(theatre, instances, instances.c.share_id == moved[0], status="error")
    parts = []
    theatre.ensure_actor().on_part = lambda queue, counts, seconds: parts.append(
        (queue.parts.backend.name, counts, seconds > 0)
    )
    assert until_ended(theatre, start(theatre)).state == "done"
    assert parts == [
        ("alpha", {"updated": 2, "skipped": 1}, True),
        ("alpha", {"updated": 3}, True),
        ("alpha", {"updated": 1}, True),
    ]


@pytest.mark.parametrize("stopped", [True, False])
def test_a_service_that_has_long_been_away_is_refused(theatre, made, stopped):
    change(theatre, service_rows, stopped=stopped, heartbeat_at=services.NEVER)
    with pytest.raises(errors.Conflict, match="not up"):
        start(theatre)
    answer = theatre.world.ask("admin", "POST", "/services/ensure-shares", {"host": HOST}, **NEWEST)
    assert answer.status == 409


@pytest.mark.parametrize("error", ["passing", "final"])
@pytest.mark.parametrize("moment", ["marked", "inside", "writing", "written"])
def test_an_error_in_a_page_leaves_nothing_half_done(theatre, moved, moment, error):
    arms = stage.Arms({f"{KIND}:page-2:{moment}": stage.ACTIONS[error]})
    theatre.enter(arms=arms)
    row = until_ended(theatre, start(theatre))
    assert arms.actions == {}
    assert row.state == ("done" if error == "passing" else "failed")
    written = 7 if error == "passing" else 6 if moment == "written" else 3
    assert counts(row.data["findings"]) == {"updated": written}
    theatre.settle()
    assert theatre.check(row) == []
    assert {theatre.status(share_id) for share_id in moved} == {"available"}


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_command_starts_it_and_shows_how_far_it_is(theatre, made, capsys):
    theatre.enter()

    def said(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["backend", "ensure", "--config-file", str(theatre.config), *arguments])
        captured = capsys.readouterr()
        return end.value.code, captured.out, captured.err

    code, out, _ = said(HOST, "--watch")
    assert code == 0
    assert "done: 7 of 7" in out
    assert "unchanged" in out
    code, _, err = said("elsewhere@alpha")
    assert code != 0
    assert "There is no service manila-share on host elsewhere@alpha." in err
    theatre.leave()
    theatre.enter(arms=stage.Arms({f"{KIND}:page-1:inside": stage.final}))
    code, out, err = said(HOST, "--watch")
    assert code != 0
    assert "on purpose" in err


@pytest.fixture(scope="module")
def nursery(tmp_path_factory):
    grown = Nursery(tmp_path_factory.mktemp("nursery"), "tests.operations.theatre", "abaca.drivers.dummy")
    yield grown
    grown.close()


@pytest.fixture(params=["dummy", "dummy_each"])
def hurt(request, database, tmp_path, nursery):  # noqa: F811
    """With a driver that ensures many shares in one call, and with one that ensures them one by one."""
    with contextlib.ExitStack() as stack:
        yield stage.Theatre(database, Path(tmp_path), nursery, stack, request.param)


@pytest.mark.system
@pytest.mark.parametrize("timing", [stage.TIMING, stage.HASTY], ids=["it comes back", "another takes over"])
def test_killed_in_any_page_it_goes_on_there(hurt, timing):
    theatre = hurt
    theatre.enter()
    for _ in range(7):
        cases.new_share(theatre, None)
    theatre.settle()
    for page in PAGES:
        for moment in ("marked", "inside", "writing", "written"):
            move(theatre)
            theatre.leave()
            op_id = start(theatre)
            child = theatre.kill_at({f"{KIND}:page-{page}:{moment}": "die"}, timing)
            assert child.ends_within(), f"this moment never came: {child.explain()}"
            written = page if moment == "written" else page - 1
            assert shown(theatre, op_id).progress_done == min(7, 3 * written)
            theatre.enter("another" if timing is stage.HASTY else stage.NAME, timing=timing)
            row = until_ended(theatre, op_id)
            assert (row.state, counts(row.data["findings"])) == ("done", {"updated": 7})
            theatre.settle()
            assert theatre.check(row) == []
            assert not any(path.startswith("10.9") for path in column(theatre, export_locations.c.path))


MOMENTS = ("marked", "inside", "writing", "written")


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
def test_a_database_that_restarts_in_any_page_does_not_stop_it(hurt):
    theatre = hurt
    theatre.enter()
    for _ in range(7):
        cases.new_share(theatre, None)
    theatre.settle()
    patient = msgspec.structs.replace(stage.TIMING, retry=Retry(delays_s=(0.05,) * 40))
    for point in [f"{KIND}:page-{page}:{moment}" for page in PAGES for moment in MOMENTS]:
        move(theatre)
        theatre.leave()
        op_id = start(theatre)
        theatre.enter(timing=patient, arms=stage.Arms({point: lambda: theatre.place.server.restart("immediate")}))

        def ended(op_id=op_id):
            with contextlib.suppress(sa.exc.OperationalError):
                return shown(theatre, op_id).state in rows.ENDED

        wait_until(ended, every_s=0.01)
        row = shown(theatre, op_id)
        assert (row.state, counts(row.data["findings"])) == ("done", {"updated": 7}), point
        theatre.settle()
        assert theatre.check(row) == []


@pytest.mark.parametrize("moment", ["marked", "inside"])
def test_a_worker_that_comes_late_changes_nothing(theatre, made, moment):
    """It was held up in a page for so long that another has done the work."""
    move(theatre)
    gate = Gate()
    late = theatre.enter(arms=stage.Arms({f"{KIND}:page-2:{moment}": gate.wait}))
    op_id = start(theatre)
    assert gate.arrived.wait(60)
    change(theatre, rows.t, rows.t.c.id == op_id, lease_until=1.0)
    other = stage.make_worker(theatre.stage, "another", stage.TIMING)
    thread = threading.Thread(target=other.run)
    thread.start()
    try:
        before = until_ended(theatre, op_id)
        locations = sorted(column(theatre, export_locations.c.id))
        gate.opened.set()
        wait_until(lambda: late.held == [], every_s=0.003)
    finally:
        other.stop()
        thread.join(60)
    assert (before.state, before.data["findings"]["updated"]) == ("done", 7)
    assert shown(theatre, op_id).data == before.data
    assert sorted(column(theatre, export_locations.c.id)) == locations
    theatre.settle()  # whoever came late has the back end looked at
    assert theatre.check(before) == []
