# SPDX-License-Identifier: Apache-2.0
"""Wherever the own door takes an id it takes a name and the beginning of an id: in paths, filters and bodies.

Each is asked for what could be several: who looks for what is meant refuses that, and names them. What reads is asked
for one thing by its id, its name and its beginning, and says the same each time.
"""

import itertools
import re

import pytest

from abaca.api import routes
from abaca.db.networks import share_servers
from abaca.domain.networks.share_servers import ShareServer
from abaca.http import routing
from tests.api.world import ELSEWHERE, NEWEST, PROJECT, world

DOOR = "//abaca/v1"
VERSION = {"x-openstack-manila-api-version": NEWEST}
# What is called so is the id of nothing that is stored here, or has a word of its own.
OTHERS = {
    "project_id": "projects are Keystone's",
    "host": "a back end is called host@backend",
    "name": "what is asked for is a name",
    "id": "a list is asked for the beginning of an id by id_prefix",
    "hypervisor_id": "a server that need not be registered yet",
    "neutron_net_id": "Neutron's",
    "neutron_subnet_id": "Neutron's",
}
# By the first part of a path, and by the names of placeholders, filters and fields, what is meant.
OF_PATHS = {
    "attachments": "attachment",
    "clusters": "cluster",
    "operations": "operation",
    "servers": "server",
    "share-networks": "network",
    "share-servers": "share server",
    "shares": "share",
}
OF_NAMES = {
    "share_id": "share",
    "server_id": "server",
    "server_ids": "server",
    "server": "server",
    "servers": "server",
    "machine_id": "server",
    "node_group_id": "group",
    "share_network_id": "network",
    "parent_id": "operation",
    "resource_id": "share",
    "subnet_id": "subnet",
}
# The things that are made here, by their names; what is not here has none.
NAMES = {"share": "payroll", "server": "web", "cluster": "mpi", "network": "blue", "group": "nodes-a"}
URL = "manila://01a203a2-2bfa-7000-8000-000000000000/x"
# What routes want beside the id.
BODIES = {
    ("PUT", "/servers/{server_id}"): {"server": {"description": "x"}},
    ("PATCH", "/clusters/{id}"): {"cluster": {"description": "x"}},
    ("POST", "/clusters/{id}/files"): {"file": {"url": URL}},
    ("POST", "/share-networks/{id}/subnets"): {"subnet": {}},
    ("POST", "/share-networks/{id}/subnets/plan"): {"subnet": {}},
    ("PUT", "/share-servers/{id}"): {"share_server": {"network_allocation_update_support": True}},
}
QUERIES = {"/clusters/{id}/files": f"?url={URL}"}
ATTACH = {"share_id": "payroll", "server_id": "web"}
# Where a body takes an id: what it is, and a body with the word in its place.
FIELDS = {
    "attachment's share": ("/attachments", "share", lambda said: {"attachment": {**ATTACH, "share_id": said}}),
    "attachment's server": ("/attachments", "server", lambda said: {"attachment": {**ATTACH, "server_id": said}}),
    "attachment's servers": (
        "/attachments",
        "server",
        lambda said: {"attachment": {"share_id": "payroll", "server_ids": [said]}},
    ),
    "cluster's share": (
        "/clusters",
        "share",
        lambda said: {"cluster": {"name": "new", "servers": ["web"], "shares": [{"id": said}]}},
    ),
    "cluster's servers": ("/clusters", "server", lambda said: {"cluster": {"name": "new", "servers": [said]}}),
    "node group's servers": (
        "/clusters",
        "server",
        lambda said: {"cluster": {"name": "new", "node_groups": [{"name": "nodes", "servers": [said]}]}},
    ),
}
TABLE = routing.Table(routes.OWN).routes


def kind_of(path, name):
    return OF_NAMES.get(name) or OF_PATHS[path.split("/")[1]]


IN_PATHS = [
    (route.method, route.path, name)
    for route in TABLE
    for name in re.findall(r"{(\w+)}", route.path)
    if name not in OTHERS or name == "id"
]
FILTERS = [
    (route.path, name)
    for route in TABLE
    if route.filters is not None
    for name in route.filters.__annotations__
    if (name.endswith("_id") or name == "server") and name not in OTHERS
]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with world(tmp_path_factory.mktemp("naming"), worker=True) as made:
        specs = {"driver_handles_share_servers": "False"}
        made.ask("admin", "POST", "/types", {"share_type": {"name": "default", "extra_specs": specs}}, **VERSION)
        yield made


@pytest.fixture(scope="module")
def ids(here):
    """The ids of each kind, those of the thing that is called as NAMES has it first. There are two at least."""

    def made(who, path, wish, **headers):
        answer = here.ask(who, "POST", path, wish, **headers)
        assert answer.status in (200, 201, 202), answer.body
        return next(iter(answer.body.values()))

    found = {"share": [], "server": [], "network": [], "attachment": [], "share server": []}
    for number, name in enumerate((NAMES["share"], "other")):
        wish = {"share": {"share_proto": "NFS", "size": 1, "name": name}}
        found["share"].append(made("member", "/shares", wish, **VERSION)["id"])
        machine = {"name": ("web", "store")[number], "addresses": [f"10.9.0.{number + 1}"]}
        found["server"].append(made("admin", f"{DOOR}/servers", {"server": machine})["id"])
        network = {"share_network": {"name": ("blue", "red")[number]}}
        made_network = made("member", "/share-networks", network, **VERSION)
        found["network"].append(made_network["id"])
        values = {"project_id": PROJECT, "share_network_id": found["network"][number], "host": ELSEWHERE}
        able = dict.fromkeys((name for name in ShareServer.__struct_fields__ if name.endswith("_support")), True)
        with here.db.write() as tx:
            found["share server"].append(
                share_servers.add(tx, {**values, **able}, [made_network["share_network_subnets"][0]["id"]])
            )
    here.settle()
    wish = {"share_id": NAMES["share"], "server_ids": ["web", "store"]}
    found["attachment"] = [one["id"] for one in made("member", f"{DOOR}/attachments", {"attachment": wish})]
    groups = [{"name": f"nodes-{one}", "selector": {"name": f"nosuch-{one}"}} for one in "ab"]
    clusters = [
        made("member", f"{DOOR}/clusters", {"cluster": {"name": name, "node_groups": groups, "allow_empty": True}})
        for name in ("mpi", "ml")
    ]
    found["cluster"] = [one["id"] for one in clusters]
    found["group"] = [one["id"] for one in clusters[0]["node_groups"]]
    blue = f"/share-networks/{found['network'][0]}/subnets"
    made("member", blue, {"share-network-subnet": {"availability_zone": "nova"}}, **VERSION)
    subnets = here.ask("member", "GET", blue, **VERSION).body["share_network_subnets"]
    found["subnet"] = [one["id"] for one in subnets]
    here.settle()
    found["operation"] = [one["id"] for one in here.ask("admin", "GET", f"{DOOR}/operations").body["operations"]]
    assert all(len(of_kind) > 1 for of_kind in found.values())
    return found


def filled(path, ids, **said):
    return re.sub(r"{(\w+)}", lambda found: said.get(found[1], ids[kind_of(path, found[1])][0]), path)


def words(ids, kind):
    """What says the first of a kind, and nothing of another kind, other than its id."""
    first = ids[kind][0]
    others = {one for of_kind in ids.values() for one in of_kind} - {first}
    shortest = next(length for length in range(4, 36) if not any(one.startswith(first[:length]) for one in others))
    return [first[:shortest].upper(), *([NAMES[kind]] if kind in NAMES else [])]


def several(ids, kind):
    """What two or more begin with."""
    shared = (len(set(column)) == 1 for column in zip(*ids[kind], strict=True))
    return ids[kind][0][: sum(itertools.takewhile(bool, shared))]


def assert_told(answer, ids, kind):
    assert answer.status == 409, answer.body
    message = answer.body["error"]["message"]
    assert "could be" in message
    assert any(one in message for one in ids[kind])


@pytest.mark.parametrize(("method", "path", "name"), IN_PATHS)
def test_a_route_refuses_what_could_be_several(here, ids, method, path, name):
    kind = kind_of(path, name)
    where = filled(path, ids, **{name: several(ids, kind)}) + QUERIES.get(path, "")
    assert_told(here.ask("admin", method, DOOR + where, BODIES.get((method, path))), ids, kind)


@pytest.mark.parametrize(("path", "name"), [(path, name) for method, path, name in IN_PATHS if method == "GET"])
def test_a_route_that_reads_takes_a_name_and_the_beginning_of_an_id(here, ids, path, name):
    def answer(said):
        return here.ask("admin", "GET", DOOR + filled(path, ids, **{name: said}) + QUERIES.get(path, ""))

    kind = kind_of(path, name)
    whole = answer(ids[kind][0])
    assert whole.status in (200, 409), whole.body
    for said in words(ids, kind):
        found = answer(said)
        assert (found.status, found.body) == (whole.status, whole.body), said


@pytest.mark.parametrize(("path", "name"), FILTERS)
def test_a_filter_takes_a_name_and_the_beginning_of_an_id(here, ids, path, name):
    def answer(said):
        return here.ask("admin", "GET", f"{DOOR}{filled(path, ids)}?{name}={said}")

    kind = kind_of("", name)
    assert_told(answer(several(ids, kind)), ids, kind)
    whole = answer(ids[kind][0])
    assert whole.status in (200, 409), whole.body
    for said in words(ids, kind):
        found = answer(said)
        assert (found.status, found.body) == (whole.status, whole.body), said


@pytest.mark.parametrize("field", FIELDS)
def test_a_body_refuses_what_could_be_several(here, ids, field):
    path, kind, body = FIELDS[field]
    answer = here.ask("admin", "POST", DOOR + path, body(several(ids, kind)))
    assert_told(answer, ids, kind)


def test_filters_that_find_nothing_without_the_word_find_what_is_meant(here, ids):
    """That two answers are equal says little when both are empty."""
    for path, name, kind in (
        ("/attachments", "share_id", "share"),
        ("/attachments", "server_id", "server"),
        ("/operations", "resource_id", "share"),
        ("/share-servers", "share_network_id", "network"),
    ):
        for said in words(ids, kind):
            answer = here.ask("admin", "GET", f"{DOOR}{path}?{name}={said}").body
            assert next(iter(answer.values())), (path, name, said)


def test_beginnings_reach_no_other_project(here, ids):
    for path in ("/clusters/{id}", "/attachments/{id}", "/servers/{server_id}", "/operations/{id}"):
        kind = kind_of(path, re.search(r"{(\w+)}", path)[1])
        said = words(ids, kind)[0]
        assert here.ask("other", "GET", DOOR + re.sub("{.*}", said, path)).status == 404
        # nor does what several begin with tell that they are there
        assert here.ask("other", "GET", DOOR + re.sub("{.*}", several(ids, kind), path)).status == 404


def test_every_field_that_takes_an_id_is_asked(here):
    taken = {
        name
        for route in TABLE
        if route.body is not None
        for name in route.body.__annotations__
        if name.endswith(("_id", "_ids")) and name not in OTHERS
    }
    assert taken == {"share_id", "server_id", "server_ids"}
