# SPDX-License-Identifier: Apache-2.0
"""Share servers that serve join a directory, and another one in its place; who fails fails alone, and can be mended."""

import contextlib

import pytest

from tests.operations import cases, directory_cases
from tests.operations.networks.test_share_servers import a_theatre, made, message, servers

FAILS_ONCE = "max_shares_per_share_server = 1\nfailures = update_security_service:Refused:1\n"


@pytest.fixture
def stage(database, tmp_path):
    with contextlib.ExitStack() as stack:
        yield lambda more="": a_theatre(database, tmp_path, stack, more)


def joined(theatre):
    """By share server, in their order, the directory of each type that its back end has it in."""
    held = theatre.drivers[1].contents()["server"]
    return [held[one.id]["security_services"] for one in servers(theatre)]


def change(theatre, network_id, verb, **ids):
    theatre.ask("POST", f"/share-networks/{network_id}/action", {f"{verb}_check": ids})
    theatre.until_ended("security-service-check", network_id)
    theatre.ask("POST", f"/share-networks/{network_id}/action", {verb: ids})
    theatre.settle()
    assert theatre.ask("GET", f"/share-networks/{network_id}")["share_network"]["status"] == "active"


def refused(theatre, network_id, body, version="2.99"):
    path = f"/share-networks/{network_id}/action"
    answer = theatre.world.ask("member", "POST", path, body, **{"x-openstack-manila-api-version": version})
    return answer.status, next(iter(answer.body.values()))["message"]


def test_all_servers_join_and_change_to_another_one(stage):
    theatre = stage("max_shares_per_share_server = 1\n")
    network_id = cases.a_share_network(theatre)
    shares = [made(theatre, network_id)["id"] for _ in range(2)]
    first, second = directory_cases.a_directory(theatre), directory_cases.a_directory(theatre)
    assert joined(theatre) == [{}, {}]
    change(theatre, network_id, "add_security_service", security_service_id=first)
    assert joined(theatre) == [{"ldap": first}] * 2
    change(theatre, network_id, "update_security_service", current_service_id=first, new_service_id=second)
    assert joined(theatre) == [{"ldap": second}] * 2
    has = theatre.ask("GET", f"/security-services?share_network_id={network_id}")["security_services"]
    assert [one["id"] for one in has] == [second]
    assert [theatre.status(one) for one in shares] == ["available"] * 2


def test_a_server_that_fails_is_in_error_with_its_share_and_joins_when_it_is_mended(stage):
    theatre = stage(FAILS_ONCE)
    network_id = cases.a_share_network(theatre)
    shares = [made(theatre, network_id) for _ in range(2)]
    directory = directory_cases.a_directory(theatre)
    change(theatre, network_id, "add_security_service", security_service_id=directory)
    by_status = {one.status: one.id for one in servers(theatre)}
    assert sorted(by_status) == ["active", "error"]
    for share in shares:
        failed = share["share_server_id"] == by_status["error"]
        assert theatre.status(share["id"]) == ("error" if failed else "available")
        if failed:
            assert "update_security_service was ordered to fail" in message(theatre, share["id"])["user_message"]
    cases.mend_share_server(theatre, by_status["error"])
    theatre.settle()
    assert {one.status for one in servers(theatre)} == {"active"}
    assert joined(theatre) == [{"ldap": directory}] * 2
    assert [theatre.status(one["id"]) for one in shares] == ["available"] * 2


def test_what_its_back_end_cannot_is_refused_before_anything_changes(stage):
    theatre = stage("failures = check_security_service:Refused\n")
    network_id = cases.a_share_network(theatre)
    made(theatre, network_id)
    ids = {"security_service_id": directory_cases.a_directory(theatre)}
    assert refused(theatre, network_id, {"add_security_service": ids})[0] == 400
    theatre.ask("POST", f"/share-networks/{network_id}/action", {"add_security_service_check": ids})
    theatre.until_ended("security-service-check", network_id)
    asked = theatre.ask("POST", f"/share-networks/{network_id}/action", {"add_security_service_check": ids})
    assert asked["compatible"] is False
    status, said = refused(theatre, network_id, {"add_security_service": ids})
    assert (status, ids["security_service_id"] in said) == (409, True)
    assert joined(theatre) == [{}]


def test_a_server_that_does_not_support_it_stands_in_the_way(stage):
    theatre = stage()
    network_id = cases.a_share_network(theatre)
    made(theatre, network_id)
    (server,) = servers(theatre)
    body = {"share_server": {"security_service_update_support": False}}
    theatre.ask("PUT", f"//abaca/v1/share-servers/{server.id}", body, who="admin")
    assert not theatre.ask("GET", f"/share-networks/{network_id}")["share_network"]["security_service_update_support"]
    ids = {"security_service_id": directory_cases.a_directory(theatre)}
    for verb in ("add_security_service", "add_security_service_check"):
        status, said = refused(theatre, network_id, {verb: ids})
        assert (status, server.id in said) == (400, True)
    assert refused(theatre, network_id, {"add_security_service": ids}, version="2.62")[0] == 403
