# SPDX-License-Identifier: Apache-2.0
"""A back end is compared with the database page by page: what is ours is mended, what nobody knows is only named."""

import contextlib

import msgspec
import pytest
import sqlalchemy as sa

from abaca.cli.main import main
from abaca.db.journal import claims, findings
from abaca.db.journal import operations as rows
from abaca.db.shares import share_instances
from abaca.db.shares.export_location_history import Cause
from abaca.db.tables.shares import share_instances as instances
from abaca.domain.ids import new_id
from abaca.drivers import contract
from abaca.operations.administration import backend_reconcile, instance_mend
from abaca.operations.administration.backend_reconcile import Args, Pace
from abaca.operations.administration.late_calls import LateCalls
from abaca.operations.parts import backends_of
from abaca.operations.shares import share_instance_delete
from abaca.reconcile.comparison import Comparison
from tests import planting
from tests.conftest import wait_until
from tests.databases import database, on_postgres, postgres  # noqa: F401 (fixtures)
from tests.operations import cases
from tests.operations import theatre as stage
from tests.operations.bench import Gate

HOST = cases.HOST
KIND = "backend-reconcile"


def ask(theatre, **more):
    with theatre.db.write() as tx:
        return backend_reconcile.ask(tx, HOST, Args(HOST, **more), 60, None).id


def shown(theatre, op_id):
    with theatre.db.read() as tx:
        return rows.show(tx, op_id)


def until_ended(theatre, op_id):
    wait_until(lambda: shown(theatre, op_id).state in rows.ENDED, every_s=0.003)
    theatre.settle()
    return shown(theatre, op_id)


def counts(row):
    findings = row.data["findings"]
    return {name: value for name, value in findings.items() if name != "listed" and isinstance(value, int) and value}


def named(theatre, op_id):
    with theatre.db.read() as tx:
        found = tx.rows(sa.select(findings.t).where(findings.t.c.operation_id == op_id))
    return {(row.kind, row.share_id) for row in found}, " ".join(row.why for row in found)


def differences(theatre):
    with theatre.db.read() as tx:
        return [*stage.stuck(tx), *stage.counted_wrong(tx), *theatre.differences(tx)]


@pytest.fixture
def made(theatre):
    """The ids of four shares, each with a rule, and a worker."""
    theatre.enter()
    found = [cases.a_share(theatre) for _ in range(4)]
    for share_id in found:
        cases.allow(theatre, share_id, "10.0.0.1")
    theatre.settle()
    return found


def test_what_is_so_is_unchanged(theatre, made):
    assert counts(until_ended(theatre, ask(theatre))) == {"unchanged": 4}


def test_size_and_rules_are_mended(theatre, made):
    rule = contract.AccessRule(id="late", type="ip", to="10.6.6.6")
    theatre.driver.extend(cases.instance_of(theatre, made[0]), 9)
    theatre.driver.set_access(cases.instance_of(theatre, made[1]), [rule])
    theatre.driver.set_access(cases.instance_of(theatre, made[2]), [])
    op_id = ask(theatre, pace=Pace(page_size=2))
    assert counts(until_ended(theatre, op_id)) == {"unchanged": 1, "repaired": 3}
    assert named(theatre, op_id)[0] == {("repaired", share_id) for share_id in made[:3]}
    assert differences(theatre) == []
    assert counts(until_ended(theatre, ask(theatre))) == {"unchanged": 4}


def test_a_deleted_share_that_is_there_again_is_deleted_again(theatre, made):
    instance = cases.instance_of(theatre, made[0])
    cases.delete(theatre, made[0])
    theatre.settle()
    theatre.driver.create(instance)
    op_id = ask(theatre)
    assert counts(until_ended(theatre, op_id)) == {"unchanged": 3, "repaired": 1}
    assert named(theatre, op_id)[0] == {("repaired", made[0])}
    assert differences(theatre) == []


def test_what_nobody_knows_is_named_and_left_alone(theatre, made):
    stranger = msgspec.structs.replace(cases.instance_of(theatre, made[0]), id="strange", share_id="strange")
    theatre.driver.create(stranger)
    op_id = ask(theatre, pace=Pace(page_size=2))
    assert counts(until_ended(theatre, op_id)) == {"unchanged": 4, "unknown": 1}
    kinds, why = named(theatre, op_id)
    assert {kind for kind, _ in kinds} == {"unknown"}
    assert "strange" in why
    assert "strange" in theatre.driver.contents()["instance"]


def test_a_share_that_the_back_end_has_lost_is_in_error_and_its_users_are_told(theatre, made):
    theatre.driver.delete(cases.instance_of(theatre, made[0]))
    assert counts(until_ended(theatre, ask(theatre))) == {"unchanged": 3, "repaired": 1}
    assert theatre.status(made[0]) == "error"
    (message,) = theatre.ask("GET", "/messages")["messages"]
    assert (message["resource_id"], "no such share" in message["user_message"]) == (made[0], True)


def test_a_dry_run_mends_nothing(theatre, made):
    theatre.driver.extend(cases.instance_of(theatre, made[0]), 9)
    assert counts(until_ended(theatre, ask(theatre, mends=False))) == {"unchanged": 3, "repaired": 1}
    assert len(differences(theatre)) == 1


def test_a_share_that_somebody_works_on_is_left_to_them(theatre, made):
    gate = Gate()
    theatre.enter(arms=stage.Arms({"share-extend:grow_on_backend:inside": gate.wait}))
    cases.extend(theatre, made[0])
    assert gate.arrived.wait(60)
    op_id = ask(theatre)
    wait_until(lambda: shown(theatre, op_id).state in rows.ENDED, every_s=0.003)
    assert counts(shown(theatre, op_id)) == {"unchanged": 3, "skipped": 1}
    gate.opened.set()
    theatre.settle()
    assert differences(theatre) == []


def test_what_changes_while_it_is_looked_at_is_left_alone(theatre, made):
    """The rule is gone from the database and the back end between two looks at the first."""

    def deny():
        rules = theatre.ask("GET", f"/share-access-rules?share_id={made[0]}")["access_list"]
        cases.act(theatre, made[0], deny_access={"access_id": rules[0]["id"]})
        wait_until(lambda: not theatre.ask("GET", f"/share-access-rules?share_id={made[0]}")["access_list"])

    theatre.enter(arms=stage.Arms({f"{KIND}:page-1:inside": deny}))
    theatre.driver.set_access(cases.instance_of(theatre, made[0]), [])
    assert counts(until_ended(theatre, ask(theatre))) == {"unchanged": 3, "skipped": 1}


def test_between_pages_it_waits_for_as_long_as_its_share_of_the_load_wants(theatre, made):
    theatre.driver.extend(cases.instance_of(theatre, made[0]), 9)
    with theatre.db.read() as tx:
        order = [row.share_id for row in tx.rows(sa.select(instances).order_by(instances.c.id))]
    op_id = ask(theatre, pace=Pace(percent=0.0001, page_size=2))
    row = wait_until(lambda: (found := shown(theatre, op_id)).state == "waiting" and found, every_s=0.003)
    assert (row.wait["what"], row.progress_done, row.owner) == ("its share of the load", 2, None)
    pause_s = row.not_before - theatre.db.time()
    assert pause_s > 60
    assert order[0] == made[0]
    wait_until(lambda: theatre.operation("instance-mend", made[0]).state == "done", every_s=0.01)
    with theatre.db.read() as tx:
        assert theatre.differences(tx, made[0]) == []


def test_it_goes_on_at_its_page_after_its_worker_has_gone(theatre, made):
    gate = Gate()
    theatre.enter(arms=stage.Arms({f"{KIND}:page-2:inside": gate.wait}))
    op_id = ask(theatre, pace=Pace(page_size=1))
    assert gate.arrived.wait(60)
    theatre.acting.stop()
    wait_until(theatre.acting._stopping.is_set, every_s=0.002)
    gate.opened.set()
    theatre.leave()
    row = shown(theatre, op_id)
    assert (row.state, row.data["page"], row.progress_done) == ("queued", 3, 2)
    theatre.enter()
    assert counts(until_ended(theatre, op_id)) == {"unchanged": 4}


def test_rounds_begin_by_themselves_one_after_another(theatre, made):
    served = backends_of(theatre.acting.queues.values()).values()

    def begin(every_s, percent=100):
        return Comparison(theatre.db, served, every_s, {"percent": percent, "page_size": 10}).begin()

    assert begin(600, percent=0) == 0
    assert begin(600) == 1
    assert begin(600) == 0
    theatre.settle()
    until_ended(theatre, ask(theatre))
    assert begin(600) == 0
    assert begin(0) == 1
    theatre.settle()
    by_itself = [row for row in theatre.operations(KIND) if row.args["is_round"]]
    assert [(row.state, row.progress_done, row.progress_total) for row in by_itself] == [("done", 4, 4)] * 2


def a_round(theatre):
    """One that begins by itself has gone round; its row."""
    with theatre.db.write() as tx:
        backend_reconcile.begin_round(tx, HOST, Pace(page_size=2))
    theatre.settle()
    return next(row for row in theatre.operations(KIND) if row.args["is_round"])


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_difference_that_stays_is_told_once_and_rounds_do_not_fill_the_journal(theatre, made, caplog):
    theatre.driver.extend(cases.instance_of(theatre, made[0]), 9)
    stranger = msgspec.structs.replace(cases.instance_of(theatre, made[0]), id="strange", share_id="strange")
    theatre.driver.create(stranger)
    said = []
    for _ in range(3):
        theatre.acting.faults = stage.Arms({"instance-mend:mend_on_backend:before": stage.final})
        caplog.clear()
        row = a_round(theatre)
        assert counts(row) == {"unchanged": 3, "repaired": 1, "unknown": 1}
        assert named(theatre, row.id)[0] == {("repaired", made[0]), ("unknown", "")}
        said.append({entry.getMessage().split(":")[0] for entry in caplog.records if "on its back end" in entry.msg})
        said[-1] |= {"strange" for entry in caplog.records if "nobody here knows" in entry.msg}
        assert theatre.operation("instance-mend", made[0]).state == "failed"
    instance = cases.instance_of(theatre, made[0])
    first = {f"share={made[0]} instance={instance.id} differs on its back end", "strange"}
    assert said == [first, set(), set()]
    assert len(theatre.ask("GET", "/messages")["messages"]) == 1
    assert len([row for row in theatre.operations(KIND) if row.args["is_round"]]) == 2
    a_round(theatre)
    assert theatre.driver.contents()["instance"][instance.id]["size_gib"] == instance.size_gib


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_operators_see_no_work_to_do_in_a_round(theatre, made):
    theatre.leave()
    with theatre.db.write() as tx:
        backend_reconcile.begin_round(tx, HOST, Pace())
    (shown_one,) = theatre.world.ask("admin", "GET", "//abaca/v1/backends").body["backends"]
    assert shown_one["operations"] == {}
    cases.extend(theatre, made[0])
    (shown_one,) = theatre.world.ask("admin", "GET", "//abaca/v1/backends").body["backends"]
    assert shown_one["operations"] == {"queued": 1}


def let_go(theatre, share_id, kind):
    """The share goes from the database alone, as by an operation of that kind; what its driver was told of it."""
    instance = cases.instance_of(theatre, share_id)
    with planting.by_hand(theatre.db) as tx:
        row = share_instances.whole(tx, instance.id)
        share_instance_delete.forget(tx, row, Cause(new_id(), kind))
    return instance


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("kind", "is_deleted"), [("share-unmanage", False), (None, False), ("share-delete", True)])
def test_only_a_recorded_deletion_lets_anything_be_deleted(theatre, made, kind, is_deleted):
    """Somebody may have let go of a share on purpose: that its row is gone proves nothing."""
    theatre.enter(timing=msgspec.structs.replace(stage.TIMING, poll_s=0.05))
    instance = let_go(theatre, made[0], kind)
    with theatre.db.write() as tx:
        instance_mend.start(tx, instance, HOST, None)
        backend_reconcile.suspect(tx, HOST, [instance], 0.01)
    theatre.settle()
    assert (instance.id not in theatre.driver.contents()["instance"]) == is_deleted
    op_id = ask(theatre)
    assert counts(until_ended(theatre, op_id)) == {"unchanged": 3} | ({} if is_deleted else {"unknown": 1})
    assert (instance.id not in theatre.driver.contents()["instance"]) == is_deleted


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_share_that_never_had_a_location_is_deleted_again_as_its_deletion_says(theatre, made):
    theatre.enter(arms=stage.Arms({"share-create:create_on_backend:inside": stage.final}))
    share_id = cases.new_share(theatre, None)
    theatre.settle()
    instance = cases.instance_of(theatre, share_id)
    cases.delete(theatre, share_id)
    theatre.settle()
    theatre.driver.create(instance)
    with theatre.db.write() as tx:
        instance_mend.start(tx, instance, HOST, None)
    theatre.settle()
    assert differences(theatre) == []


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_work_of_another_release_is_taken_over_though_nothing_is_understood_of_it(unfenced):
    worker = unfenced.enter()
    left = claims.Left("lost", "share-extend", HOST, 1, "do", HOST, {"instance": {"name": "of old"}}, {})
    with unfenced.db.write() as tx:
        LateCalls(backends_of(worker.queues.values())).taken(tx, left, 60.0)
    assert unfenced.operations(KIND) == []


def test_a_page_takes_its_share_of_the_load_with_what_surrounds_it():
    assert Pace(percent=1).pause_s(0.08) == pytest.approx(9.9)
    assert Pace().pause_s(3.0) == 0


DOOR = "//abaca/v1"


def asked(theatre, who="admin", **body):
    return theatre.world.ask(who, "POST", f"{DOOR}/services/reconcile", body)


def found(theatre, op_id, query):
    return theatre.world.ask("admin", "GET", f"{DOOR}/operations/{op_id}/findings?{query}").body["findings"]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_an_operator_asks_for_it_and_reads_what_was_found(theatre, made):
    theatre.driver.extend(cases.instance_of(theatre, made[0]), 9)
    stranger = msgspec.structs.replace(cases.instance_of(theatre, made[0]), id="strange", share_id="strange")
    theatre.driver.create(stranger)
    answer = asked(theatre, host=HOST, dry_run=True)
    assert (answer.status, answer.body["operation"]["kind"]) == (202, KIND)
    op_id = answer.body["operation"]["id"]
    until_ended(theatre, op_id)
    (unknown,) = found(theatre, op_id, "kind=unknown")
    assert "strange" in unknown["why"]
    assert [one["share_id"] for one in found(theatre, op_id, "kind=repaired")] == [made[0]]
    with theatre.db.read() as tx:
        assert theatre.differences(tx, made[0]) != []
    until_ended(theatre, asked(theatre, host=HOST).body["operation"]["id"])
    with theatre.db.read() as tx:
        assert theatre.differences(tx, made[0]) == []


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_it_is_one_for_all_who_ask_and_for_administrators_alone(theatre, made):
    theatre.leave()
    first, second, other = asked(theatre, host=HOST), asked(theatre, host=HOST), asked(theatre, host=HOST, dry_run=True)
    ids = [answer.body["operation"]["id"] for answer in (first, second, other)]
    assert ids[0] == ids[1] != ids[2]
    assert asked(theatre, "member", host=HOST).status == 403
    assert asked(theatre, host="elsewhere@alpha").status == 404
    assert asked(theatre).status == 400
    theatre.enter()
    for op_id in ids:
        assert until_ended(theatre, op_id).state == "done"


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_command_shows_how_far_it_is_and_what_differs(theatre, made, capsys):
    def said(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["backend", "reconcile", "--config-file", str(theatre.config), *arguments])
        captured = capsys.readouterr()
        return end.value.code, captured.out, captured.err

    theatre.driver.set_access(cases.instance_of(theatre, made[0]), [])
    code, out, _ = said(HOST, "--dry-run", "--watch")
    assert code == 0
    assert f"compares {HOST} with the database, and mends nothing." in out
    assert "done: 4 of 4" in out
    assert "it lets others in than its access rules say" in out
    assert "instance-mend" not in out
    _, out, _ = said(HOST, "--watch")
    assert f"--kind instance-mend --queue {HOST}`" in out
    theatre.settle()
    assert differences(theatre) == []
    code, _, err = said("elsewhere@alpha")
    assert code != 0
    assert "There is no service manila-share on host elsewhere@alpha." in err


@pytest.fixture
def unfenced(database, tmp_path):  # noqa: F811
    """A stage with a back end that does what comes too late."""
    with contextlib.ExitStack() as stack:
        yield stage.Theatre(database, tmp_path, None, stack, driver="dummy_each")


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
def test_work_that_is_taken_over_again_waits_for_no_earlier_look(unfenced):
    """Whoever takes over holds operations already: waiting for another, it could keep up who waits for those."""
    worker = unfenced.enter()
    instance = cases.instance_of(unfenced, cases.a_share(unfenced))
    unfenced.leave()
    lost = {"id": "lost", "kind": "share-extend", "queue": HOST, "step": 1, "direction": "do", "home": HOST}
    left = claims.Left(**lost, args={"instance": msgspec.to_builtins(instance)}, data={})
    late = LateCalls(backends_of(worker.queues.values()))
    with unfenced.db.write() as tx:
        late.taken(tx, left, 60.0)
    with unfenced.db.write() as holder, unfenced.db.write() as tx:
        (first,) = holder.rows(sa.select(rows.t).where(rows.t.c.kind == KIND).with_for_update())
        tx.execute(sa.text("SET LOCAL lock_timeout = '1s'"))
        late.taken(tx, left, 60.0)
    assert [row.state for row in unfenced.operations(KIND)] == ["waiting", "waiting"]
    assert first.not_before > unfenced.db.time()
