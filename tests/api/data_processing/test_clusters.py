# SPDX-License-Identifier: Apache-2.0
"""Clusters and their templates through the data processing door, in both versions, with machines on paper."""

import contextlib
import itertools

import msgspec
import pytest

from abaca.api.data_processing.versions import FIRST, SECOND
from abaca.api.data_processing.views import ClusterTemplateView, ClusterView, NodeGroupTemplateView
from abaca.domain.clusters.clusters import MOST_SHARES
from abaca.http import wire
from abaca.nodes.rehearsal import Rehearsal
from tests.api.clusters import asking
from tests.api.clusters.asking import attachments, rules, server, share
from tests.api.world import PROJECT
from tests.conftest import wait_until

NUMBERS = itertools.count(1)
NOTHING = "00000000-0000-4000-8000-000000000000"
PATHS = {"1.1": f"//data-processing/v1.1/{PROJECT}", "2": "//data-processing/v2"}
BOTH = pytest.mark.parametrize("version", PATHS)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with asking.service(tmp_path_factory.mktemp("data-processing")) as made:
        yield made


@pytest.fixture(scope="module")
def data(world):
    """A share."""
    return share(world)


def ask(world, version, method, path, body=None, who="member"):
    return world.ask(who, method, f"{PATHS[version]}{path}", body)


def named(version, **more):
    """A body with a name of its own, the plugin and its version."""
    key = "hadoop_version" if version == "1.1" else "plugin_version"
    return {"name": f"d{next(NUMBERS)}", "plugin_name": "abaca", key: "1.0", **more}


def group(role, count=1, **more):
    configs = {"servers": {"metadata": {"role": role}}}
    return {"name": "workers", "count": count, "flavor_id": "2", "node_configs": configs, **more}


def role_of(world, number):
    """A role that so many new servers have."""
    role = f"r{next(NUMBERS)}"
    return role, [server(world, role=role) for _ in range(number)]


def made(world, version, status="Active", **more):
    answer = ask(world, version, "POST", "/clusters", named(version, **more))
    assert answer.status == 202, answer
    assert answer.body["cluster"]["status"] in ("Validating", "Configuring")
    return until(world, version, answer.body["cluster"]["id"], status)


def shown(world, version, cluster_id):
    found = ask(world, version, "GET", f"/clusters/{cluster_id}?show_progress=true").body["cluster"]
    as_described(ClusterView, version, found)
    return found


def as_described(view, version, found):
    """Fails where a thing is not what the description of the API says of it."""
    number = SECOND if version == "2" else FIRST
    struct = wire.shape(view, number, is_admin=False).struct
    assert msgspec.to_builtins(msgspec.convert(found, struct)) == found


def until(world, version, cluster_id, status):
    def there():
        found = shown(world, version, cluster_id)
        return found if found["status"] == status else None

    return wait_until(there, 30)


def template(world, version, kind="node-group", **more):
    said = named(version, **more)
    answer = ask(world, version, "POST", f"/{kind}-templates", said)
    assert answer.status == 202, answer
    found = answer.body[f"{kind.replace('-', '_')}_template"]
    as_described(ClusterTemplateView if kind == "cluster" else NodeGroupTemplateView, version, found)
    return found


def refused(answer, status, name):
    assert (answer.status, answer.body["error_code"], answer.body["error_name"]) == (status, status, name), answer
    sentence, _, error_id = answer.body["error_message"].partition("\nError ID: ")
    assert answer.headers["x-openstack-request-id"] == f"req-{error_id}"
    return sentence


@BOTH
def test_a_cluster_of_templates_has_shares_on_all_nodes(world, version):
    role, ids = role_of(world, 3)
    everywhere, workers = share(world), share(world)
    configs = {"servers": {"metadata": f"role={role}"}}
    of_group = template(
        world,
        version,
        flavor_id="2",
        node_processes=["node"],
        node_configs=configs,
        shares=[{"id": workers, "path": "/srv/w", "access_level": "ro"}, {"id": everywhere, "path": "/srv/other"}],
    )
    of_cluster = template(
        world,
        version,
        "cluster",
        node_groups=[{"name": "workers", "count": 2, "node_group_template_id": of_group["id"]}],
        shares=[{"id": everywhere, "path": None}],
    )
    assert of_cluster["node_groups"][0]["node_configs"] == configs
    found = made(world, version, cluster_template_id=of_cluster["id"])
    (nodes,) = found["node_groups"]
    assert (nodes["count"], len(nodes["instances"]), nodes["flavor_id"]) == (2, 2, "2")
    assert {one["instance_id"] for one in nodes["instances"]} < set(ids)
    assert nodes["instances"][0]["internal_ip"].startswith("10.8.")
    # the share of the cluster replaces what the group says of it
    mounted = {(one["share_id"], one["mount_point"], one["access_level"]) for one in attachments(world)}
    assert {(workers, "/srv/w", "ro"), (everywhere, f"/mnt/{everywhere}", "rw")} <= mounted
    assert (everywhere, "/srv/other", "rw") not in mounted
    # and is the same cluster at our own door
    assert asking.shown(world, found["id"])["node_states"] == {"ready": 2}

    # scaled, it has them on the third as well before it is active
    answer = ask(
        world, version, "PUT", f"/clusters/{found['id']}", {"resize_node_groups": [{"name": "workers", "count": 3}]}
    )
    assert (answer.status, answer.body["cluster"]["status"]) == (202, "Configuring")
    until(world, version, found["id"], "Active")
    assert {one["server_id"] for one in attachments(world, share_id=everywhere)} == set(ids)

    # the last share can be removed, and goes from the nodes with its rules
    assert ask(world, version, "PATCH", f"/clusters/{found['id']}", {"shares": []}).status == 202
    wait_until(lambda: f"/mnt/{everywhere}" not in {one["mount_point"] for one in attachments(world)}, 30)
    until(world, version, found["id"], "Active")
    assert ask(world, version, "DELETE", f"/clusters/{found['id']}").status == 204
    wait_until(lambda: ask(world, version, "GET", f"/clusters/{found['id']}").status == 404, 30)
    world.settle()
    assert rules(world, everywhere) == rules(world, workers) == {}
    for kind, one in (("node-group", of_group), ("cluster", of_cluster)):
        assert ask(world, version, "DELETE", f"/{kind}-templates/{one['id']}").status == 204
        assert ask(world, version, "GET", f"/{kind}-templates/{one['id']}").status == 404


def test_the_versions_name_the_same_things_differently(world, data):
    role, _ = role_of(world, 1)
    found = made(world, "1.1", node_groups=[group(role)], shares=[{"id": data, "path": "/srv/named"}])
    assert (found["hadoop_version"], found["tenant_id"]) == ("1.0", PROJECT)
    other = shown(world, "2", found["id"])
    assert (other["plugin_version"], other["project_id"]) == ("1.0", PROJECT)
    assert {"hadoop_version", "tenant_id"}.isdisjoint(other)
    assert found["created_at"] == other["created_at"]
    assert len(found["created_at"]) == len("2015-09-14T10:57:11")
    (step,) = other["provision_progress"]
    assert (step["successful"], step["completed"], step["total"]) == (True, 1, 1)
    plain = ask(world, "2", "GET", f"/clusters/{found['id']}").body["cluster"]
    assert plain["provision_progress"] == []


@BOTH
def test_a_cluster_that_was_made_at_our_own_door_is_seen_too(world, version):
    found = asking.made(world, servers=[server(world)])
    seen = shown(world, version, found["id"])
    assert (seen["plugin_name"], seen["status"], seen["node_groups"][0]["count"]) == ("abaca", "Active", 1)


def level(where, entry, base):
    """A body whose shares hold an entry at one of the levels there are."""
    if where == "node group":
        return {"node_groups": [{**base, "shares": [entry]}]}
    return {"node_groups": [base], "shares": [entry]}


@pytest.fixture(scope="module")
def cifs(world):
    """A share that no machine mounts."""
    return share(world, proto="CIFS")


@BOTH
@pytest.mark.parametrize(
    ("of", "where"),
    [
        ("clusters", "cluster"),
        ("clusters", "node group"),
        ("cluster-templates", "cluster"),
        ("cluster-templates", "node group"),
        ("node-group-templates", None),
    ],
)
def test_a_share_that_cannot_be_is_refused_at_every_level(world, data, cifs, version, of, where):
    everything = "SELECT (SELECT count(*) FROM clusters) + (SELECT count(*) FROM cluster_templates)"
    before = world.number(everything)

    def post(entry):
        body = {"shares": [entry]} if where is None else level(where, entry, group("nosuch", 0))
        return ask(world, version, "POST", f"/{of}", named(version, **body))

    assert NOTHING in refused(post({"id": NOTHING}), 400, "INVALID_REFERENCE")
    for path in ("relative", "/mnt/../etc", "/mnt/a b", "/etc/cron.d", "/opt/x", "/"):
        assert data in refused(post({"id": data, "path": path}), 400, "INVALID_DATA")
    assert "CIFS" in refused(post({"id": cifs}), 400, "INVALID_REFERENCE")
    for wrong in ({"id": "data"}, {"id": data, "access_level": None}, {"id": data, "more": 1}, {"path": "/srv/x"}):
        refused(post(wrong), 400, "VALIDATION_ERROR")
    assert world.number(everything) == before


@BOTH
@pytest.mark.parametrize("of", ["clusters", "cluster-templates", "node-group-templates"])
def test_a_share_of_another_project_is_none_of_a_cluster(world, data, version, of):
    who = {"1.1": "//data-processing/v1.1", "2": "//data-processing/v2"}[version]
    body = named(version, shares=[{"id": data}], **({"node_groups": [group("x", 0)]} if "group" not in of else {}))
    theirs = refused(world.ask("other", "POST", f"{who}/{of}", body), 400, "INVALID_REFERENCE")
    body["shares"][0]["id"] = NOTHING
    nobodys = refused(world.ask("other", "POST", f"{who}/{of}", body), 400, "INVALID_REFERENCE")
    assert theirs.replace(data, NOTHING) == nobodys


@BOTH
@pytest.mark.parametrize("of", ["clusters", "cluster-templates"])
def test_two_shares_do_not_meet_on_a_node_by_any_route(world, data, version, of):
    other = share(world)
    entries = [{"id": data, "path": "/srv/a"}, {"id": other, "path": "/srv/a"}]

    def post(**body):
        return refused(ask(world, version, "POST", f"/{of}", named(version, **body)), 400, "INVALID_DATA")

    assert other in post(node_groups=[group("x", 0)], shares=entries)
    assert other in post(node_groups=[group("x", 0, shares=entries)])
    assert "workers" in post(node_groups=[group("x", 0, shares=entries[:1])], shares=entries[1:])
    # by a path that is the other's default
    at_default = [{"id": other, "path": f"/mnt/{data}"}]
    assert "workers" in post(node_groups=[group("x", 0, shares=[{"id": data}])], shares=at_default)
    assert "workers" in post(node_groups=[group("x", 0, shares=at_default)], shares=[{"id": data}])
    # one named twice
    assert data in post(node_groups=[group("x", 0)], shares=[{"id": data}, {"id": data, "path": "/srv/b"}])
    many = [{"id": data, "path": f"/srv/{number}"} for number in range(MOST_SHARES + 1)]
    assert str(MOST_SHARES) in post(node_groups=[group("x", 0)], shares=many)


@BOTH
def test_what_templates_say_meets_what_is_said_in_the_request(world, data, version):
    other = share(world)
    found = template(world, version, flavor_id="2", shares=[{"id": data, "path": "/srv/a"}])
    body = named(
        version,
        node_groups=[{"name": "w", "count": 0, "node_group_template_id": found["id"]}],
        shares=[{"id": other, "path": "/srv/a"}],
    )
    assert other in refused(ask(world, version, "POST", "/cluster-templates", body), 400, "INVALID_DATA")
    body["node_groups"][0]["node_configs"] = {"servers": {"name": "nosuch"}}
    assert other in refused(ask(world, version, "POST", "/clusters", body), 400, "INVALID_DATA")
    # a list in the request replaces that of the template whole
    body["node_groups"][0]["shares"] = []
    assert ask(world, version, "POST", "/clusters", body).status == 202


@BOTH
def test_a_cluster_in_error_says_why_and_is_active_when_it_passes(world, version):
    role, _ = role_of(world, 1)
    found = made(world, version, "Error", node_groups=[group(role, 2)])
    assert "workers" in found["status_description"]
    server(world, role=role)
    until(world, version, found["id"], "Active")


@BOTH
def test_several_clusters_are_made_at_once(world, version):
    role, ids = role_of(world, 4)
    said = named(version, node_groups=[group(role, 2)], count=2)
    answer = ask(world, version, "POST", "/clusters/multiple" if version == "1.1" else "/clusters", said)
    assert answer.status == 202, answer
    found = answer.body["clusters"]
    both = found if version == "1.1" else [one["cluster"]["id"] for one in found]
    nodes = [
        {i["instance_id"] for i in until(world, version, one, "Active")["node_groups"][0]["instances"]} for one in both
    ]
    assert nodes[0] | nodes[1] == set(ids)
    assert [shown(world, version, one)["name"] for one in both] == [f"{said['name']}-1", f"{said['name']}-2"]


@BOTH
def test_a_group_is_added_and_named_servers_go_first(world, version):
    role, _ = role_of(world, 2)
    more, (added,) = role_of(world, 1)
    found = made(world, version, node_groups=[group(role, 2)])
    going = found["node_groups"][0]["instances"][0]["instance_id"]
    resized = {"name": "workers", "count": 1, **({"instances": [going]} if version == "2" else {})}
    body = {"resize_node_groups": [resized], "add_node_groups": [{**group(more), "name": "more"}]}
    assert ask(world, version, "PUT", f"/clusters/{found['id']}", body).status == 202
    changed = until(world, version, found["id"], "Active")
    groups = {one["name"]: {i["instance_id"] for i in one["instances"]} for one in changed["node_groups"]}
    assert groups["more"] == {added}
    assert len(groups["workers"]) == 1
    assert version == "1.1" or going not in groups["workers"]
    strange = {"resize_node_groups": [{"name": "nosuch", "count": 1}]}
    assert "workers" in refused(ask(world, version, "PUT", f"/clusters/{found['id']}", strange), 400, "INVALID_DATA")


def verification(world, version, cluster_id):
    return shown(world, version, cluster_id)["verification"]


@BOTH
def test_a_cluster_is_verified_when_asked(world, version, data):
    role = f"r{next(NUMBERS)}"
    host = f"{role}-host"
    server(world, role=role, host=host)
    cluster_id = made(world, version, node_groups=[group(role)], shares=[{"id": data}], is_protected=True)["id"]
    assert verification(world, version, cluster_id) == {}

    def verify():
        answer = ask(world, version, "PATCH", f"/clusters/{cluster_id}", {"verification": {"status": "START"}})
        assert (answer.status, answer.body["cluster"]["verification"]["status"]) == (202, "CHECKING")

    def until_checked(status):
        wait_until(lambda: verification(world, version, cluster_id)["status"] == status, 30)
        found = verification(world, version, cluster_id)
        assert [one["status"] for one in found["checks"]] == [found["status"]]
        return found["checks"][0]["description"]

    verify()
    assert until_checked("GREEN") == "Each node has all its shares."
    # what happens to a machine is not known before somebody looks
    with contextlib.closing(Rehearsal(world.directory / "nodes" / "rehearsal.sqlite")) as machines:
        machines.take_away(host)
        verify()
        assert "of the cluster's nodes do not hold" in until_checked("RED")
        machines.bring_back(host)
        until_checked("GREEN")


@BOTH
def test_nothing_but_its_start_is_said_of_a_verification(world, version):
    cluster_id = made(world, version, node_groups=[group(role_of(world, 1)[0])])["id"]
    for wrong in ({"verification": {"status": "STOP"}}, {"verification": {}}, {"verification": None}):
        refused(ask(world, version, "PATCH", f"/clusters/{cluster_id}", wrong), 400, "VALIDATION_ERROR")
    said = refused(
        ask(world, version, "PATCH", f"/clusters/{cluster_id}", {"update_keypair": True}), 400, "VALIDATION_ERROR"
    )
    assert version == "1.1" or "logs in with" in said
    assert verification(world, version, cluster_id) == {}


@BOTH
def test_what_is_protected_is_neither_changed_nor_deleted(world, version):
    role, _ = role_of(world, 1)
    found = made(world, version, node_groups=[group(role)], is_protected=True)
    kept = template(world, version, flavor_id="1", is_protected=True)
    for path in (f"/clusters/{found['id']}", f"/node-group-templates/{kept['id']}"):
        change = "PATCH" if version == "2" or "clusters" in path else "PUT"
        refused(ask(world, version, change, path, {"description": "new"}), 409, "UPDATE_FAILED")
        refused(ask(world, version, "DELETE", path), 409, "DELETION_FAILED")
        assert ask(world, version, change, path, {"is_protected": False}).status == 202
        assert ask(world, version, change, path, {"description": "new"}).status == 202
        assert ask(world, version, "DELETE", path).status == 204


@BOTH
def test_pages_name_those_beside_them(world, version):
    names = [template(world, version, flavor_id="1")["name"] for _ in range(5)]
    every = ask(world, version, "GET", "/node-group-templates").body
    assert "markers" not in every
    total = [one["name"] for one in every["node_group_templates"]]
    assert total[-5:] == names
    page, marker, seen, before = {"markers": {"next": "first"}}, "", [], []
    while page["markers"]["next"] is not None:
        page = ask(world, version, "GET", f"/node-group-templates?limit=2{marker}").body
        seen += [one["name"] for one in page["node_group_templates"]]
        before.append(page["markers"]["prev"])
        marker = f"&marker={page['markers']['next']}"
    assert seen == total
    assert before[:2] == [None, None]
    back = ask(world, version, "GET", f"/node-group-templates?limit=2&marker={before[-1]}").body
    assert [one["name"] for one in back["node_group_templates"]] == total[2 * (len(before) - 2) :][:2]
    newest = ask(world, version, "GET", "/node-group-templates?limit=1&sort_by=-created_at").body
    assert newest["node_group_templates"][0]["name"] == names[-1]
    assert ask(world, version, "GET", "/node-group-templates?plugin_name=vanilla").body["node_group_templates"] == []
    assert ask(world, version, "GET", f"/clusters?name={names[0]}").body["clusters"] == []


@BOTH
def test_what_cannot_be_is_refused_with_the_mend(world, version, data):
    def post(**body):
        return ask(world, version, "POST", "/clusters", named(version, **body))

    assert "node_configs" in refused(post(node_groups=[{"name": "w", "count": 1}]), 400, "INVALID_DATA")
    assert "takes no server" in refused(post(node_groups=[group("nosuch")]), 400, "INVALID_REFERENCE")
    assert "node_groups" in refused(post(), 400, "INVALID_DATA")
    assert "'abaca'" in refused(
        ask(world, version, "POST", "/clusters", named(version) | {"plugin_name": "vanilla"}), 400, "INVALID_REFERENCE"
    )
    assert "no server is made" in refused(post(node_groups=[group("x", volumes_per_node=2)]), 400, "VALIDATION_ERROR")
    assert "other projects" in refused(post(is_public=True), 400, "VALIDATION_ERROR")
    refused(post(cluster_template_id=NOTHING), 400, "INVALID_REFERENCE")
    configs = {"HDFS": {"dfs.replication": 3}}
    assert "servers" in refused(post(node_groups=[group("x", node_configs=configs)]), 400, "INVALID_DATA")
    refused(ask(world, version, "POST", "/clusters", named(version) | {"name": "1st"}), 400, "VALIDATION_ERROR")
    refused(ask(world, version, "GET", f"/clusters/{NOTHING}"), 404, "NOT_FOUND")
    refused(ask(world, version, "GET", "/nosuch"), 404, "NOT_FOUND")
    assert "no jobs" in refused(ask(world, version, "GET", "/job-binaries"), 404, "NOT_FOUND")
    refused(ask(world, version, "POST", "/clusters", {}, "reader"), 403, "FORBIDDEN")
    there = template(world, version, flavor_id="1")
    twice = named(version, flavor_id="1") | {"name": there["name"]}
    refused(ask(world, version, "POST", "/node-group-templates", twice), 409, "NAME_ALREADY_EXISTS")
    # one that takes nothing yet waits where it is asked to
    configs = {"cluster": {"allow_empty": "true", "tolerance": "1", "network": "10.8.0.0/16"}}
    waiting = post(node_groups=[group(f"r{next(NUMBERS)}")], cluster_configs=configs)
    assert waiting.status == 202
    found = asking.shown(world, waiting.body["cluster"]["id"])
    assert (found["tolerance"], found["network"]) == (1, "10.8.0.0/16")


def test_clients_find_the_versions(world):
    versions = world.ask("none", "GET", "//data-processing").body["versions"]
    assert [one["id"] for one in versions] == ["v1.1", "v2"]
    asked = {"openstack-api-version": "data-processing 2.0"}
    answer = world.ask("member", "GET", "//data-processing/v2/plugins/abaca/1.0", **asked)
    assert answer.headers["openstack-api-version"] == "data-processing 2.0"
    assert "OpenStack-API-Version" in answer.headers["vary"]
    assert {one["applicable_target"] for one in answer.body["plugin"]["configs"]} == {"cluster", "servers"}
    for said, status in (("2.1", 406), ("two", 400), ("latest", 200)):
        asked = {"openstack-api-version": f"compute 2.97, data-processing {said}"}
        assert world.ask("member", "GET", "//data-processing/v2/images", **asked).status == status
    assert world.ask("none", "GET", "//data-processing/v2/images").status == 401
