# SPDX-License-Identifier: Apache-2.0
"""Attachments stay true: machines that go away and come back, exports that move, servers that vanish."""

import datetime

import msgspec
import pytest
import sqlalchemy as sa

from abaca import app
from abaca.app import figures
from abaca.db.attachments import attachments as rows
from abaca.db.attachments import servers
from abaca.db.tables.attachments import attachments, orphaned_mounts
from abaca.db.tables.shares import access_rules, export_locations
from abaca.domain.attachments.attachments import ATTACHMENT
from abaca.journal.kinds import Retry
from abaca.nodes.contract import Holder
from abaca.operations.attachments.attachment_parts import AttachmentParts
from abaca.reconcile.attachments import Attachments
from abaca.reconcile.orphaned_mounts import OrphanedMounts
from tests.conftest import wait_until
from tests.operations import cases
from tests.operations import theatre as stage

DOOR = "//abaca/v1/attachments"


def shown(theatre, attachment_id):
    return theatre.ask("GET", f"{DOOR}/{attachment_id}")["attachment"]


def reconciler(theatre, verify_interval_s=0.0):
    compute = app.compute(theatre.stage.settings, theatre.db)
    return Attachments(theatre.db, AttachmentParts(compute, theatre.nodes), verify_interval_s=verify_interval_s)


def make_due(theatre, *, only_waiting=False):
    """The time of the next try has come, where there is one."""
    waiting = sa.true() if not only_waiting else attachments.c.retry_at.is_not(None)
    with theatre.db.write() as tx:
        past = tx.now - datetime.timedelta(seconds=1)
        tx.execute(sa.update(attachments).where(waiting).values(retry_at=past))


def host(attachment):
    return attachment["addresses"][0]


def test_looking_finds_all_well(theatre, attachment):
    assert reconciler(theatre).verify() == 1
    after = shown(theatre, attachment["id"])
    assert after["state"] == "active"
    assert after["last_verified_at"] > attachment["last_verified_at"]


def test_what_was_seen_lately_is_not_looked_at(theatre, attachment):
    assert reconciler(theatre, verify_interval_s=600).verify() == 0


def test_what_somebody_unmounted_is_mounted_again(theatre, attachment):
    theatre.nodes.forget(host(attachment), attachment["mount_point"])
    reconciler(theatre).verify()
    theatre.settle()
    assert shown(theatre, attachment["id"])["state"] == "active"
    assert len(theatre.nodes.tables()) == 1


def test_a_machine_that_went_away_is_said_and_comes_back_by_itself(theatre, attachment):
    theatre.nodes.take_away(host(attachment))
    reconciler(theatre).verify()
    lost = shown(theatre, attachment["id"])
    assert (lost["state"], lost["error"]["code"], lost["attempts"]) == ("error", "MachineUnreachable", 1)
    assert lost["error"]["mend"]
    assert reconciler(theatre).heal() == 0, "its time has not come"
    make_due(theatre)
    reconciler(theatre).heal()
    theatre.settle()
    again = shown(theatre, attachment["id"])
    assert (again["state"], again["attempts"]) == ("error", 2)
    assert again["next_try_at"] > lost["next_try_at"]
    theatre.nodes.bring_back(host(attachment))
    make_due(theatre)
    reconciler(theatre).heal()
    theatre.settle()
    back = shown(theatre, attachment["id"])
    assert (back["state"], back["error"], back["attempts"]) == ("active", None, 0)


def test_one_machine_that_is_away_holds_up_nobody_else(theatre):
    share_id = cases.a_share(theatre)
    machines = [cases.a_server(theatre, f"10.9.1.{number}") for number in range(1, 6)]
    theatre.nodes.take_away("10.9.1.3")
    wish = {"attachment": {"share_id": share_id, "server_ids": machines}}
    theatre.ask("POST", DOOR, wish)
    theatre.settle()
    states = {one["server_id"]: one["state"] for one in theatre.ask("GET", DOOR)["attachments"]}
    assert [states[one] for one in machines] == ["active", "active", "error", "active", "active"]


def test_moved_exports_are_followed(theatre, attachment):
    with theatre.db.write() as tx:
        path = export_locations.c.path
        tx.execute(sa.update(export_locations).values(path=sa.func.replace(path, "10.0.0.", "10.0.9.")))
    assert reconciler(theatre).heal() == 1
    theatre.settle()
    after = shown(theatre, attachment["id"])
    assert (after["state"], after["export_location"][:10]) == ("active", "10.0.9.10:")


def test_open_files_keep_the_old_export_until_they_are_closed(theatre, attachment):
    theatre.nodes.hold(host(attachment), attachment["mount_point"], Holder(7, "tail -f log"))
    with theatre.db.write() as tx:
        path = export_locations.c.path
        tx.execute(sa.update(export_locations).values(path=sa.func.replace(path, "10.0.0.", "10.0.9.")))
    reconciler(theatre).heal()
    theatre.settle()  # the theatre's patience is short
    waits = shown(theatre, attachment["id"])
    assert (waits["state"], waits["error"]["code"]) == ("error", "StillOpen")
    assert "process 7 (tail -f log)" in waits["error"]["message"]
    assert waits["export_location"] == attachment["export_location"]
    theatre.nodes.hold(host(attachment), attachment["mount_point"], None)
    make_due(theatre)
    reconciler(theatre).heal()
    theatre.settle()
    assert shown(theatre, attachment["id"])["state"] == "active"


def test_a_busy_share_is_detached_when_it_is_free_or_at_once_by_force(theatre, attachment):
    theatre.nodes.hold(host(attachment), attachment["mount_point"], Holder(7, "sleep 9"))
    theatre.ask("DELETE", f"{DOOR}/{attachment['id']}")
    theatre.settle()
    busy = shown(theatre, attachment["id"])
    assert (busy["state"], busy["wanted"], busy["error"]["code"]) == ("error", "detached", "MountInUse")
    assert "process 7 (sleep 9)" in busy["error"]["message"]
    theatre.ask("DELETE", f"{DOOR}/{attachment['id']}?force=true")
    theatre.settle()
    assert theatre.ask("GET", DOOR)["attachments"] == []


def test_a_machine_that_nobody_could_ever_log_in_to_is_let_go(theatre, caplog):
    share_id, server_id = cases.a_share(theatre), cases.a_server(theatre, "10.9.6.1")
    with theatre.db.write() as tx:
        servers.update(tx, server_id, {"key": None}, None)
    attachment_id = cases.attach(theatre, (share_id, server_id))
    theatre.settle()
    assert shown(theatre, attachment_id)["error"]["code"] == "NoWayIn"
    # its user need not wait for tries to take back what nobody could do
    assert "undo" not in caplog.text
    theatre.ask("DELETE", f"{DOOR}/{attachment_id}")
    theatre.settle()
    assert theatre.ask("GET", DOOR)["attachments"] == []
    with theatre.db.read() as tx:
        assert tx.rows(sa.select(access_rules)) == []


def test_a_machine_whose_key_was_taken_away_keeps_what_is_mounted(theatre, attachment):
    with theatre.db.write() as tx:
        servers.update(tx, attachment["server_id"], {"key": None}, None)
    theatre.ask("DELETE", f"{DOOR}/{attachment['id']}")
    theatre.settle()
    assert shown(theatre, attachment["id"])["error"]["code"] == "NoWayIn"
    theatre.ask("DELETE", f"{DOOR}/{attachment['id']}?force=true")
    theatre.settle()
    assert theatre.ask("GET", DOOR)["attachments"] == []
    theatre.nodes.scrap(host(attachment))


def test_what_was_mounted_below_is_looked_at_when_a_mount_goes_by_force(theatre):
    """Such there may be of earlier releases."""
    machine = cases.a_server(theatre, "10.9.3.1")
    places = {}
    for place in ("/srv/a", "/srv/elsewhere", "/srv/other"):
        wish = {"share_id": cases.a_share(theatre), "server_id": machine, "mount_point": place}
        places[place] = theatre.ask("POST", DOOR, {"attachment": wish})["attachment"]["id"]
    theatre.settle()
    with theatre.db.write() as tx:
        rows.update(tx, places["/srv/elsewhere"], {"mount_point": "/srv/a/b"})
    theatre.nodes.scrap("10.9.3.1")  # and so is what was mounted there
    looks = reconciler(theatre, verify_interval_s=600)
    assert looks.verify() == 0
    force(theatre, places["/srv/a"])
    assert looks.verify() == 1
    theatre.settle()
    mounted = theatre.nodes.tables()
    assert [line["name"] for line in mounted.values()] == [places["/srv/elsewhere"]]
    force(theatre, places["/srv/other"])


def test_a_server_that_vanished_loses_its_rules(theatre, attachment):
    with theatre.db.write() as tx:
        servers.delete(tx, attachment["server_id"])
    theatre.nodes.scrap(host(attachment))  # the machine is gone, not only its entry
    reconciler(theatre).verify()
    theatre.settle()
    with theatre.db.read() as tx:
        assert tx.rows(sa.select(access_rules)) == []
        assert tx.rows(sa.select(attachments)) == []


def test_a_server_with_other_addresses_gets_rules_for_those(theatre, attachment):
    with theatre.db.write() as tx:
        servers.update(tx, attachment["server_id"], {"ssh_host": host(attachment)}, [("10.77.0.1", "default")])
    reconciler(theatre).verify()
    theatre.settle()
    with theatre.db.read() as tx:
        assert stage.states_of_rules(tx) == [("10.77.0.1", "active")]
    assert shown(theatre, attachment["id"])["state"] == "active"


@pytest.mark.parametrize("was", ["away", "off"])
def test_a_server_that_comes_back_with_another_address_is_let_in_there(theatre, attachment, was):
    if was == "away":
        theatre.nodes.take_away(host(attachment))
    else:
        set_status(theatre, attachment["server_id"], "SHUTOFF")
    reconciler(theatre).verify()
    assert shown(theatre, attachment["id"])["state"] == {"away": "error", "off": "inactive"}[was]
    now = {"ssh_host": "10.77.0.2", "status": "ACTIVE"}
    with theatre.db.write() as tx:
        servers.update(tx, attachment["server_id"], now, [("10.77.0.2", "default")])
    theatre.nodes.scrap(host(attachment))  # at its former address there is nothing
    make_due(theatre, only_waiting=True)
    assert (reconciler(theatre).heal(), reconciler(theatre).wake()) == {"away": (1, 0), "off": (0, 1)}[was]
    theatre.settle()
    with theatre.db.read() as tx:
        assert stage.states_of_rules(tx) == [("10.77.0.2", "active")]
    back = shown(theatre, attachment["id"])
    assert (back["state"], back["addresses"]) == ("active", ["10.77.0.2"])


def test_a_rule_that_is_missing_is_made_again(theatre, attachment):
    with theatre.db.write() as tx:
        tx.execute(sa.delete(access_rules))
    reconciler(theatre).verify()
    theatre.settle()
    with theatre.db.read() as tx:
        made = stage.states_of_rules(tx)
    assert made == [(host(attachment), "active")]


def test_a_share_is_attached_though_the_rule_of_its_user_is_just_going(theatre):
    share_id = cases.a_share(theatre)
    server_id = cases.a_server(theatre, "10.9.4.1")
    rule = cases.allow(theatre, share_id, "10.9.4.1")
    theatre.settle()

    made = []

    def until_it_waits():
        wait_until(lambda: made and theatre.operation("attachment-attach", made[0]).wait is not None)

    patient = msgspec.structs.replace(stage.TIMING, retry=Retry(), poll_s=0.1)
    theatre.enter(timing=patient, arms=stage.Arms({"access-rules-sync:apply_rules:before": until_it_waits}))
    cases.act(theatre, share_id, deny_access={"access_id": rule})
    made.append(cases.attach(theatre, (share_id, server_id)))
    theatre.settle()
    assert shown(theatre, made[0])["state"] == "active"


def test_a_busy_state_without_an_operation_becomes_an_error_that_is_tried_again(theatre, attachment):
    with theatre.db.write() as tx:
        rows.move(tx, attachment["id"], "attach")
    assert reconciler(theatre).heal() == 1
    assert shown(theatre, attachment["id"])["state"] == "error"
    make_due(theatre)
    reconciler(theatre).heal()
    theatre.settle()
    assert shown(theatre, attachment["id"])["state"] == "active"


def test_two_workers_that_see_the_same_do_it_once(theatre, attachment):
    theatre.nodes.forget(host(attachment), attachment["mount_point"])
    theatre.leave()
    reconciler(theatre).verify()
    reconciler(theatre).verify()
    theatre.enter()
    theatre.settle()
    assert len(theatre.operations("attachment-attach")) == 2, "the first, and one more"


def test_a_detach_ends_an_attach_that_waits(theatre):
    share_id = cases.a_share(theatre)
    server_id = cases.a_server(theatre, "10.9.2.1")
    theatre.leave()
    attachment_id = cases.attach(theatre, (share_id, server_id))
    cases.detach(theatre, attachment_id)
    theatre.enter()
    theatre.settle()
    wait_until(lambda: theatre.ask("GET", DOOR)["attachments"] == [])


def test_who_attaches_again_too_soon_reads_that_it_is_being_detached(theatre, attachment):
    theatre.leave()
    cases.detach(theatre, attachment["id"])
    wish = {"share_id": attachment["share_id"], "server_id": attachment["server_id"]}
    answer = theatre.world.ask("member", "POST", DOOR, {"attachment": wish})
    assert answer.status == 409
    said = answer.body["error"]["message"]
    assert f"attachment {attachment['id']}. It is being detached; repeat this when it is gone." in said
    theatre.enter()


def test_detaching_from_a_server_that_is_off_says_so_and_ends_when_it_is_on(theatre, attachment):
    set_status(theatre, attachment["server_id"], "SHUTOFF")
    cases.detach(theatre, attachment["id"])
    theatre.settle()
    waits = shown(theatre, attachment["id"])
    assert (waits["state"], waits["wanted"], waits["error"]["code"]) == ("error", "detached", "ServerOff")
    assert attachment["server_id"] in waits["error"]["message"]
    assert "Start the server" in waits["error"]["mend"]
    assert "force" in waits["error"]["mend"]
    assert waits["next_try_at"] is None
    make_due(theatre, only_waiting=True)
    assert (reconciler(theatre).heal(), reconciler(theatre).wake()) == (0, 0)
    assert len(theatre.nodes.tables()) == 1
    set_status(theatre, attachment["server_id"], "ACTIVE")
    assert reconciler(theatre).wake() == 1
    theatre.settle()
    assert theatre.ask("GET", DOOR)["attachments"] == []
    assert theatre.nodes.tables() == {}


def test_a_forced_detach_from_a_server_that_is_off_leaves_its_mount_until_it_is_on(theatre, attachment):
    server_id = attachment["server_id"]
    set_status(theatre, server_id, "SHUTOFF")
    cases.detach(theatre, attachment["id"])
    theatre.settle()
    force(theatre, attachment["id"])
    assert theatre.ask("GET", DOOR)["attachments"] == []
    assert rules(theatre) == []
    assert left(theatre).sweep() == 1
    assert len(theatre.nodes.tables()) == 1, "it is off still"
    assert left(theatre).sweep() == 0, "its time has not come"
    set_status(theatre, server_id, "ACTIVE")
    until_swept(theatre)
    assert theatre.nodes.tables() == {}


def test_what_was_left_on_a_machine_that_was_away_goes_when_it_is_back(theatre, attachment):
    theatre.nodes.take_away(host(attachment))
    force(theatre, attachment["id"])
    assert rules(theatre) == []
    assert left(theatre).sweep() == 1
    assert len(theatre.nodes.tables()) == 1
    theatre.nodes.bring_back(host(attachment))
    until_swept(theatre)
    assert theatre.nodes.tables() == {}


def test_what_was_left_does_not_stand_in_the_way_of_the_next_attachment(theatre, attachment):
    theatre.nodes.take_away(host(attachment))
    force(theatre, attachment["id"])
    theatre.nodes.bring_back(host(attachment))
    again = cases.attach(theatre, (attachment["share_id"], attachment["server_id"]))
    theatre.settle()
    assert shown(theatre, again)["state"] == "active"
    assert [line["name"] for line in theatre.nodes.tables().values()] == [again]
    assert left(theatre).sweep() == 0


def test_what_was_left_and_does_not_go_keeps_no_share_from_other_mount_points(theatre, attachment):
    theatre.nodes.take_away(host(attachment))
    force(theatre, attachment["id"])
    theatre.nodes.bring_back(host(attachment))
    at_ease = theatre.stage.settings
    failing = msgspec.structs.replace(at_ease.nodes, rehearsal_failures=("clear:TimedOut",))
    theatre.stage.settings = at_ease.changed(nodes=failing)
    theatre.enter()
    elsewhere = cases.attach(theatre, (cases.a_share(theatre), attachment["server_id"]))
    there = cases.attach(theatre, (attachment["share_id"], attachment["server_id"]))
    theatre.settle()
    assert shown(theatre, elsewhere)["state"] == "active"
    assert shown(theatre, there)["error"]["code"] == "MachineTimedOut"
    theatre.stage.settings = at_ease
    until_swept(theatre)


def test_what_was_left_is_forgotten_with_its_server(theatre, attachment):
    theatre.nodes.take_away(host(attachment))
    force(theatre, attachment["id"])
    theatre.world.ask("admin", "DELETE", f"//abaca/v1/servers/{attachment['server_id']}")
    until_swept(theatre)
    theatre.nodes.scrap(host(attachment))


def test_force_is_heard_while_it_is_being_detached(theatre, attachment):
    """The machine is found in use at the moment at which its user forces it."""
    theatre.nodes.hold(host(attachment), attachment["mount_point"], Holder(7, "sleep 9"))

    def force_it():
        theatre.ask("DELETE", f"{DOOR}/{attachment['id']}?force=true")

    theatre.enter(arms=stage.Arms({"attachment-detach:unmount_on_server:before": force_it}))
    cases.detach(theatre, attachment["id"])
    theatre.settle()
    assert theatre.ask("GET", DOOR)["attachments"] == []


def test_a_forced_deletion_of_a_share_does_not_wait_for_an_ordinary_detach(theatre, attachment):
    theatre.nodes.take_away(host(attachment))
    cases.detach(theatre, attachment["id"])
    theatre.settle()
    theatre.leave()
    make_due(theatre)
    reconciler(theatre).heal()
    assert shown(theatre, attachment["id"])["state"] == "detaching"
    path = f"/shares/{attachment['share_id']}/action"
    theatre.ask("POST", path, {"force_delete": None}, who="admin")
    theatre.enter()
    theatre.settle()
    assert theatre.ask("GET", "/shares")["shares"] == []
    theatre.nodes.bring_back(host(attachment))
    until_swept(theatre)


def test_a_server_that_is_removed_while_it_is_away_loses_its_access_at_once(theatre, attachment):
    theatre.nodes.take_away(host(attachment))
    reconciler(theatre).verify()
    assert shown(theatre, attachment["id"])["state"] == "error"
    theatre.world.ask("admin", "DELETE", f"//abaca/v1/servers/{attachment['server_id']}")
    theatre.settle()
    assert theatre.ask("GET", DOOR)["attachments"] == []
    assert rules(theatre) == []
    theatre.nodes.scrap(host(attachment))


def force(theatre, attachment_id):
    theatre.ask("DELETE", f"{DOOR}/{attachment_id}?force=true")
    theatre.settle()


def rules(theatre):
    with theatre.db.read() as tx:
        return tx.rows(sa.select(access_rules))


def left(theatre):
    return OrphanedMounts(theatre.db, reconciler(theatre).tools)


def until_swept(theatre):
    """The time of the next try has come, and nothing is left afterwards."""
    with theatre.db.write() as tx:
        tx.execute(sa.update(orphaned_mounts).values(retry_at=tx.now))
    assert left(theatre).sweep() == 1
    with theatre.db.read() as tx:
        assert tx.rows(sa.select(orphaned_mounts)) == []


def set_status(theatre, server_id, status):
    with theatre.db.write() as tx:
        servers.update(tx, server_id, {"status": status}, None)


def test_a_server_that_is_switched_on_gets_its_share(theatre):
    share_id = cases.a_share(theatre)
    server_id = cases.a_server(theatre, "10.9.3.1")
    set_status(theatre, server_id, "SHUTOFF")
    attachment_id = cases.attach(theatre, (share_id, server_id))
    theatre.settle()
    assert shown(theatre, attachment_id)["state"] == "inactive"
    assert reconciler(theatre).wake() == 0
    set_status(theatre, server_id, "ACTIVE")
    assert reconciler(theatre).wake() == 1
    theatre.settle()
    assert shown(theatre, attachment_id)["state"] == "active"
    set_status(theatre, server_id, "SHUTOFF")
    reconciler(theatre).verify()
    assert shown(theatre, attachment_id)["state"] == "inactive"


def test_a_scrape_tells_how_many_are_in_each_state(theatre, attachment):
    (family,) = figures.Attachments(theatre.db).collect()
    found = {sample.labels["state"]: sample.value for sample in family.samples}
    assert found == dict.fromkeys(ATTACHMENT.states, 0) | {"active": 1}
