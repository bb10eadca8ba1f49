# SPDX-License-Identifier: Apache-2.0
"""Attaching through Abaca's own door, with machines on paper: what is accepted, refused, shared and taken back."""

import itertools

import msgspec
import pytest

from abaca.compute.contract import ServerUnreachable
from abaca.compute.inventory import Inventory
from abaca.db.attachments import servers
from tests.api import world as worlds
from tests.api.world import OTHER_PROJECT, PROJECT
from tests.conftest import wait_until

NUMBERS = itertools.count(1)
NEWEST = {"x-openstack-manila-api-version": worlds.NEWEST}
DOOR = "//abaca/v1/attachments"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with worlds.world(tmp_path_factory.mktemp("attachments"), worker=True) as made:
        specs = {"driver_handles_share_servers": "False"}
        made.ask("admin", "POST", "/types", {"share_type": {"name": "default", "extra_specs": specs}}, **NEWEST)
        yield made


def server(world, *ips, project_id=PROJECT):
    number = next(NUMBERS)
    ips = ips or (f"10.8.{number // 250}.{number % 250 + 1}",)
    values = {"name": f"m{number}", "project_id": project_id, "user_id": None, "status": "ACTIVE", "metadata": {}}
    way_in = {
        "ssh_user": "root",
        "ssh_port": 22,
        "ssh_host": f"m{number}",
        "host_key": "ssh-ed25519 AAAA",
        "key": "file:/k",
    }
    with world.db.write() as tx:
        return servers.create(tx, {**values, **way_in}, [(ip, "default") for ip in ips])


def share(world, who="member", proto="NFS"):
    wish = {"share": {"share_proto": proto, "size": 1}}
    share_id = world.ask(who, "POST", "/shares", wish, **NEWEST).body["share"]["id"]
    world.settle()
    return share_id


def attach(world, share_id, server_id, who="member", **more):
    return world.ask(who, "POST", DOOR, {"attachment": {"share_id": share_id, "server_id": server_id, **more}})


def said(answer):
    """Why it was refused, at whichever door."""
    (refusal,) = answer.body.values()
    return refusal["message"]


def attached(world, share_id, server_id, **more):
    answer = attach(world, share_id, server_id, **more)
    assert answer.status == 202, answer
    return until(world, answer.body["attachment"]["id"], "active")


def shown(world, attachment_id):
    return world.ask("member", "GET", f"{DOOR}/{attachment_id}").body["attachment"]


def until(world, attachment_id, state):
    def there():
        found = shown(world, attachment_id)
        return found if found["state"] == state else None

    return wait_until(there)


def until_gone(world, attachment_id):
    wait_until(lambda: world.ask("member", "GET", f"{DOOR}/{attachment_id}").status == 404)
    world.settle()


def rules(world, share_id):
    answer = world.ask("member", "GET", f"/share-access-rules?share_id={share_id}", **NEWEST)
    return {rule["access_to"]: (rule["access_level"], rule["state"]) for rule in answer.body["access_list"]}


def test_a_share_is_attached_seen_and_detached_without_a_trace(world):
    share_id, server_id = share(world), server(world, "10.8.200.1", "fd77::1")
    answer = attach(world, share_id, server_id)
    assert answer.status == 202
    accepted = answer.body["attachment"]
    assert (accepted["state"], accepted["mount_point"]) == ("attaching", f"/mnt/{share_id}")
    found = until(world, accepted["id"], "active")
    assert found["export_location"].startswith("10.0.0.10:/")
    assert found["last_verified_at"]
    assert (found["mode"], found["access_level"], found["error"]) == ("network", "rw", None)
    # the back end serves IPv4
    assert rules(world, share_id) == {"10.8.200.1": ("rw", "active")}
    assert world.ask("member", "DELETE", f"{DOOR}/{accepted['id']}").status == 202
    until_gone(world, accepted["id"])
    assert rules(world, share_id) == {}
    assert world.ask("member", "DELETE", f"/shares/{share_id}", **NEWEST).status == 202


def test_many_servers_are_attached_in_one_request_and_refused_one_by_one(world):
    share_id = share(world)
    good = [server(world) for _ in range(8)]
    attached(world, share_id, good[0])
    wish = {"share_id": share_id, "server_ids": [*good, "no-such-server"], "mount_point": "/srv/data"}
    answer = world.ask("member", "POST", DOOR, {"attachment": wish})
    assert answer.status == 202
    assert {one["server_id"] for one in answer.body["attachments"]} == set(good[1:])
    assert {one["server_id"]: one["code"] for one in answer.body["refused"]} == {good[0]: 409, "no-such-server": 404}
    world.settle()
    listed = world.ask("member", "GET", f"{DOOR}?share_id={share_id}&limit=100").body["attachments"]
    assert {one["state"] for one in listed} == {"active"}
    assert len(listed) == 8
    assert len(rules(world, share_id)) == 8


def test_the_rules_of_a_share_are_not_read_for_each_of_many_servers(world):
    def looks(number):
        wish = {"share_id": share(world), "server_ids": [server(world) for _ in range(number)]}
        said = []
        writer = world.db._writer.raw_connection()
        writer.driver_connection.set_trace_callback(said.append)
        writer.close()
        assert world.ask("member", "POST", DOOR, {"attachment": wish}).status == 202
        writer = world.db._writer.raw_connection()
        writer.driver_connection.set_trace_callback(None)
        writer.close()
        return sum("FROM access_rules" in one and one.startswith("SELECT") for one in said)

    assert 0 < looks(3) == looks(12)


def test_a_rule_is_shared_raised_and_goes_with_the_last_who_needs_it(world):
    share_id = share(world)
    first, second = server(world, "10.8.201.1"), server(world, "10.8.201.1")
    one = attached(world, share_id, first, access_level="ro")
    assert rules(world, share_id) == {"10.8.201.1": ("ro", "active")}
    two = attached(world, share_id, second)
    world.settle()
    assert rules(world, share_id) == {"10.8.201.1": ("rw", "active")}
    world.ask("member", "DELETE", f"{DOOR}/{two['id']}")
    until_gone(world, two["id"])
    assert rules(world, share_id) == {"10.8.201.1": ("ro", "active")}
    world.ask("member", "DELETE", f"{DOOR}/{one['id']}")
    until_gone(world, one["id"])
    assert rules(world, share_id) == {}


def test_a_rule_that_a_user_made_is_used_and_left_alone(world):
    share_id, server_id = share(world), server(world, "10.8.202.1")
    allow = {"allow_access": {"access_type": "ip", "access_to": "10.8.202.1"}}
    world.ask("member", "POST", f"/shares/{share_id}/action", allow, **NEWEST)
    world.settle()
    found = attached(world, share_id, server_id)
    world.ask("member", "DELETE", f"{DOOR}/{found['id']}")
    until_gone(world, found["id"])
    assert rules(world, share_id) == {"10.8.202.1": ("rw", "active")}


@pytest.mark.parametrize("others", [(), ("10.8.203.2",)], ids=["its only address", "one of its addresses"])
def test_a_users_rule_that_gives_too_little_is_named_in_the_error(world, others):
    share_id, server_id = share(world), server(world, "10.8.203.1", *others)
    allow = {"allow_access": {"access_type": "ip", "access_to": "10.8.203.1", "access_level": "ro"}}
    rule = world.ask("member", "POST", f"/shares/{share_id}/action", allow, **NEWEST).body["access"]
    world.settle()
    found = until(world, attach(world, share_id, server_id).body["attachment"]["id"], "error")
    assert found["error"]["code"] == "Refused"
    assert rule["id"] in found["error"]["message"]
    assert found["error"]["mend"]
    assert found["next_try_at"]


def test_a_users_rule_that_gives_enough_after_all_lets_the_attachment_go_on_at_once(world):
    share_id, server_id = share(world), server(world, "10.8.205.1")
    rule = allow(world, share_id, "10.8.205.1", "ro").body["access"]
    world.settle()
    found = until(world, attach(world, share_id, server_id).body["attachment"]["id"], "error")
    change = {"update_access": {"access_level": "rw"}}
    assert world.ask("member", "PUT", f"/share-access-rules/{rule['id']}", change, **NEWEST).status == 200
    assert shown(world, found["id"])["next_try_at"] < found["next_try_at"]


def test_a_user_who_wants_the_rule_of_attachments_reads_who_has_it(world):
    share_id, server_id = share(world), server(world, "10.8.206.1")
    found = attached(world, share_id, server_id, access_level="ro")
    for spelling in ("10.8.206.1", "10.8.206.1/32"):
        answer = allow(world, share_id, spelling)
        assert answer.status == 400
        told = said(answer)
        assert "10.8.206.1 (ro) exists already" in told
        assert f"attachments, {found['id']} (server {server_id})" in told
        assert f"GET {DOOR[1:]}?share_id={share_id}" in told
    assert rules(world, share_id) == {"10.8.206.1": ("ro", "active")}


@pytest.mark.parametrize("spelling", ["10.8.207.1", "10.8.207.1/32"])
def test_attachments_get_a_rule_of_their_own_when_a_user_takes_his_away(world, spelling):
    share_id, server_id = share(world), server(world, "10.8.207.1")
    rule = allow(world, share_id, spelling).body["access"]
    world.settle()
    found = attached(world, share_id, server_id)
    assert rules(world, share_id) == {spelling: ("rw", "active")}
    assert deny(world, share_id, rule["id"]).status == 202
    assert world.ask("member", "GET", f"/share-access-rules/{rule['id']}", **NEWEST).status == 404
    world.settle()
    assert rules(world, share_id) == {"10.8.207.1": ("rw", "active")}
    assert shown(world, found["id"])["state"] == "active"
    world.ask("member", "DELETE", f"{DOOR}/{found['id']}")
    until_gone(world, found["id"])
    assert rules(world, share_id) == {}


def test_a_users_rule_by_which_attachments_write_does_not_become_read_only(world):
    share_id, server_id = share(world), server(world, "10.8.208.1")
    rule = allow(world, share_id, "10.8.208.1").body["access"]
    world.settle()
    found = attached(world, share_id, server_id)
    change = {"update_access": {"access_level": "ro"}}
    answer = world.ask("member", "PUT", f"/share-access-rules/{rule['id']}", change, **NEWEST)
    assert answer.status == 409
    assert found["id"] in said(answer)
    world.ask("member", "DELETE", f"{DOOR}/{found['id']}")
    until_gone(world, found["id"])
    assert world.ask("member", "PUT", f"/share-access-rules/{rule['id']}", change, **NEWEST).status == 200


def allow(world, share_id, to, level="rw"):
    body = {"allow_access": {"access_type": "ip", "access_to": to, "access_level": level}}
    return world.ask("member", "POST", f"/shares/{share_id}/action", body, **NEWEST)


def deny(world, share_id, rule_id):
    body = {"deny_access": {"access_id": rule_id}}
    return world.ask("member", "POST", f"/shares/{share_id}/action", body, **NEWEST)


def test_a_rule_of_attachments_cannot_be_taken_away_by_hand(world):
    share_id, server_id = share(world), server(world, "10.8.204.1")
    attached(world, share_id, server_id)
    rule = world.ask("member", "GET", f"/share-access-rules?share_id={share_id}", **NEWEST).body["access_list"][0]
    deny = {"deny_access": {"access_id": rule["id"]}}
    answer = world.ask("member", "POST", f"/shares/{share_id}/action", deny, **NEWEST)
    assert answer.status == 403
    assert "detach" in said(answer)
    change = {"update_access": {"access_level": "ro"}}
    assert world.ask("member", "PUT", f"/share-access-rules/{rule['id']}", change, **NEWEST).status == 403


def test_an_attached_share_is_not_deleted_until_it_is_forced(world):
    share_id, server_id = share(world), server(world)
    found = attached(world, share_id, server_id)
    answer = world.ask("member", "DELETE", f"/shares/{share_id}", **NEWEST)
    assert answer.status == 403, "clients repeat what is answered 409 for minutes, without a word"
    assert found["id"] in said(answer)
    for version in ("2.0", "2.7"):
        old = {"x-openstack-manila-api-version": version}
        assert world.ask("member", "DELETE", f"/shares/{share_id}", **old).status == 403
    soft = world.ask("member", "POST", f"/shares/{share_id}/action", {"soft_delete": None}, **NEWEST)
    assert soft.status == 403
    forced = world.ask("admin", "POST", f"/shares/{share_id}/action", {"force_delete": None}, **NEWEST)
    assert forced.status == 202
    until_gone(world, found["id"])
    wait_until(lambda: world.ask("member", "GET", f"/shares/{share_id}", **NEWEST).status == 404)


def test_an_attached_share_goes_with_its_last_instance_by_force(world):
    share_id = share(world)
    found = attached(world, share_id, server(world))
    listed = world.ask("admin", "GET", f"/shares/{share_id}/instances", **NEWEST).body["share_instances"]
    path = f"/share_instances/{listed[0]['id']}/action"
    assert world.ask("admin", "POST", path, {"force_delete": None}, **NEWEST).status == 202
    until_gone(world, found["id"])
    wait_until(lambda: world.ask("member", "GET", f"/shares/{share_id}", **NEWEST).status == 404)


def test_verifying_looks_again(world):
    share_id, server_id = share(world), server(world)
    before = attached(world, share_id, server_id)
    answer = world.ask("member", "POST", f"{DOOR}/{before['id']}/verify")
    assert answer.status == 202
    assert answer.body["attachment"]["state"] == "active", "what is well stays so"
    wait_until(lambda: shown(world, before["id"])["last_verified_at"] > before["last_verified_at"])
    assert shown(world, before["id"])["state"] == "active"


def test_the_same_twice_is_a_conflict_that_names_the_first(world):
    one, two, server_id = share(world), share(world), server(world)
    first = attached(world, one, server_id, mount_point="/srv/x", tag="mine")
    for answer in (
        attach(world, one, server_id, mount_point="/srv/y"),
        attach(world, two, server_id, mount_point="/srv/x"),
        attach(world, two, server_id, mount_point="/srv/y", tag="mine"),
    ):
        assert answer.status == 409
        assert first["id"] in said(answer)


@pytest.mark.parametrize(("first", "second"), [("/srv/a", "/srv/a/b/c"), ("/srv/a/b/c", "/srv/a")])
def test_a_place_within_another_is_refused_by_all_doors(world, first, second):
    one, two, server_id, free = share(world), share(world), server(world), server(world)
    found = attached(world, one, server_id, mount_point=first)
    action = {"share_attach": {"share_id": two, "mount_point": second}}
    many = {"share_id": two, "server_ids": [server_id, free], "mount_point": second}
    for answer in (
        attach(world, two, server_id, mount_point=second),
        world.ask("member", "POST", f"//compute/v2.1/servers/{server_id}/action", action),
    ):
        assert answer.status == 409
        assert f"at {first}: attachment {found['id']}" in said(answer)
    answer = world.ask("member", "POST", DOOR, {"attachment": many})
    assert [made["server_id"] for made in answer.body["attachments"]] == [free]
    assert [refused["code"] for refused in answer.body["refused"]] == [409]
    assert attach(world, two, server_id, mount_point=f"{first}x").status == 202, "beside it there is room"
    world.settle()


BAD = [
    ({"mount_point": path}, 400)
    for path in ("mnt/x", "/mnt/../etc", "/etc", "/mnt/a b", "/mnt/a;b", "/mnt/$(id)", "/mnt/'x'", '/mnt/"', "/", "")
]
BAD += [
    ({"tag": "a b"}, 400),
    ({"access_level": "rwx"}, 400),
    ({"acces_level": "ro"}, 400),
    ({"mode": "virtiofs"}, 409),
    ({"mode": "teleport"}, 400),
    ({"server_ids": ["x"]}, 400),
    ({"server_id": None}, 400),
    ({"server_id": "nobody"}, 404),
    ({"share_id": "nothing"}, 404),
    ({"mount_point": 7}, 400),
    ({"mount_point": "/mnt/a\nb"}, 400),
]


@pytest.mark.parametrize(("wrong", "status"), BAD, ids=str)
def test_bad_input_is_refused_and_changes_nothing(world, wrong, status):
    wish = {"share_id": share_of(world), "server_id": server_of(world), **wrong}
    before = world.number("SELECT count(*) FROM attachments")
    answer = world.ask("member", "POST", DOOR, {"attachment": wish})
    assert answer.status == status, answer
    assert world.number("SELECT count(*) FROM attachments") == before
    assert rules(world, share_of(world)) == {}


@pytest.mark.parametrize("path", ["/usr/local/sbin", "/root/.ssh", "/home/ann/.ssh", "/var/lib/systemd", "/opt/x"])
def test_members_mount_only_where_they_cannot_become_root_and_administrators_elsewhere(world, path):
    share_id, server_id = share(world), server(world)
    action = {"share_attach": {"share_id": share_id, "mount_point": path}}
    before = world.number("SELECT count(*) FROM attachments")
    for answer in (
        attach(world, share_id, server_id, mount_point=path),
        world.ask("member", "POST", f"//compute/v2.1/servers/{server_id}/action", action),
    ):
        assert answer.status == 400
        assert "below /data, /media, /mnt, /srv, /net or /home/<user>" in said(answer)
    assert world.number("SELECT count(*) FROM attachments") == before
    assert rules(world, share_id) == {}
    assert attach(world, share_id, server_id, who="admin", mount_point=path).status == 202
    world.settle()


def test_of_many_servers_those_whose_operator_allows_the_place_are_attached(world):
    share_id, one, two = share(world), server(world), server(world)
    nodes = msgspec.structs.replace(world.settings.nodes, mount_roots=(f"{two}:/opt/apps",))
    wish = {"share_id": share_id, "server_ids": [one, two], "mount_point": "/opt/apps/x"}
    there = world.serving_by(world.settings.changed(nodes=nodes))
    answer = there.ask("member", "POST", DOOR, {"attachment": wish})
    assert [found["server_id"] for found in answer.body["attachments"]] == [two]
    assert [(refused["server_id"], refused["code"]) for refused in answer.body["refused"]] == [(one, 400)]
    until(world, answer.body["attachments"][0]["id"], "active")


class CellAway(Inventory):
    """Servers of which some are in a cell that a Nova does not reach."""

    away = ()

    def show(self, server_id):
        if server_id in self.away:
            raise ServerUnreachable(id=server_id, reason="its cell is away")
        return super().show(server_id)


def test_a_server_whose_cell_is_away_fails_no_attachment_of_others(world):
    share_id, one, two = share(world), server(world), server(world)
    compute = CellAway(world.db)
    compute.away = (one,)
    there = world.serving_by(world.settings, compute)
    answer = there.ask("member", "POST", DOOR, {"attachment": {"share_id": share_id, "server_ids": [one, two]}})
    assert [made["server_id"] for made in answer.body["attachments"]] == [two]
    assert [(refused["server_id"], refused["code"]) for refused in answer.body["refused"]] == [(one, 503)]
    assert attach(there, share_id, one).status == 503
    until(world, answer.body["attachments"][0]["id"], "active")


def share_of(world):
    if not hasattr(world, "spare_share"):
        world.spare_share = share(world)
    return world.spare_share


def server_of(world):
    if not hasattr(world, "spare_server"):
        world.spare_server = server(world)
    return world.spare_server


def test_shares_and_servers_of_others_are_not_there(world):
    mine, theirs = share(world), share(world, who="other")
    assert attach(world, mine, server(world, project_id=OTHER_PROJECT)).status == 404
    assert attach(world, theirs, server(world)).status == 404
    found = attached(world, mine, server(world))
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/verify")):
        assert world.ask("other", method, f"{DOOR}/{found['id']}{path}").status == 404
    assert world.ask("other", "GET", DOOR).body["attachments"] == []


def test_a_server_with_attachments_does_not_go_to_another_project(world):
    share_id, server_id = share(world), server(world)
    found = attached(world, share_id, server_id)
    path, elsewhere = f"//abaca/v1/servers/{server_id}", {"server": {"project_id": OTHER_PROJECT}}
    answer = world.ask("admin", "PUT", path, elsewhere)
    assert answer.status == 409
    assert found["id"] in said(answer)
    same = {"server": {"project_id": PROJECT, "description": "stays"}}
    assert world.ask("admin", "PUT", path, same).status == 200
    world.ask("member", "DELETE", f"{DOOR}/{found['id']}")
    until_gone(world, found["id"])
    assert world.ask("admin", "PUT", path, elsewhere).status == 200


def test_what_stands_beside_the_attachment_is_not_passed_over(world):
    share_id, server_id = share(world), server(world)
    wish = {"attachment": {"share_id": share_id, "server_id": server_id}, "access_level": "ro"}
    answer = world.ask("member", "POST", DOOR, wish)
    assert answer.status == 400
    assert "access_level" in said(answer)
    assert world.ask("member", "GET", f"{DOOR}?share_id={share_id}").body["attachments"] == []


def test_a_protocol_that_no_machine_mounts_is_a_conflict(world):
    assert attach(world, share(world, proto="CIFS"), server(world)).status == 409


def test_a_server_without_an_address_that_the_back_end_lets_in_is_a_conflict(world):
    answer = attach(world, share(world), server(world, "fd77::9"))
    assert answer.status == 409
    assert "IPv4" in said(answer)


def test_how_to_mount_by_oneself_is_ready_to_be_copied(world):
    share_id, server_id = share(world), server(world, "10.8.210.1")
    path = f"//abaca/v1/shares/{share_id}/connect"
    said = world.ask("reader", "GET", f"{path}?server={server_id}&os=fedora&mount_point=/srv/x-y").body["connect"]
    source = said["export_location"]
    assert (
        said["commands"][-1] == f"mount -t nfs4 -o rw,vers=4.2,hard,timeo=600,retrans=2,nosuid,nodev {source} /srv/x-y"
    )
    assert said["fstab"].startswith(f"{source} /srv/x-y nfs4 ")
    assert said["systemd"]["name"] == "srv-x\\x2dy.mount"
    assert "kind: PersistentVolume" in said["kubernetes"]
    assert said["not_let_in"] == ["10.8.210.1"]
    allow = {"allow_access": {"access_type": "ip", "access_to": "10.8.210.0/24"}}
    world.ask("member", "POST", f"/shares/{share_id}/action", allow, **NEWEST)
    world.settle()
    assert world.ask("member", "GET", f"{path}?server={server_id}").body["connect"]["not_let_in"] == []
    narrow = {**allow["allow_access"], "access_to": "10.8.210.1", "access_level": "ro"}
    world.ask("member", "POST", f"/shares/{share_id}/action", {"allow_access": narrow}, **NEWEST)
    world.settle()
    for level, not_let_in in (("ro", []), ("rw", ["10.8.210.1"])):
        said = world.ask("member", "GET", f"{path}?server={server_id}&access_level={level}").body["connect"]
        assert said["not_let_in"] == not_let_in
    for query, status in (
        ("os=plan9", 400),
        ("mount_point=/etc", 400),
        ("access_level=x", 400),
        ("server=nobody", 404),
    ):
        assert world.ask("member", "GET", f"{path}?{query}").status == status
    assert world.ask("other", "GET", path).status == 404
