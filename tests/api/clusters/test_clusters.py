# SPDX-License-Identifier: Apache-2.0
"""Clusters through Abaca's own door, with machines on paper: made, changed, scaled, deleted, and what is refused."""

import msgspec

from abaca.compute.contract import ComputeUnreachable
from abaca.compute.inventory import Inventory
from abaca.db.attachments import servers
from abaca.db.clusters import clusters
from abaca.db.shares.share_instances import RULES_KIND
from abaca.db.tables.shares import shares
from abaca.nodes.rehearsal import Rehearsal
from abaca.operations.clusters import cluster_selecting
from tests import planting
from tests.api.clusters.asking import (
    DOOR,
    NEWEST,
    attachments,
    changed,
    made,
    on_nodes,
    refused,
    rules,
    server,
    share,
    shown,
    until,
    until_said,
    until_shown,
    wish,
)
from tests.api.world import OTHER_PROJECT, PROJECT
from tests.conftest import wait_until


def test_shares_are_on_every_node_and_go_with_the_cluster(world):
    one, two = share(world), share(world)
    names = [f"node{number:03}" for number in range(1, 4)]
    ids = [server(world, name=name) for name in names]
    found = made(
        world, servers=["node[001-003]"], shares=[{"id": one}, {"id": two, "path": "/srv/data", "access_level": "ro"}]
    )
    assert (found["nodes"], found["node_states"]) == (3, {"ready": 3})
    on_each = {f"/mnt/{one}": (one, "rw"), "/srv/data": (two, "ro")}
    assert on_nodes(world, found["id"]) == dict.fromkeys(ids, ("ready", on_each))
    assert len(rules(world, one)) == 3
    assert {one["cluster_id"] for one in attachments(world, share_id=one)} == {found["id"]}
    others = server(world, name="other")
    world.ask("member", "POST", "//abaca/v1/attachments", {"attachment": {"share_id": one, "server_id": others}})
    world.settle()
    assert world.ask("member", "DELETE", f"{DOOR}/{found['id']}").status == 202
    wait_until(lambda: world.ask("member", "GET", f"{DOOR}/{found['id']}").status == 404, 30)
    world.settle()
    assert [one["server_id"] for one in attachments(world, share_id=one)] == [others]
    assert attachments(world, share_id=two) == []
    assert len(rules(world, one)) == 1
    assert rules(world, two) == {}


def test_what_is_changed_is_a_difference(world):
    one, two = share(world), share(world)
    ids = [server(world) for _ in range(2)]
    cluster_id = made(world, servers=ids, shares=[{"id": one}])["id"]
    kept = {row["id"]: row["created_at"] for row in attachments(world, share_id=one)}
    changed(world, cluster_id, add_shares=[{"id": two, "path": "/data/two"}])
    assert {row["id"]: row["created_at"] for row in attachments(world, share_id=one)} == kept
    assert len(attachments(world, share_id=two)) == 2
    changed(world, cluster_id, add_shares=[{"id": one, "access_level": "ro"}])
    # the same mounts, which may only read from now on
    assert {row["id"] for row in attachments(world, share_id=one)} == kept.keys()
    assert {row["access_level"] for row in attachments(world, share_id=one)} == {"ro"}
    assert {level for level, _ in rules(world, one).values()} == {"ro"}
    found = changed(world, cluster_id, shares=[{"id": two, "path": "/data/moved"}])
    twice = {"add_shares": [{"id": one}, {"id": one, "path": "/data/one"}]}
    answer = world.ask("member", "PATCH", f"{DOOR}/{cluster_id}", {"cluster": twice})
    assert (answer.status, f"Share {one} is named twice" in str(answer.body)) == (400, True), answer
    assert shown(world, cluster_id)["shares"] == found["shares"]
    assert attachments(world, share_id=one) == []
    assert {row["mount_point"] for row in attachments(world, share_id=two)} == {"/data/moved"}
    found = changed(world, cluster_id, remove_shares=[two])
    assert (found["shares"], attachments(world, share_id=two)) == ([], [])
    wait_until(lambda: rules(world, two) == {}, 15)


def test_a_cluster_grows_and_shrinks(world):
    share_id = share(world)
    first, second, third = (server(world) for _ in range(3))
    cluster_id = made(world, servers=[first, second], shares=[{"id": share_id}])["id"]
    found = changed(
        world, cluster_id, node_groups=[{"name": "nodes", "add_servers": [third], "remove_servers": [first]}]
    )
    assert found["node_states"] == {"ready": 2}
    assert {row["server_id"] for row in attachments(world, share_id=share_id)} == {second, third}
    assert on_nodes(world, cluster_id).keys() == {second, third}
    wait_until(lambda: len(rules(world, share_id)) == 2, 15)


class Unlisted(Inventory):
    """Servers of which nobody may list all."""

    def list(self, wanted):
        raise ComputeUnreachable(reason="this asks for all servers of the project")


def test_a_node_more_does_not_list_all_servers_there_are(world):
    first, second, third = server(world), server(world, name="grows-by-name"), server(world)
    found = made(world, servers=[first])
    there = world.serving_by(world.settings, Unlisted(world.db))
    group = {"name": "nodes", "add_servers": ["grows-by-name", third], "remove_servers": [first]}
    answer = there.ask("member", "PATCH", f"{DOOR}/{found['id']}", {"cluster": {"node_groups": [group]}})
    assert answer.status == 202, answer
    until(world, found["id"], "active")
    assert on_nodes(world, found["id"]).keys() == {second, third}
    group = {"name": "nodes", "add_servers": ["nosuch", server(world, project_id=OTHER_PROJECT)]}
    answer = there.ask("member", "PATCH", f"{DOOR}/{found['id']}", {"cluster": {"node_groups": [group]}})
    assert (answer.status, "nosuch" in str(answer.body)) == (404, True)


def test_the_rules_of_all_nodes_reach_the_back_end_together(world):
    share_id = share(world)
    groups = [{"name": f"g{number}", "servers": [server(world), server(world)]} for number in range(3)]
    made(world, node_groups=groups, shares=[{"id": share_id}])
    assert len(rules(world, share_id)) == 6
    asked = f"//abaca/v1/operations?resource_id={share_id}&kind={RULES_KIND}"
    assert len(world.ask("admin", "GET", asked).body["operations"]) == 1


def test_a_selector_takes_servers_as_they_come_and_go(world):
    share_id = share(world)
    first = server(world, role="spark")
    cluster_id = made(world, selector={"metadata": {"role": "spark"}}, shares=[{"id": share_id}])["id"]
    assert on_nodes(world, cluster_id).keys() == {first}
    second = server(world, role="spark")
    wait_until(lambda: on_nodes(world, cluster_id).get(second, ("",))[0] == "ready", 30)
    world.ask("admin", "PUT", f"//abaca/v1/servers/{first}", {"server": {"metadata": {"role": "idle"}}})
    wait_until(lambda: on_nodes(world, cluster_id).keys() == {second}, 30)
    world.settle()
    assert [row["server_id"] for row in attachments(world, share_id=share_id)] == [second]


class Grouped(Inventory):
    """Servers whose metadata says in which server group they are, as a Nova knows it."""

    def list(self, wanted):
        found = [
            msgspec.structs.replace(server, groups=tuple(one for one in wanted.groups if server.metadata.get(one)))
            for server in super().list(msgspec.structs.replace(wanted, only=None, limit=1000))
        ]
        return [one for one in found if wanted.only is None or wanted.only(one)][: wanted.limit]


def test_a_selector_takes_the_servers_of_a_server_group(world):
    group = "0b5e1a52-0000-4000-8000-000000000000"
    inside, _ = server(world, **{group: "yes"}), server(world)
    selector = {"server_group": group}
    refused(world, 409, selector=selector)
    there = world.serving_by(world.settings, Grouped(world.db))
    answer = there.ask("member", "POST", DOOR, wish(selector=selector, name="grouped"))
    assert answer.status == 202, answer
    (found,) = answer.body["cluster"]["node_groups"]
    assert found["selector"] == {"metadata": {}, "name": None, "server_group": group}
    with world.db.read() as tx:
        groups = clusters.groups(tx, answer.body["cluster"]["id"])
    taken = cluster_selecting.matching(Grouped(world.db), PROJECT, groups)
    assert [one.id for one in taken] == [inside]
    assert cluster_selecting.chosen(groups, taken, {}, ()) == {groups[0].id: [inside]}
    assert "id of a server group" in refused(world, 400, selector={"server_group": "racks"})


def test_a_node_that_is_rebooted_or_migrated_stays_one(world):
    share_id = share(world)
    first = server(world, role="moved")
    cluster_id = made(world, selector={"metadata": {"role": "moved"}}, shares=[{"id": share_id}])["id"]
    with world.db.write() as tx:
        servers.update(tx, first, {"status": "MIGRATING"}, None)
    # one that is not ready yet is not taken
    early = server(world, role="moved", status="BUILD")
    second = server(world, role="moved")
    wait_until(lambda: on_nodes(world, cluster_id).get(second, ("",))[0] == "ready", 30)
    assert on_nodes(world, cluster_id).keys() == {first, second}
    with world.db.write() as tx:
        servers.update(tx, early, {"status": "ACTIVE"}, None)
    wait_until(lambda: on_nodes(world, cluster_id).get(early, ("",))[0] == "ready", 30)


def test_a_node_moves_from_one_group_to_another(world):
    share_id, node = share(world), server(world)
    groups = [{"name": "old", "servers": [node]}, {"name": "new", "servers": []}]
    cluster_id = made(world, node_groups=groups, shares=[{"id": share_id}])["id"]
    (before,) = attachments(world, share_id=share_id)
    for old, new in (("old", "new"), ("new", "old")):
        moved = [{"name": new, "add_servers": [node]}, {"name": old, "remove_servers": [node]}]
        found = changed(world, cluster_id, node_groups=moved)
        assert {one["name"]: one["nodes"] for one in found["node_groups"]} == {new: 1, old: 0}
    # it has the same mount all the time
    assert attachments(world, share_id=share_id)[0]["id"] == before["id"]


def test_a_group_takes_as_many_free_servers_as_it_counts(world):
    share_id = share(world)
    ids = {server(world, role="counted") for _ in range(3)}
    groups = [{"name": "some", "selector": {"metadata": {"role": "counted"}}, "count": 2}]
    found = made(world, node_groups=groups, shares=[{"id": share_id}])
    first = on_nodes(world, found["id"]).keys()
    assert len(first) == 2
    other = made(world, status="error", node_groups=groups)
    assert on_nodes(world, other["id"]).keys() == ids - first
    assert "wants 2 nodes, and its selector takes only 1" in other["error"]["message"]
    assert other["error"]["mend"]


def test_shares_of_a_group_are_on_its_nodes_only(world):
    one, two = share(world), share(world)
    masters, workers = server(world), server(world)
    groups = [
        {"name": "masters", "servers": [masters], "shares": [{"id": one, "path": "/srv/own"}, {"id": two}]},
        {"name": "workers", "servers": [workers]},
    ]
    cluster_id = made(world, node_groups=groups, shares=[{"id": one, "path": "/srv/all", "access_level": "ro"}])["id"]
    assert on_nodes(world, cluster_id) == {
        masters: ("ready", {"/srv/all": (one, "ro"), f"/mnt/{two}": (two, "rw")}),
        workers: ("ready", {"/srv/all": (one, "ro")}),
    }


def test_a_network_is_let_in_in_the_place_of_each_node(world):
    share_id = share(world)
    inside = [server(world, ip=f"10.30.0.{number}") for number in (1, 2)]
    outside = server(world, ip="10.31.0.1")
    found = made(world, "error", servers=[*inside, outside], shares=[{"id": share_id}], network="10.30.0.0/16")
    assert rules(world, share_id) == {"10.30.0.0/16": ("rw", "active")}
    until_shown(world, found["id"], node_states={"ready": 2, "error": 1})
    until_said(world, found["id"], "no address in 10.30.0.0/16")
    changed(world, found["id"], network=None)
    wait_until(lambda: rules(world, share_id).keys() == {"10.30.0.1", "10.30.0.2", "10.31.0.1"}, 15)


def test_a_network_of_one_address_is_the_rule_that_there_is(world):
    share_id, node = share(world), server(world, ip="10.32.0.1")
    own = {"allow_access": {"access_type": "ip", "access_to": "10.32.0.1"}}
    world.ask("member", "POST", f"/shares/{share_id}/action", own, **NEWEST)
    world.settle()
    made(world, servers=[node], shares=[{"id": share_id}], network="10.32.0.1/32")
    assert rules(world, share_id) == {"10.32.0.1": ("rw", "active")}


def test_a_node_that_fails_later_is_told_by_its_cluster(world):
    share_id, node = share(world), server(world, name="later")
    found = made(world, servers=[node], shares=[{"id": share_id}])
    (row,) = attachments(world, share_id=share_id)
    machines = Rehearsal(world.directory / "nodes" / "rehearsal.sqlite")
    machines.take_away("later")
    world.ask("member", "POST", f"//abaca/v1/attachments/{row['id']}/verify")
    until(world, found["id"], "error")
    until_said(world, found["id"], node)
    machines.bring_back("later")
    machines.close()
    assert until(world, found["id"], "active")["node_states"] == {"ready": 1}


def test_a_node_that_fails_is_named_tolerated_where_said_and_caught_up(world):
    share_id = share(world)
    good, bad = server(world), server(world, name="bad", host="broken")
    found = made(world, "error", servers=[good, bad], shares=[{"id": share_id}])
    assert found["error"]["mend"]
    until_shown(world, found["id"], status="error", node_states={"ready": 1, "error": 1})
    until_said(world, found["id"], bad)
    changed(world, found["id"], tolerance=1)
    until_shown(world, found["id"], status="active", node_states={"ready": 1, "error": 1})
    until_said(world, found["id"], bad)
    world.ask("admin", "PUT", f"//abaca/v1/servers/{bad}", {"server": {"ssh_host": "mended"}})
    wait_until(lambda: shown(world, found["id"])["node_states"] == {"ready": 2}, 30)
    wait_until(lambda: shown(world, found["id"])["error"] is None, 30)


def test_what_stands_in_the_way_on_a_node_is_said_and_left_alone(world):
    share_id, node = share(world), server(world)
    own = world.ask(
        "member", "POST", "//abaca/v1/attachments", {"attachment": {"share_id": share_id, "server_id": node}}
    ).body["attachment"]["id"]
    world.settle()
    found = made(world, "error", servers=[node], shares=[{"id": share_id}])
    until_said(world, found["id"], own)
    world.ask("member", "DELETE", f"//abaca/v1/attachments/{own}")
    wait_until(lambda: shown(world, found["id"])["status"] == "active", 30)
    (row,) = attachments(world, share_id=share_id)
    answer = world.ask("member", "DELETE", f"//abaca/v1/attachments/{row['id']}")
    assert (answer.status, found["id"] in str(answer.body)) == (409, True)


def test_what_cannot_be_is_refused_with_the_reason_and_changes_nothing(world):
    one, two, node = share(world), share(world), server(world, name="refused")
    strange = server(world, project_id=OTHER_PROJECT)
    before = world.number("SELECT count(*) FROM clusters")
    assert "nosuch" in refused(world, 404, servers=[node], shares=[{"id": "nosuch"}])
    assert refused(world, 404, servers=[node], shares=[{"id": share(world, "other")}])
    assert "CIFS" in refused(world, 409, servers=[node], shares=[{"id": share(world, proto="CIFS")}])
    for path in ("mnt/x", "/mnt/../etc", "/etc", "/mnt/a b", "/opt/x"):
        assert one in refused(world, 400, servers=[node], shares=[{"id": one, "path": path}])
    assert "is not supported" in refused(world, 400, servers=[node], shares=[{"id": one, "access_level": "wo"}])
    twice = [{"id": one, "path": "/mnt/x"}, {"id": two, "path": "/mnt/x"}]
    assert two in refused(world, 400, servers=[node], shares=twice)
    by_default = [{"id": one, "path": f"/mnt/{two}"}]
    groups = [{"name": "g", "servers": [node], "shares": [{"id": two}]}]
    assert "'g'" in refused(world, 400, node_groups=groups, shares=by_default)
    assert "named twice" in refused(world, 400, servers=[node], shares=[{"id": one}, {"id": one, "path": "/mnt/y"}])
    assert "nosuch" in refused(world, 404, servers=["nosuch"])
    assert refused(world, 404, servers=[strange])
    assert "hostlist" in refused(world, 400, servers=["node[1-"])
    assert "allow_empty" in refused(world, 409, selector={"name": "nosuch*"})
    assert "selector" in refused(world, 400, selector={})
    assert "node group" in refused(world, 400, node_groups=[{"name": "9", "servers": []}])
    assert refused(world, 400, name="9 lives", servers=[node])
    assert refused(world, 400, servers=[node], tolerance=-1)
    assert "network" in refused(world, 400, servers=[node], network="10.0.0.1/16")
    assert "lets in too many" in refused(world, 400, servers=[node], network="0.0.0.0/0")
    assert "lets in too many" in refused(world, 400, servers=[node], network="::ffff:0.0.0.0/96")
    # what may stand behind a percent sign is any text, and would stand in the rules of back ends
    assert "network" in refused(world, 400, servers=[node], network="fe80::%x, rw/64")
    # before anything is looked up for them
    many = [{"name": f"g{number}", "servers": ["nosuch"]} for number in range(33)]
    assert "32 node groups" in refused(world, 400, node_groups=many)
    assert "32 shares" in refused(world, 400, servers=[node], shares=[{"id": f"nosuch{n}"} for n in range(33)])
    assert world.number("SELECT count(*) FROM clusters") == before


def test_a_place_that_members_may_not_choose_comes_on_no_node_by_them(world):
    share_id, first, second = share(world), server(world), server(world, role="placed")
    said = wish(servers=[first], shares=[{"id": share_id, "path": "/opt/tools"}], project_id=PROJECT)
    found = world.ask("admin", "POST", DOOR, said).body["cluster"]
    until(world, found["id"], "active")
    for group in (
        {"name": "nodes", "add_servers": [second]},
        {"name": "more", "selector": {"metadata": {"role": "placed"}}},
    ):
        body = {"cluster": {"node_groups": [group]}}
        answer = world.ask("member", "PATCH", f"{DOOR}/{found['id']}", body)
        assert (answer.status, "/opt/tools" in str(answer.body)) == (400, True)
    changed(world, found["id"], node_groups=[{"name": "nodes", "add_servers": []}])
    added = {"cluster": {"node_groups": [{"name": "nodes", "add_servers": [second]}]}}
    assert world.ask("admin", "PATCH", f"{DOOR}/{found['id']}", added).status == 202
    assert until(world, found["id"], "active")["node_states"] == {"ready": 2}


def test_a_share_that_is_another_projects_by_now_comes_to_no_node(world):
    """Nobody can hand it over while the cluster wants it; if it came to that, its nodes would not be let in."""
    share_id, node = share(world), server(world)
    found = made(world, servers=[], shares=[{"id": share_id}])
    planting.put(world.db, shares, shares.c.id == share_id, project_id=OTHER_PROJECT)
    changed(world, found["id"], "error", node_groups=[{"name": "nodes", "add_servers": [node]}])
    (on_node,) = world.ask("member", "GET", f"{DOOR}/{found['id']}/nodes").body["nodes"]
    assert "another project's" in on_node["shares"][0]["message"]
    planting.put(world.db, shares, shares.c.id == share_id, project_id=PROJECT)
    assert attachments(world, share_id=share_id) == []
    assert rules(world, share_id) == {}


def test_a_protected_cluster_is_not_deleted_and_another_projects_is_not_there(world):
    found = made(world, servers=[server(world)], is_protected=True)
    assert world.ask("member", "DELETE", f"{DOOR}/{found['id']}").status == 409
    for method, path, body in (
        ("GET", "", None),
        ("GET", "/nodes", None),
        ("PATCH", "", {"cluster": {"tolerance": 3}}),
        ("DELETE", "", None),
    ):
        assert world.ask("other", method, f"{DOOR}/{found['id']}{path}", body).status == 404
    assert world.ask("other", "GET", DOOR).body["clusters"] == []
    answer = world.ask("member", "POST", DOOR, {"cluster": {"name": found["name"], "servers": []}})
    assert (answer.status, found["name"] in str(answer.body)) == (409, True)


def test_a_node_that_is_away_keeps_its_cluster_until_it_is_forced(world):
    share_id, node = share(world), server(world, name="away", host="away")
    found = made(world, servers=[node], shares=[{"id": share_id}])
    machines = Rehearsal(world.directory / "nodes" / "rehearsal.sqlite")
    machines.take_away("away")
    machines.close()
    world.ask("member", "DELETE", f"{DOOR}/{found['id']}")
    left = until(world, found["id"], "error")
    assert left["wanted"] == "deleted"
    until_said(world, found["id"], node)
    assert world.ask("member", "PATCH", f"{DOOR}/{found['id']}", {"cluster": {"tolerance": 1}}).status == 409
    world.ask("member", "DELETE", f"{DOOR}/{found['id']}?force=true")
    wait_until(lambda: world.ask("member", "GET", f"{DOOR}/{found['id']}").status == 404, 30)
    wait_until(lambda: rules(world, share_id) == {}, 15)
