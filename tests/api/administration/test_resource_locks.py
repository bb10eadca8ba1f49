# SPDX-License-Identifier: Apache-2.0
"""Locks beside attachments, and what they cost. What is asked of them one by one: resource_locks.yaml."""

import concurrent.futures
import re

import pytest
import sqlalchemy as sa

from tests.api import world as worlds
from tests.api.attachments.test_attachments import NEWEST, attached, rules, server, share, until_gone
from tests.conftest import ROOT
from tests.databases import on_postgres, on_sqlite, place


@pytest.fixture(scope="module", params=[on_sqlite, on_postgres])
def world(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("locks")
    more = f"[database]\nconnection = {place(request.param, directory, request).url}"
    with worlds.world(directory, worker=True, more=more, backend="access_types = ip") as made:
        specs = {"driver_handles_share_servers": "False"}
        made.ask("admin", "POST", "/types", {"share_type": {"name": "default", "extra_specs": specs}}, **NEWEST)
        yield made


def act(world, share_id, who="member", **action):
    return world.ask(who, "POST", f"/shares/{share_id}/action", action, **NEWEST)


def allow(world, share_id, to, who="member", **more):
    wish = {"access_type": "ip", "access_to": to, **more}
    answer = act(world, share_id, who, allow_access=wish)
    assert answer.status == 200, answer.body
    world.settle()
    return answer.body["access"]["id"]


def lock(world, kind, thing_id, who="member", **more):
    wish = {"resource_type": kind, "resource_id": thing_id, **more}
    return world.ask(who, "POST", "/resource-locks", {"resource_lock": wish}, **NEWEST)


def locks(world):
    answer = world.ask("admin", "GET", "/resource-locks?all_projects=1", **NEWEST)
    return answer.body["resource_locks"]


def test_a_locked_share_is_attached_and_detached_as_ever(world):
    share_id, server_id = share(world), server(world, "10.8.210.1")
    made = lock(world, "share", share_id).body["resource_lock"]["id"]
    found = attached(world, share_id, server_id)
    assert rules(world, share_id) == {"10.8.210.1": ("rw", "active")}
    assert world.ask("member", "DELETE", f"//abaca/v1/attachments/{found['id']}").status == 202
    until_gone(world, found["id"])
    assert rules(world, share_id) == {}
    assert world.ask("member", "DELETE", f"/resource-locks/{made}", **NEWEST).status == 204


def test_the_rules_of_attachments_cannot_be_locked(world):
    share_id = share(world)
    attached(world, share_id, server(world, "10.8.210.2"))
    listed = world.ask("member", "GET", f"/share-access-rules?share_id={share_id}", **NEWEST).body["access_list"]
    for action in ("delete", "show"):
        answer = lock(world, "access_rule", listed[0]["id"], "admin", resource_action=action)
        assert answer.status == 409, answer.body
        assert "attachments" in answer.body["conflictingRequest"]["message"]
    assert locks(world) == []


def test_a_locked_rule_by_which_attachments_live_is_replaced_by_their_own_without_its_locks(world):
    share_id, server_id = share(world), server(world, "10.8.210.3")
    rule_id = allow(world, share_id, "10.8.210.3", lock_deletion=True, lock_visibility=True)
    attached(world, share_id, server_id)
    assert len(locks(world)) == 3
    assert act(world, share_id, deny_access={"access_id": rule_id}).status == 403
    assert act(world, share_id, deny_access={"access_id": rule_id, "unrestrict": True}).status == 202
    world.settle()
    assert rules(world, share_id) == {"10.8.210.3": ("rw", "active")}
    assert world.ask("member", "GET", f"/share-access-rules/{rule_id}", **NEWEST).status == 404
    assert locks(world) == []


def test_a_forced_deletion_of_a_locked_share_detaches_nothing(world):
    share_id = share(world)
    found = attached(world, share_id, server(world, "10.8.210.4"))
    made = lock(world, "share", share_id).body["resource_lock"]["id"]
    assert act(world, share_id, "admin", force_delete=None).status == 403
    world.settle()
    shown = world.ask("member", "GET", f"//abaca/v1/attachments/{found['id']}").body["attachment"]
    assert shown["state"] == "active"
    assert world.ask("member", "DELETE", f"/resource-locks/{made}", **NEWEST).status == 204


def test_a_lock_that_comes_too_late_makes_no_rule(world):
    share_id = share(world)
    assert act(world, share_id, "admin", reset_status={"status": "error_deleting"}).status == 202
    wish = {"access_type": "ip", "access_to": "10.8.210.5", "lock_deletion": True}
    assert act(world, share_id, allow_access=wish).status == 400
    assert (rules(world, share_id), locks(world)) == ({}, [])


def test_hidden_rules_cost_their_list_one_statement_more_whatever_their_number(world):
    share_id = share(world)
    said = []
    sa.event.listen(world.db._reader, "before_cursor_execute", lambda *args: said.append(args[2]))

    def cost():
        said.clear()
        answer = world.ask("reader", "GET", f"/share-access-rules?share_id={share_id}", **NEWEST)
        return len(said), [rule["access_to"] for rule in answer.body["access_list"]]

    without = cost()[0]
    for number in range(5):
        allow(world, share_id, f"10.8.211.{number}", lock_visibility=True)
    assert cost() == (without, ["******"] * 5)
    assert act(world, share_id, "admin", force_delete=None).status == 202
    world.settle()
    assert locks(world) == []


def test_what_the_back_end_says_of_a_hidden_rule_is_not_told(world):
    share_id = share(world)
    for to, is_hidden in (("flora", False), ("fauna", True)):
        wish = {"access_type": "user", "access_to": to, "lock_visibility": is_hidden}
        assert act(world, share_id, allow_access=wish).status == 200
        world.settle()
    told = world.ask("member", "GET", f"/messages?resource_id={share_id}", **NEWEST).body["messages"]
    # what is in error is tried again with what comes next, and told again
    assert sorted("no access by user here" in one["user_message"] for one in told) == [False, True, True]


@pytest.mark.parametrize("attempt", range(8))
def test_of_a_lock_and_a_deletion_at_once_one_wins(world, attempt):
    share_id = share(world)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        locking = pool.submit(lock, world, "share", share_id)
        deleting = pool.submit(world.ask, "member", "DELETE", f"/shares/{share_id}", **NEWEST)
        outcome = locking.result().status, deleting.result().status
    world.settle()
    is_there = world.ask("member", "GET", f"/shares/{share_id}", **NEWEST).status == 200
    # refused because it is going, or because it is gone
    assert outcome in {(200, 403), (409, 202), (400, 202)}
    assert is_there == (outcome[0] == 200)
    for one in locks(world):
        assert world.ask("member", "DELETE", f"/resource-locks/{one['id']}", **NEWEST).status == 204


@pytest.mark.parametrize("attempt", range(4))
def test_a_lock_that_is_changed_while_it_goes_leaves_nothing(world, attempt):
    share_id = share(world)
    rule_id = allow(world, share_id, "10.8.213.1")
    made = lock(world, "access_rule", rule_id, resource_action="show").body["resource_lock"]["id"]
    change = {"resource_lock": {"resource_action": "delete"}}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        changing = pool.submit(world.ask, "member", "PUT", f"/resource-locks/{made}", change, **NEWEST)
        unlocking = pool.submit(world.ask, "member", "DELETE", f"/resource-locks/{made}", **NEWEST)
        assert (changing.result().status, unlocking.result().status) in {(200, 204), (404, 204)}
    assert locks(world) == []


def test_a_service_without_more_rights_than_the_page_says_lets_hosts_in(tmp_path):
    page = (ROOT / "docs" / "operating" / "nova.md").read_text()
    (tmp_path / "policy.yaml").write_text(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
    with worlds.world(tmp_path, worker=True) as made:
        specs = {"driver_handles_share_servers": "False"}
        made.ask("admin", "POST", "/types", {"share_type": {"name": "default", "extra_specs": specs}}, **NEWEST)
        share_id = share(made, "other")
        locked = {"lock_visibility": True, "lock_deletion": True}
        rule_id = allow(made, share_id, "10.8.212.1", "service", **locked)
        listing = f"/share-access-rules?share_id={share_id}"

        def seen(who):
            return [rule["access_to"] for rule in made.ask(who, "GET", listing, **NEWEST).body["access_list"]]

        assert (seen("service"), seen("other"), seen("admin")) == (["10.8.212.1"], ["******"], ["10.8.212.1"])
        assert {one["lock_context"] for one in locks(made)} == {"service"}
        denial = {"deny_access": {"access_id": rule_id, "unrestrict": True}}
        assert act(made, share_id, "other", **denial).status == 403
        assert act(made, share_id, "service", **denial).status == 202
        made.settle()
        assert (seen("other"), locks(made)) == ([], [])
        assert made.ask("service", "DELETE", f"/shares/{share_id}", **NEWEST).status == 403
