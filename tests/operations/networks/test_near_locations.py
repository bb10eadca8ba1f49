# SPDX-License-Identifier: Apache-2.0
"""What is attached is mounted from the server's own subnet, and moves there when the share server comes to it."""

import contextlib

import pytest

from abaca.db.attachments import attachments
from abaca.nodes.contract import Holder
from tests.operations import cases
from tests.operations.networks.test_share_servers import a_theatre, exports, made
from tests.reconcile.test_attachment_events import heard
from tests.reconcile.test_attachments import host, reconciler, shown


@pytest.fixture
def theatre(database, tmp_path):
    with contextlib.ExitStack() as stack:
        yield a_theatre(database, tmp_path, stack)


def a_far_attachment(theatre):
    """A share network with one subnet, and a share of it on a machine of another; the ids."""
    network_id = cases.a_share_network(theatre)
    share_id = made(theatre, network_id)["id"]
    attachment_id = cases.until_attached(theatre, cases.attach(theatre, (share_id, cases.a_wide_server(theatre))))
    found = shown(theatre, attachment_id)
    assert found["export_location"].startswith("10.20.0.")
    return network_id, found


def come_near(theatre, network_id):
    """The share server gets an address on the machine's subnet."""
    cases.checked(theatre, network_id)
    cases.add_subnet(theatre, network_id)
    theatre.settle()


def doubt(theatre, attachment_id):
    """Nobody has looked at it for ages."""
    with theatre.db.write() as tx:
        attachments.doubt(tx, [attachment_id])


def look(theatre):
    """At what was not seen for ten minutes, as workers do; how many there were."""
    seen = reconciler(theatre, verify_interval_s=600).verify()
    theatre.settle()
    return seen


def test_what_is_attached_moves_to_the_subnet_of_its_server_when_that_comes(theatre):
    network_id, attachment = a_far_attachment(theatre)
    assert look(theatre) == 0
    come_near(theatre, network_id)
    assert look(theatre) == 1, "nobody waits for the next look"
    after = shown(theatre, attachment["id"])
    assert (after["state"], after["export_location"][:6]) == ("active", "[fd20:")
    assert look(theatre) == 0


def test_open_files_keep_it_where_it_is_and_nothing_is_wrong_with_that(theatre):
    network_id, attachment = a_far_attachment(theatre)
    theatre.nodes.hold(host(attachment), attachment["mount_point"], Holder(7, "tail -f log"))
    come_near(theatre, network_id)
    assert look(theatre) == 1
    stays = shown(theatre, attachment["id"])
    assert (stays["state"], stays["error"]) == ("active", None)
    assert stays["export_location"] == attachment["export_location"]
    (sheet,) = theatre.nodes.tables().values()
    assert sheet["source"] == attachment["export_location"]
    theatre.nodes.hold(host(attachment), attachment["mount_point"], None)
    theatre.ask("POST", f"//abaca/v1/attachments/{attachment['id']}/verify")
    theatre.settle()
    assert shown(theatre, attachment["id"])["export_location"].startswith("[fd20:")


def test_a_move_that_waits_for_open_files_is_told_when_it_begins_and_when_it_ends(theatre):
    network_id, attachment = a_far_attachment(theatre)
    theatre.nodes.hold(host(attachment), attachment["mount_point"], Holder(7, "tail -f log"))
    come_near(theatre, network_id)
    told = lambda: [one[0] for one in heard(theatre, attachment["id"]) if ".move." in one[0]]  # noqa: E731
    for _ in range(3):
        assert look(theatre) == 1
        doubt(theatre, attachment["id"])
    assert told() == ["share.attachment.move.start", "share.attachment.move.end"]
    theatre.nodes.hold(host(attachment), attachment["mount_point"], None)
    assert look(theatre) == 1
    assert told()[2:] == ["share.attachment.move.end"]
    assert shown(theatre, attachment["id"])["export_location"].startswith("[fd20:")


def test_a_machine_elsewhere_stays_where_it_is(theatre):
    network_id, _ = a_far_attachment(theatre)
    (share,) = theatre.ask("GET", "/shares")["shares"]
    other = cases.until_attached(theatre, cases.attach(theatre, (share["id"], cases.a_server(theatre, "10.9.9.9"))))
    come_near(theatre, network_id)
    assert look(theatre) == 1
    assert shown(theatre, other)["export_location"].startswith("10.20.0.")


def test_a_new_attachment_and_instructions_for_people_choose_the_near_one(theatre):
    network_id = cases.a_share_network(theatre)
    theatre.ask("POST", f"/share-networks/{network_id}/subnets", {"share-network-subnet": cases.FIELDS})
    share_id = made(theatre, network_id)["id"]
    assert len(exports(theatre, share_id)) == 2
    server_id = cases.a_wide_server(theatre)
    told = theatre.ask("GET", f"//abaca/v1/shares/{share_id}/connect?server={server_id}")["connect"]
    assert told["export_location"].startswith("[fd20:")
    neighbour = cases.a_server(theatre, "10.20.0.200")
    told = theatre.ask("GET", f"//abaca/v1/shares/{share_id}/connect?server={neighbour}")["connect"]
    assert told["export_location"].startswith("10.20.0.")
    attachment_id = cases.until_attached(theatre, cases.attach(theatre, (share_id, server_id)))
    assert shown(theatre, attachment_id)["export_location"].startswith("[fd20:")
