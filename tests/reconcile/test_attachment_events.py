# SPDX-License-Identifier: Apache-2.0
"""What happens to attachments is told: programs by events, in order and with one end each, users by messages."""

import pytest
import sqlalchemy as sa

from abaca.db.attachments import servers
from abaca.db.tables.shares import export_locations
from abaca.nodes.contract import Holder
from tests.events import told as events_told
from tests.operations import cases
from tests.reconcile.test_attachments import DOOR, host, make_due, reconciler, set_status

FIELDS = {
    "attachment_id",
    "share_id",
    "server_id",
    "project_id",
    "user_id",
    "mode",
    "mount_point",
    "tag",
    "access_level",
    "state",
    "export_location",
    "error_code",
    "error_text",
}


def told(theatre, attachment_id):
    """The events of an attachment, the oldest first."""
    with theatre.db.read() as tx:
        return [*reversed(events_told.newest_first(tx, resource_id=attachment_id))]


def heard(theatre, attachment_id):
    """Of each the type, the state that it tells, and what is wrong."""
    return [
        (event.event_type, event.payload["state"], event.payload["error_code"])
        for event in told(theatre, attachment_id)
    ]


def since(theatre, attachment_id, number):
    return heard(theatre, attachment_id)[number:]


def messages(theatre, share_id):
    """The newest first."""
    found = theatre.ask("GET", f"/messages?resource_id={share_id}&sort_key=created_at")["messages"]
    return [(one["action_id"], one["detail_id"], one["user_message"]) for one in found]


def move_exports(theatre):
    with theatre.db.write() as tx:
        path = export_locations.c.path
        tx.execute(sa.update(export_locations).values(path=sa.func.replace(path, "10.0.0.", "10.0.9.")))


def try_again(theatre):
    make_due(theatre)
    reconciler(theatre).heal()
    theatre.settle()


def test_the_life_of_an_attachment_is_told(theatre, attachment):
    cases.detach(theatre, attachment["id"])
    theatre.settle()
    assert heard(theatre, attachment["id"]) == [
        ("share.attach.start", "attaching", None),
        ("share.attach.end", "active", None),
        ("share.detach.start", "detaching", None),
        ("share.detach.end", "detached", None),
    ]
    start, end, *_ = told(theatre, attachment["id"])
    assert set(start.payload) == set(end.payload) == FIELDS
    for name in ("share_id", "server_id", "project_id", "mount_point", "tag", "mode", "access_level"):
        assert start.payload[name] == end.payload[name] == attachment[name]
    assert (start.payload["export_location"], end.payload["export_location"]) == (None, attachment["export_location"])
    assert (end.resource_type, end.project_id) == ("attachment", attachment["project_id"])
    assert start.request_id == end.request_id
    assert end.request_id.startswith("req-")
    assert messages(theatre, attachment["share_id"]) == []


def test_a_failed_attachment_is_told_at_each_try_and_to_its_users_once(theatre):
    share_id, server_id = cases.a_share(theatre), cases.a_server(theatre, "10.9.4.1")
    theatre.nodes.take_away("10.9.4.1")
    attachment_id = cases.attach(theatre, (share_id, server_id))
    theatre.settle()
    try_again(theatre)
    ((action, detail, said),) = messages(theatre, share_id)
    assert (action, detail) == ("901", "901")
    assert said.startswith("attach to a server: The share is not on the server")
    for word in (server_id, f"/mnt/{share_id}", attachment_id, "cannot be reached", "Start the server"):
        assert word in said
    theatre.nodes.bring_back("10.9.4.1")
    try_again(theatre)
    away = "MachineUnreachable"
    assert heard(theatre, attachment_id) == [
        ("share.attach.start", "attaching", None),
        ("share.attach.error", "error", away),
        ("share.attachment.mend.start", "attaching", away),
        ("share.attachment.mend.error", "error", away),
        ("share.attachment.mend.start", "attaching", away),
        ("share.attachment.mend.end", "active", None),
    ]


def test_another_reason_is_another_message(theatre, attachment):
    theatre.nodes.take_away(host(attachment))
    reconciler(theatre).verify()
    theatre.nodes.bring_back(host(attachment))
    theatre.nodes.hold(host(attachment), attachment["mount_point"], Holder(7, "sleep 9"))
    cases.detach(theatre, attachment["id"])
    theatre.settle()
    newest, first = messages(theatre, attachment["share_id"])
    assert (newest[:2], first[:2]) == (("902", "902"), ("901", "901"))
    assert "process 7 (sleep 9)" in newest[2]
    assert "detach with force" in newest[2]
    theatre.ask("DELETE", f"{DOOR}/{attachment['id']}?force=true")
    theatre.settle()
    assert [event[:2] for event in since(theatre, attachment["id"], 2)] == [
        ("share.attachment.verify.error", "error"),
        ("share.detach.start", "detaching"),
        ("share.detach.error", "error"),
        ("share.detach.start", "detaching"),
        ("share.detach.end", "detached"),
    ]


def test_who_detaches_what_could_not_be_attached_hears_of_that_too_and_waits_no_longer(theatre, attachment):
    theatre.nodes.take_away(host(attachment))
    reconciler(theatre).verify()
    try_again(theatre)
    assert [one[:2] for one in messages(theatre, attachment["share_id"])] == [("901", "901")]
    theatre.ask("DELETE", f"{DOOR}/{attachment['id']}")
    theatre.settle()
    assert [one[:2] for one in messages(theatre, attachment["share_id"])] == [("902", "902"), ("901", "901")]
    assert theatre.ask("GET", f"{DOOR}/{attachment['id']}")["attachment"]["attempts"] == 1
    theatre.nodes.bring_back(host(attachment))
    try_again(theatre)


def test_a_move_to_another_export_is_told_with_both(theatre, attachment):
    move_exports(theatre)
    reconciler(theatre).heal()
    theatre.settle()
    assert since(theatre, attachment["id"], 2) == [
        ("share.attachment.move.start", "remounting", None),
        ("share.attachment.move.end", "active", None),
    ]
    moved = told(theatre, attachment["id"])[-1]
    assert moved.payload["export_location"].startswith("10.0.9.10:")
    assert moved.payload["former_export_location"] == attachment["export_location"]


def test_a_move_that_waits_for_open_files_ends_in_one_error_and_one_message(theatre, attachment):
    theatre.nodes.hold(host(attachment), attachment["mount_point"], Holder(7, "tail -f log"))
    move_exports(theatre)
    reconciler(theatre).heal()
    theatre.settle()
    assert since(theatre, attachment["id"], 3) == [("share.attachment.move.error", "error", "StillOpen")]
    ((_, _, said),) = messages(theatre, attachment["share_id"])
    assert "process 7 (tail -f log)" in said
    for _ in range(2):
        try_again(theatre)
    assert since(theatre, attachment["id"], 4) == []
    assert len(messages(theatre, attachment["share_id"])) == 1
    cases.verify(theatre, attachment["id"])
    theatre.settle()
    asked = [
        ("share.attachment.mend.start", "attaching", "StillOpen"),
        ("share.attachment.mend.error", "error", "StillOpen"),
    ]
    assert since(theatre, attachment["id"], 4) == asked
    theatre.nodes.take_away(host(attachment))
    try_again(theatre)
    theatre.nodes.bring_back(host(attachment))
    theatre.nodes.hold(host(attachment), attachment["mount_point"], None)
    try_again(theatre)
    away = "MachineUnreachable"
    assert since(theatre, attachment["id"], 6) == [
        ("share.attachment.mend.error", "error", away),
        ("share.attachment.mend.start", "attaching", away),
        ("share.attachment.mend.end", "active", None),
    ]


def test_an_end_that_waits_for_open_files_is_told_once_and_when_it_comes(theatre, attachment):
    theatre.nodes.hold(host(attachment), attachment["mount_point"], Holder(7, "sleep 9"))
    cases.detach(theatre, attachment["id"])
    theatre.settle()
    first = [("share.detach.start", "detaching", None), ("share.detach.error", "error", "MountInUse")]
    assert since(theatre, attachment["id"], 2) == first
    for _ in range(2):
        try_again(theatre)
    assert since(theatre, attachment["id"], 4) == []
    theatre.nodes.hold(host(attachment), attachment["mount_point"], None)
    try_again(theatre)
    assert [one[:2] for one in since(theatre, attachment["id"], 4)] == [("share.detach.end", "detached")]


@pytest.mark.parametrize("how", ["away", "unmounted"])
def test_what_was_lost_is_told_and_that_it_is_well_again(theatre, attachment, how):
    if how == "away":
        theatre.nodes.take_away(host(attachment))
    else:
        theatre.nodes.forget(host(attachment), attachment["mount_point"])
    reconciler(theatre).verify()
    if how == "away":
        theatre.nodes.bring_back(host(attachment))
        try_again(theatre)
    theatre.settle()
    lost, *_, mended = since(theatre, attachment["id"], 2)
    assert lost[0] == "share.attachment.verify.error"
    assert lost[2] == {"away": "MachineUnreachable", "unmounted": "NotMounted"}[how]
    assert mended == ("share.attachment.mend.end", "active", None)


def test_a_server_that_vanished_is_told_before_its_share_is_let_go(theatre, attachment):
    with theatre.db.write() as tx:
        servers.delete(tx, attachment["server_id"])
    theatre.nodes.scrap(host(attachment))
    reconciler(theatre).verify()
    theatre.settle()
    assert since(theatre, attachment["id"], 2) == [
        ("share.attachment.verify.error", "active", "ServerGone"),
        ("share.detach.start", "detaching", None),
        ("share.detach.end", "detached", None),
    ]


def test_a_server_that_sleeps_and_wakes_is_told(theatre, attachment):
    set_status(theatre, attachment["server_id"], "SHUTOFF")
    reconciler(theatre).verify()
    set_status(theatre, attachment["server_id"], "ACTIVE")
    reconciler(theatre).wake()
    theatre.settle()
    assert since(theatre, attachment["id"], 2) == [
        ("share.attachment.stopped", "inactive", None),
        ("share.attachment.mend.start", "attaching", None),
        ("share.attachment.mend.end", "active", None),
    ]
