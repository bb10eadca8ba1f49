# SPDX-License-Identifier: Apache-2.0
"""Who may do what: the defaults, the operator's file, and that a remembered decision is the right one."""

import pytest

from abaca import errors, policy
from abaca.domain.callers import Caller, with_implied
from abaca.policy.decisions import Policy

RULES = (
    policy.reader("thing:get"),
    policy.member("thing:create"),
    policy.admin("thing:reset"),
    policy.owner("lock:put"),
)


def caller(role, project="p", user="u"):
    return Caller(user, project, with_implied(frozenset({role})), is_admin=role == "admin", request_id="r")


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("admin", {"thing:get", "thing:create", "thing:reset", "lock:put"}),
        ("member", {"thing:get", "thing:create", "lock:put"}),
        ("reader", {"thing:get", "lock:put"}),
        ("service", {"lock:put"}),
        ("nobody", {"lock:put"}),
    ],
)
def test_a_role_may_do_what_the_defaults_say(role, allowed):
    found = Policy(RULES)
    assert {rule.name for rule in RULES if found.allows(rule.name, caller(role))} == allowed


def test_a_member_may_do_nothing_in_another_project_however_often_it_was_asked_before():
    found = Policy(RULES)
    for project in ("p", "q", "p", "q"):
        assert found.allows("thing:get", caller("member"), project_id=project) is (project == "p")
        assert found.allows("thing:get", caller("member", project="q"), project_id=project) is (project == "q")
        assert found.allows("thing:get", caller("admin"), project_id=project)


def test_what_belongs_to_a_user_is_that_users_even_within_a_project():
    found = Policy(RULES)
    assert found.allows("lock:put", caller("member", user="u"), user_id="u")
    assert not found.allows("lock:put", caller("member", user="v"), user_id="u")
    assert found.allows("lock:put", caller("service", user="v"), user_id="u")


def test_the_operators_file_wins_and_is_read_again_when_it_changes(tmp_path):
    clock, file = Clock(), tmp_path / "policy.yaml"
    found = Policy(RULES, file, clock=clock)
    assert not found.allows("thing:reset", caller("member"))
    file.write_text('"thing:reset": "role:member"\n')
    clock.now = 2
    assert found.allows("thing:reset", caller("member"))
    assert found.allows("thing:get", caller("reader"))
    file.unlink()
    clock.now = 4
    assert not found.allows("thing:reset", caller("member"))


def test_a_file_that_became_unreadable_changes_nothing(tmp_path, caplog):
    clock, file = Clock(), tmp_path / "policy.yaml"
    file.write_text('"thing:reset": "role:member"\n')
    found = Policy(RULES, file, clock=clock)
    file.write_text("][ not yaml")
    clock.now = 2
    assert found.allows("thing:reset", caller("member"))
    assert "cannot be used" in caplog.text


def test_a_file_that_cannot_be_read_at_the_start_is_refused(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text("][ not yaml")
    with pytest.raises(errors.ConfigError, match=r"policy\.yaml"):
        Policy(RULES, file)


@pytest.mark.parametrize(
    ("check", "mine", "others"),
    [
        ("user_id:%(user_id)s", True, False),
        ("not user_id:%(user_id)s", False, True),
        ("user_id:u", True, True),
        ("project_id:other", False, False),
        ("rule:thing:get and user_id:%(user_id)s", True, False),
        ("@", True, True),
        ("!", False, False),
    ],
)
def test_a_decision_is_remembered_only_for_what_the_rule_looks_at(tmp_path, check, mine, others):
    file = tmp_path / "policy.yaml"
    file.write_text(f'"thing:reset": "{check}"\n')
    found = Policy(RULES, file)
    for _ in range(2):
        assert found.allows("thing:reset", caller("member"), user_id="u") is mine
        assert found.allows("thing:reset", caller("member"), user_id="v") is others


def test_two_routes_give_one_rule_the_same_default():
    with pytest.raises(errors.ConfigError, match="thing:get"):
        Policy((*RULES, policy.admin("thing:get")))


def test_a_rule_that_nobody_declared_allows_nothing():
    assert not Policy(RULES).allows("thing:nosuch", caller("admin"))
