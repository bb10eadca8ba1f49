# SPDX-License-Identifier: Apache-2.0
"""What clients know and is not served yet says so with a sentence, in the form of an answer that they survive."""

import pytest

from abaca.api import doors, unserved
from tests.api.world import NEWEST

MORE = {"create_share_from_snapshot_support", "revert_to_snapshot_support", "mount_snapshot_support"}
VERSION = {"x-openstack-manila-api-version": NEWEST}


# Lists that clients ask for before they show anything are empty.
EMPTY = {
    "share-groups": "share_groups",
    "share-group-snapshots": "share_group_snapshots",
    "share-replicas": "share_replicas",
    "share-backups": "share_backups",
    "qos-types": "qos_types",
}
ASKED = [
    (name, more, method)
    for name in unserved.SHARED_FILE_SYSTEMS
    for more in ("", "/detail", "/nosuch/action", ".json")
    for method in ("GET", "POST")
    if method == "POST" or name not in EMPTY or more == "/nosuch/action"
]


@pytest.mark.parametrize(("name", "more", "method"), ASKED)
def test_a_collection_that_is_not_served_says_so(planted, name, more, method):
    for version in ("2.0", NEWEST):
        answer = planted.ask("member", method, f"/{name}{more}", **{"x-openstack-manila-api-version": version})
        assert answer.status == 404
        said = answer.body["itemNotFound"]
        assert said["code"] == 404
        assert said["message"].startswith(unserved.SHARED_FILE_SYSTEMS[name])
        assert "not served" in said["message"]


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("more", ["", "?limit=5&all_tenants=1"])
def test_lists_that_clients_cannot_do_without_are_empty(planted, name, more):
    """From which version on, and where with the experimental header: tests/conformance/rest.jsonl."""
    asked = {**VERSION, "x-openstack-manila-api-experimental": "true"}
    for who in ("member", "reader", "admin"):
        answer = planted.ask(who, "GET", f"/{name}{more}", **asked)
        assert (answer.status, answer.body) == (200, {EMPTY[name]: []})
    assert planted.ask("none", "GET", f"/{name}{more}", **asked).status == 401


def test_so_does_a_part_of_one_that_is_served(planted):
    share = planted.things["/shares/{id}"]
    answer = planted.ask("admin", "GET", f"/shares/{share}/migration-progress", **VERSION)
    assert answer.status == 404
    assert "not served" in answer.body["itemNotFound"]["message"]


@pytest.mark.parametrize("action", unserved.ACTIONS)
def test_so_does_an_action(planted, action):
    path = f"/shares/{planted.things['/shares/{id}']}/action"
    answer = planted.ask("admin", "POST", path, {action: {}}, **VERSION)
    assert answer.status == 404
    assert "not served" in answer.body["itemNotFound"]["message"]


def test_what_nobody_knows_is_just_not_there(planted):
    answer = planted.ask("member", "GET", "/nothing", **VERSION)
    assert (answer.status, answer.body["message"]) == (404, "The resource could not be found.")
    assert planted.ask("none", "GET", "/share-groups", **VERSION).status == 401


@pytest.mark.parametrize("door", doors.every(), ids=lambda door: door.prefix)
def test_what_is_served_is_not_said_to_be_missing(door):
    """Whoever serves one of them takes its line away; an empty list is no such service."""
    served = [name for name in door.table.collections if door.unserved(f"/{name}")]
    assert {name for name in served if name not in EMPTY} == set()
    assert {route.action for route in door.table.routes}.isdisjoint(door.unserved_actions)


def test_a_share_promises_of_snapshots_what_is_served(planted):
    """Its type may promise more: it says what its shares shall have as soon as that is served."""
    share = planted.ask("member", "GET", f"/shares/{planted.things['/shares/{id}']}", **VERSION).body["share"]
    promised = {name: value for name, value in share.items() if "snapshot" in name and name.endswith("_support")}
    assert len(promised) == 5
    assert {name for name, value in promised.items() if value} == {"snapshot_support", *MORE}
    kind = f"/types/{share['share_type']}"
    shown = planted.ask("member", "GET", kind, **VERSION).body["share_type"]["extra_specs"]
    assert shown["snapshot_support"] == "True"
