# SPDX-License-Identifier: Apache-2.0
"""Subnets of one share network with the same addresses: a share server has them of one network, never of two."""

import contextlib

import pytest

from tests.operations import cases
from tests.operations.networks.test_share_servers import a_theatre, addresses, exports, made, message, servers

NETWORKS = "//abaca/v1/share-networks"
# Of three networks; the default one, which needs no ids, has addresses of both.
GREEN = {"neutron_net_id": "hills", "neutron_subnet_id": "green"}
BROWN = {"neutron_net_id": "woods", "neutron_subnet_id": "brown"}


@pytest.fixture
def theatre(database, tmp_path):
    with contextlib.ExitStack() as stack:
        yield a_theatre(database, tmp_path, stack)


def subnets(theatre, network_id):
    return theatre.ask("GET", f"/share-networks/{network_id}/subnets")["share_network_subnets"]


def add(theatre, network_id, wanted):
    """What comes of asking for it as version 2.70 has it."""
    body = {"share-network-subnet": wanted}
    return theatre.world.ask("member", "POST", f"/share-networks/{network_id}/subnets", body, **cases.VERSION)


def check(theatre, network_id, wanted):
    """What the check says at last, to administrators."""
    path, body = f"/share-networks/{network_id}/action", {"share_network_subnet_create_check": wanted}
    theatre.ask("POST", path, body)
    theatre.settle()
    return theatre.ask("POST", path, body, who="admin")


def test_the_same_subnet_twice_is_two_addresses_on_it(theatre):
    """As clients may ask for, before a share server is there and while one serves."""
    network_id = cases.a_share_network(theatre)
    assert add(theatre, network_id, {}).status == 200
    share = made(theatre, network_id)
    assert share["status"] == "available"
    assert check(theatre, network_id, {})["compatible"] is True
    assert add(theatre, network_id, {}).status == 200
    theatre.settle()
    assert len(set(addresses(theatre))) == 3
    assert exports(theatre, share["id"]) == addresses(theatre)


def test_a_share_server_is_not_made_on_two_networks_with_the_same_addresses(theatre):
    network_id = cases.a_share_network(theatre)
    assert add(theatre, network_id, GREEN).status == 200
    share = made(theatre, network_id)
    assert share["status"] == "error"
    told = message(theatre, share["id"])
    assert told["detail_id"] == "004"
    assert ("10.20.0.128/25" in told["user_message"], "10.20.0.0/24" in told["user_message"]) == (True, True)
    assert (addresses(theatre), theatre.drivers[1].contents().get("server", {})) == ([], {})
    cases.delete(theatre, share["id"])
    theatre.settle()
    (green,) = (one for one in subnets(theatre, network_id) if one["neutron_subnet_id"] == "green")
    theatre.ask("DELETE", f"/share-networks/{network_id}/subnets/{green['id']}")
    assert made(theatre, network_id)["status"] == "available"


def test_zones_may_have_the_same_addresses(theatre):
    """No share server is in two of them."""
    network_id = cases.a_share_network(theatre)
    assert add(theatre, network_id, {**GREEN, "availability_zone": "nova"}).status == 200
    share = made(theatre, network_id)
    assert share["status"] == "available"
    assert exports(theatre, share["id"]) == addresses(theatre)


def test_a_server_that_serves_gets_no_addresses_twice_and_says_of_which(theatre):
    network_id = cases.a_share_network(theatre)
    share = made(theatre, network_id)
    (server,) = servers(theatre)
    had = addresses(theatre)
    said = check(theatre, network_id, GREEN)
    assert (said["compatible"], said["hosts_check_result"]) == (False, {"testhost@served": False})
    refused = add(theatre, network_id, GREEN)
    assert refused.status == 400
    for word in (server.id, "10.20.0.128/25", "10.20.0.0/24"):
        assert word in refused.body["badRequest"]["message"]
    plan = theatre.ask("POST", f"{NETWORKS}/{network_id}/subnets/plan", {"subnet": GREEN})["plan"]
    (planned,) = plan["share_servers"]
    assert (plan["is_possible"], "10.20.0.128/25" in planned["refusal"]) == (False, True)
    answer = theatre.world.ask("member", "POST", f"{NETWORKS}/{network_id}/subnets", {"subnet": GREEN})
    assert (answer.status, "10.20.0.128/25" in str(answer.body)) == (400, True)
    assert (len(subnets(theatre, network_id)), addresses(theatre)) == (1, had)
    assert exports(theatre, share["id"]) == had


def test_what_was_said_before_another_subnet_came_counts_no_more(theatre):
    """Each of the two could be had, and both together cannot."""
    network_id = cases.a_share_network(theatre, **cases.FIELDS)
    share = made(theatre, network_id)
    for wanted in (GREEN, BROWN):
        assert check(theatre, network_id, wanted)["compatible"] is True
    assert add(theatre, network_id, GREEN).status == 200
    theatre.settle()
    refused = add(theatre, network_id, BROWN)
    assert (refused.status, "no check operation was found" in str(refused.body)) == (400, True)
    assert check(theatre, network_id, BROWN)["compatible"] is False
    (server,) = servers(theatre)
    assert (server.status, theatre.status(share["id"])) == ("active", "available")


def test_what_was_said_before_a_subnet_went_counts_no_more(theatre):
    network_id = cases.a_share_network(theatre, **cases.FIELDS)
    assert add(theatre, network_id, BROWN).status == 200
    share = made(theatre, network_id)
    assert check(theatre, network_id, GREEN)["compatible"] is False
    (brown,) = (one for one in subnets(theatre, network_id) if one["neutron_subnet_id"] == "brown")
    theatre.ask("DELETE", f"{NETWORKS}/{network_id}/subnets/{brown['id']}")
    theatre.settle()
    assert check(theatre, network_id, GREEN)["compatible"] is True
    assert add(theatre, network_id, GREEN).status == 200
    theatre.settle()
    assert len(exports(theatre, share["id"])) == 2


def test_a_server_made_since_is_asked_as_well(database, tmp_path):
    with contextlib.ExitStack() as stack:
        theatre = a_theatre(database, tmp_path, stack, "max_shares_per_share_server = 1\n")
        network_id = cases.a_share_network(theatre, **cases.FIELDS)
        made(theatre, network_id)
        assert check(theatre, network_id, GREEN)["compatible"] is True
        made(theatre, network_id)
        refused = add(theatre, network_id, GREEN)
        assert (refused.status, "no check operation was found" in str(refused.body)) == (400, True)
        assert check(theatre, network_id, GREEN)["compatible"] is True
        assert add(theatre, network_id, GREEN).status == 200
        theatre.settle()
        assert len(addresses(theatre)) == 4


def test_a_server_is_mended_when_the_subnet_that_it_cannot_have_is_gone(database, tmp_path):
    """The subnets came while it was to go, so that it was not asked; and then it stayed."""
    with contextlib.ExitStack() as stack:
        theatre = a_theatre(database, tmp_path, stack, "failures = tear_down_server:Refused:1\n")
        network_id = cases.a_share_network(theatre, **cases.FIELDS)
        share = made(theatre, network_id)
        cases.delete(theatre, share["id"])
        theatre.settle()
        (server,) = servers(theatre)
        theatre.leave()
        theatre.ask("DELETE", f"/share-servers/{server.id}", who="admin")
        assert [add(theatre, network_id, one).status for one in (GREEN, BROWN)] == [200, 200]
        theatre.enter()
        theatre.settle()
        assert ([one.status for one in servers(theatre)], len(addresses(theatre))) == (["error"], 1)
        theatre.ask("POST", f"//abaca/v1/share-servers/{server.id}/mend", who="admin")
        theatre.settle()
        assert ([one.status for one in servers(theatre)], len(addresses(theatre))) == (["error"], 1)
        assert "has addresses of 10.20.0" in theatre.operation("share-server-mend", server.id).error_text
        (brown,) = (one for one in subnets(theatre, network_id) if one["neutron_subnet_id"] == "brown")
        theatre.ask("DELETE", f"/share-networks/{network_id}/subnets/{brown['id']}")
        theatre.ask("POST", f"//abaca/v1/share-servers/{server.id}/mend", who="admin")
        theatre.settle()
        assert ([one.status for one in servers(theatre)], len(addresses(theatre))) == (["active"], 2)
