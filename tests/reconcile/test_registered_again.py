# SPDX-License-Identifier: Apache-2.0
"""A machine that was removed with its shares on it, and registered again: what is known to be ours is taken over."""

from tests.operations import cases
from tests.reconcile.test_attachments import DOOR, host, shown


def removed(theatre, attachment):
    """The server is forgotten, and with it the attachment; the machine keeps what it has."""
    theatre.world.ask("admin", "DELETE", f"//abaca/v1/servers/{attachment['server_id']}")
    theatre.settle()
    assert theatre.ask("GET", DOOR)["attachments"] == []


def mounted(theatre):
    return [(line["name"], line["source"]) for line in theatre.nodes.tables().values()]


def test_the_same_share_is_attached_where_it_is_still_mounted(theatre, attachment):
    removed(theatre, attachment)
    again = cases.a_server(theatre, host(attachment))
    made = cases.attach(theatre, (attachment["share_id"], again))
    theatre.settle()
    assert (shown(theatre, made)["state"], shown(theatre, made)["error"]) == ("active", None)
    assert mounted(theatre) == [(made, attachment["export_location"])]
    cases.detach(theatre, made)
    theatre.settle()
    assert mounted(theatre) == []


def test_another_share_does_not_take_its_place(theatre, attachment):
    removed(theatre, attachment)
    wish = {"share_id": cases.a_share(theatre), "server_id": cases.a_server(theatre, host(attachment))}
    body = {"attachment": {**wish, "mount_point": attachment["mount_point"]}}
    made = theatre.ask("POST", DOOR, body)["attachment"]["id"]
    theatre.settle()
    refused = shown(theatre, made)["error"]
    assert refused["code"] == "MountRefused"
    assert f"belongs to the attachment {attachment['id']}" in refused["message"]
    assert mounted(theatre) == [(attachment["id"], attachment["export_location"])]
    theatre.nodes.scrap(host(attachment))


def test_nothing_is_taken_from_a_machine_that_is_registered_twice(theatre, attachment):
    twin = cases.a_server(theatre, host(attachment), name="the same by another name")
    made = cases.attach(theatre, (attachment["share_id"], twin))
    theatre.settle()
    assert f"belongs to the attachment {attachment['id']}" in shown(theatre, made)["error"]["message"]
    assert mounted(theatre) == [(attachment["id"], attachment["export_location"])]
    cases.detach(theatre, made)
    theatre.settle()
    assert mounted(theatre) == [(attachment["id"], attachment["export_location"])]
