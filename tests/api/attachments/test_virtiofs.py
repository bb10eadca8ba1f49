# SPDX-License-Identifier: Apache-2.0
"""Attaching to guests by their hypervisors, with machines on paper: who is let in, and what cannot be taken away."""

import pytest

from abaca.db.attachments import servers
from tests.api import world as worlds
from tests.api.attachments.test_attachments import DOOR, NEWEST, attach, attached, rules, server, share, until_gone
from tests.api.world import PROJECT

SERVERS = "//abaca/v1/servers"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with worlds.world(tmp_path_factory.mktemp("virtiofs"), worker=True) as made:
        specs = {"driver_handles_share_servers": "False"}
        made.ask("admin", "POST", "/types", {"share_type": {"name": "default", "extra_specs": specs}}, **NEWEST)
        yield made


def guest(world, name, hypervisor_id):
    values = {"name": name, "project_id": PROJECT, "user_id": None, "status": "ACTIVE", "metadata": {}}
    way_in = {"ssh_user": "root", "ssh_port": 22, "hypervisor_id": hypervisor_id, "qmp_socket": f"/run/{name}.qmp"}
    with world.db.write() as tx:
        return servers.create(tx, {**values, **way_in}, [("192.168.7.7", "inside")])


def test_the_hypervisor_is_let_in_for_all_its_guests_and_neither_goes_meanwhile(world):
    share_id, host = share(world), server(world, "10.8.220.1", project_id="operators")
    guests = [guest(world, f"guest-{number}", host) for number in range(2)]
    found = [attached(world, share_id, one, mode="virtiofs") for one in guests]
    assert [(one["mode"], one["tag"]) for one in found] == [("virtiofs", share_id)] * 2
    assert rules(world, share_id) == {"10.8.220.1": ("rw", "active")}
    for server_id in (host, guests[0]):
        assert world.ask("admin", "DELETE", f"{SERVERS}/{server_id}").status == 409
    elsewhere = {"server": {"hypervisor_id": None, "qmp_socket": None}}
    assert world.ask("admin", "PUT", f"{SERVERS}/{guests[0]}", elsewhere).status == 409
    for one in found:
        world.ask("member", "DELETE", f"{DOOR}/{one['id']}")
        until_gone(world, one["id"])
    assert rules(world, share_id) == {}
    assert [world.ask("admin", "DELETE", f"{SERVERS}/{one}").status for one in (*guests, host)] == [204, 204, 204]


def test_many_guests_are_handed_a_share_in_one_request_and_those_without_a_hypervisor_are_named(world):
    share_id, hosts = share(world), [server(world, f"10.8.221.{number}") for number in (1, 2)]
    guests = [guest(world, f"many-{number}", hosts[number % 2]) for number in range(6)]
    alone = server(world)
    wish = {"share_id": share_id, "server_ids": [*guests, alone, "nobody"], "mode": "virtiofs", "tag": "data"}
    answer = world.ask("member", "POST", DOOR, {"attachment": wish})
    assert answer.status == 202
    assert {one["server_id"]: one["code"] for one in answer.body["refused"]} == {alone: 409, "nobody": 404}
    world.settle()
    listed = world.ask("member", "GET", f"{DOOR}?mode=virtiofs&share_id={share_id}").body["attachments"]
    assert {one["server_id"]: (one["tag"], one["state"]) for one in listed} == dict.fromkeys(guests, ("data", "active"))
    assert set(rules(world, share_id)) == {"10.8.221.1", "10.8.221.2"}
    assert world.ask("member", "GET", f"{DOOR}?mode=network&share_id={share_id}").body["attachments"] == []


def test_a_tag_stands_for_one_share_on_a_server(world):
    one = guest(world, "twice", server(world))
    attached(world, share(world), one, mode="virtiofs", tag="data", mount_point="/mnt/a")
    answer = attach(world, share(world), one, mode="virtiofs", tag="data", mount_point="/mnt/b")
    assert answer.status == 409
    assert "under the tag data" in answer.body["error"]["message"]


def test_a_server_without_a_hypervisor_is_told_so(world):
    answer = attach(world, share(world), server(world), mode="virtiofs")
    assert answer.status == 409
    assert "hypervisor" in answer.body["error"]["message"]


def test_a_tag_that_is_too_long_for_the_device_is_refused(world):
    one = guest(world, "tagged", server(world))
    assert attach(world, share(world), one, mode="virtiofs", tag="x" * 37).status == 400


@pytest.mark.parametrize(
    "said",
    [
        {"hypervisor_id": "nobody", "qmp_socket": "/run/a.qmp"},
        {"qmp_socket": "/run/a.qmp"},
        {"qmp_socket": "run/a.qmp"},
        {"qmp_socket": "/run/../etc/a"},
        {"qmp_socket": "/run/a b"},
        {"qmp_socket": "/run/$(id)"},
        {"qmp_socket": "/" + "x" * 107},
        {"hypervisor_id": 7},
    ],
    ids=str,
)
def test_a_way_to_a_guest_that_is_none_is_refused(world, said):
    one = server(world)
    answer = world.ask("admin", "PUT", f"{SERVERS}/{one}", {"server": said})
    assert answer.status == 400, answer
    assert world.ask("admin", "GET", f"{SERVERS}/{one}").body["server"]["hypervisor_id"] is None


def test_guests_of_guests_are_refused_and_users_do_not_see_where_a_guest_runs(world):
    one = guest(world, "first", server(world))
    two = server(world)
    said = {"server": {"hypervisor_id": one, "qmp_socket": "/run/a.qmp"}}
    assert world.ask("admin", "PUT", f"{SERVERS}/{two}", said).status == 400
    said["server"]["hypervisor_id"] = two
    assert world.ask("admin", "PUT", f"{SERVERS}/{two}", said).status == 400
    assert "qmp_socket" not in world.ask("member", "GET", f"{SERVERS}/{one}").body["server"]
