# SPDX-License-Identifier: Apache-2.0
"""The lab's Keystone is a real one: the clients' own library logs in, and a service user may validate their tokens."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from keystoneauth1 import exceptions, session
from keystoneauth1.identity import v3

from lab import keystone, runs

pytestmark = pytest.mark.system

ABACA = "http://127.0.0.1:18786"


@pytest.fixture(scope="module")
def run() -> Iterator[runs.Run]:
    with runs.Run() as run:
        yield run
    assert run.leftovers() == []


@pytest.fixture(scope="module")
def service(run: runs.Run) -> Iterator[keystone.Keystone]:
    with keystone.Keystone(run, ABACA) as service:
        yield service


def test_those_who_log_in_at_once_when_it_has_just_started_all_get_a_token(service: keystone.Keystone) -> None:
    with ThreadPoolExecutor(6) as pool:
        tokens = list(pool.map(service.token, ["demo"] * 6))
    assert all(tokens)


@pytest.mark.parametrize("user", list(keystone.USERS))
def test_each_user_logs_in_and_sees_the_catalog(user: str, service: keystone.Keystone) -> None:
    login = session.Session(auth=v3.Password(**service.credentials(user)))
    assert login.get_endpoint(service_type="shared-file-system") == f"{ABACA}/v2"
    assert login.get_endpoint(service_type="sharev2") == f"{ABACA}/v2"
    assert login.get_user_id() == service.user_id(user)
    assert login.get_project_id() == service.project_id(keystone.USERS[user].projects[0])


@pytest.mark.parametrize(
    ("user", "roles"),
    [
        ("admin", {"admin", "manager", "member", "reader"}),
        ("demo", {"member", "reader"}),
        ("demo-reader", {"reader"}),
        ("other", {"member", "reader"}),
    ],
)
def test_the_service_user_sees_whose_token_it_is(user: str, roles: set[str], service: keystone.Keystone) -> None:
    login = session.Session(auth=v3.Password(**service.credentials("abaca")))
    subject = {"X-Subject-Token": service.token(user)}
    token = login.get(f"{service.auth_url}/auth/tokens", headers=subject).json()["token"]
    assert token["user"]["name"] == user
    assert token["project"]["name"] == keystone.USERS[user].projects[0]
    assert {role["name"] for role in token["roles"]} == roles


def test_a_member_may_not_validate_tokens_of_others(service: keystone.Keystone) -> None:
    login = session.Session(auth=v3.Password(**service.credentials("demo")))
    with pytest.raises(exceptions.Forbidden):
        login.get(f"{service.auth_url}/auth/tokens", headers={"X-Subject-Token": service.token("other")})


def test_the_administrator_is_administrator_of_the_demo_project_too(service: keystone.Keystone) -> None:
    login = session.Session(auth=v3.Password(**service.credentials("admin", project="demo")))
    assert login.get_project_id() == service.project_id("demo")


def test_tokens_outlive_a_restart(service: keystone.Keystone) -> None:
    token = service.token("demo")
    service.stop()
    service.start()
    status, answer = service.call("GET", "/auth/projects", token)
    assert (status, [project["name"] for project in answer["projects"]]) == (200, ["demo"])
