# SPDX-License-Identifier: Apache-2.0
"""The components work together: Abaca on PostgreSQL, its callers known by Keystone."""

from collections.abc import Iterator

import pytest

from lab import caller, keystone, postgres, processes, runs, service

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def run() -> Iterator[runs.Run]:
    with runs.Run() as run:
        yield run
    assert run.leftovers() == []


@pytest.fixture(scope="module")
def identity(run: runs.Run) -> Iterator[keystone.Keystone]:
    with keystone.Keystone(run) as identity:
        yield identity


@pytest.fixture(scope="module")
def abaca(run: runs.Run, identity: keystone.Keystone) -> Iterator[service.Service]:
    with postgres.Postgres(run) as database:
        sections = {
            "DEFAULT": {"auth_strategy": "keystone", "default_share_type": "default"},
            "database": {"connection": database.create_database("abaca")},
            "keystone_authtoken": identity.validation_options(),
        }
        abaca = service.Service(run, sections)
        abaca.upgrade_database()
        with abaca:
            yield abaca


def test_a_member_of_a_project_makes_a_share(abaca: service.Service, identity: keystone.Keystone) -> None:
    caller.ensure_type(caller.Caller(abaca.url, caller.token(identity.token("admin"))))
    member = caller.Caller(abaca.url, caller.token(identity.token("demo")))
    caller.wait_for_pools(caller.Caller(abaca.url, caller.token(identity.token("admin"))))
    share = member.post("/shares", "share", share_proto="NFS", size=1, name="seen")
    assert member.wait(f"/shares/{share['id']}", "available")["project_id"] == identity.project_id("demo")
    stranger = caller.Caller(abaca.url, caller.token(identity.token("other")))
    with pytest.raises(caller.Refused) as refused:
        stranger.get(f"/shares/{share['id']}")
    assert refused.value.status == 404


def test_what_was_made_survives_a_power_cut(abaca: service.Service, identity: keystone.Keystone) -> None:
    children = processes.children(abaca.process.pid)
    abaca.kill()
    assert not any(map(processes.alive, children))
    abaca.start()
    member = caller.Caller(abaca.url, caller.token(identity.token("demo")))
    assert [share["name"] for share in member.get("/shares")] == ["seen"]


def test_a_service_that_cannot_start_says_why(run: runs.Run) -> None:
    broken = service.Service(run, {"DEFAULT": {"auth_strategy": "keystone"}}, directory=run.path("broken"))
    with pytest.raises(processes.LabError, match="keystone_authtoken"):
        broken.start()
