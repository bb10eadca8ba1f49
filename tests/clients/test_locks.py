# SPDX-License-Identifier: Apache-2.0
"""The unmodified clients lock shares and access rules, and live with what others have locked."""

import pytest
from openstack import exceptions

from tests.clients.command import Refused
from tests.clients.test_sdk import admin as admin_sdk
from tests.clients.test_sdk import connect, pytestmark  # noqa: F401 (a fixture, and marks)
from tests.clients.test_sdk import member as member_sdk
from tests.conftest import wait_until

__all__ = ["admin_sdk", "member_sdk"]


@pytest.fixture
def share(member_sdk, default_type):
    """The id of a share that is called `kept`."""
    made = member_sdk.create_share(share_protocol="NFS", size=1, name="kept")
    member_sdk.wait_for_status(made, status="available", interval=1, wait=30)
    yield made.id
    member_sdk.delete_share(made.id)
    wait_until(lambda: list(member_sdk.shares(details=False)) == [])


def test_the_command_locks_a_share_and_unlocks_it(member, share):
    made = member.read("share", "lock", "create", "kept", "share", "--lock-reason", "audit")
    assert (made["resource_id"], made["resource_action"], made["lock_reason"]) == (share, "delete", "audit")
    with pytest.raises(Refused, match=made["id"]):
        member.run("share", "delete", "kept")
    (row,) = member.read("share", "lock", "list", "--resource", "kept", "--resource-type", "share", "--detailed")
    assert (row["ID"], row["Lock Context"], row["Lock Reason"]) == (made["id"], "user", "audit")
    member.run("share", "lock", "set", made["id"], "--lock-reason", "longer")
    assert member.read("share", "lock", "show", made["id"])["Lock Reason"] == "longer"
    member.run("share", "lock", "unset", made["id"], "--lock-reason")
    assert member.read("share", "lock", "show", made["id"])["Lock Reason"] is None
    member.run("share", "lock", "delete", made["id"])
    assert member.read("share", "lock", "list") == []


def test_the_command_makes_a_rule_that_others_neither_see_nor_deny(member, admin, share):
    words = ("--lock-visibility", "--lock-deletion", "--lock-reason", "of the copy", "--wait")
    made = admin.read("share", "access", "create", share, "ip", "10.7.7.7", *words)
    assert (made["access_to"], made["state"]) == ("10.7.7.7", "active")
    (row,) = member.read("share", "access", "list", "kept")
    assert (row["ID"], row["Access To"]) == (made["id"], "******")
    assert member.read("share", "access", "show", made["id"])["access_to"] == "******"
    for who, words in ((admin, ()), (member, ("--unrestrict",))):
        with pytest.raises(Refused, match="HTTP 403"):
            who.run("share", "access", "delete", share, made["id"], *words)
    listed = admin.read("share", "lock", "list", "--lock-context", "admin")
    assert sorted((row["Resource Type"], row["Resource Action"]) for row in listed) == [
        ("access_rule", "delete"),
        ("access_rule", "show"),
        ("share", "delete"),
    ]
    admin.run("share", "access", "delete", share, made["id"], "--unrestrict", "--wait")
    assert admin.read("share", "lock", "list") == []


def test_the_library_locks_shares(member_sdk, share):
    made = member_sdk.create_resource_lock(resource_id=share, resource_type="share", lock_reason="keep")
    assert (made.resource_action, made.lock_context) == ("delete", "user")
    with pytest.raises(exceptions.ForbiddenException, match="locked against deletion"):
        member_sdk.delete_share(share)
    assert [lock.id for lock in member_sdk.resource_locks(resource_id=share)] == [made.id]
    assert member_sdk.update_resource_lock(made.id, lock_reason="for good").lock_reason == "for good"
    assert member_sdk.get_resource_lock(made.id).lock_reason == "for good"
    member_sdk.delete_resource_lock(made.id)
    assert list(member_sdk.resource_locks()) == []


def test_the_library_makes_locked_rules_and_locks_those_that_are_there(member_sdk, admin_sdk, share):
    locked = {"lock_visibility": True, "lock_deletion": True, "lock_reason": "mine"}
    made = admin_sdk.create_access_rule(share, access_type="ip", access_to="10.7.7.8", access_level="rw", **locked)
    assert made.access_to == "10.7.7.8"
    assert member_sdk.get_access_rule(made.id).access_to == "******"
    plain = member_sdk.create_access_rule(share, access_type="ip", access_to="10.7.7.9", access_level="ro")
    member_sdk.create_resource_lock(resource_id=plain.id, resource_type="access_rule", resource_action="show")
    assert [rule.access_to for rule in member_sdk.access_rules(share)] == ["******", "10.7.7.9"]
    with pytest.raises(exceptions.ForbiddenException):
        member_sdk.delete_access_rule(made.id, share, unrestrict=True)
    admin_sdk.delete_access_rule(made.id, share, unrestrict=True)
    member_sdk.delete_access_rule(plain.id, share)
    wait_until(lambda: list(admin_sdk.resource_locks(all_projects=True)) == [])
