# SPDX-License-Identifier: Apache-2.0
"""A share network with share servers of two back ends, of which one refuses another subnet: neither gets it."""

import contextlib

import pytest

from tests.operations import cases
from tests.operations import theatre as stage
from tests.operations.networks.test_share_servers import addresses, exports, servers

NETWORKS = "//abaca/v1/share-networks"
WANTED = {"subnet": cases.FIELDS}
OTHER = """
[other]
driver = dummy
driver_handles_share_servers = true
failures = check_server_network:Refused
"""


class TwoServing(stage.Theatre):
    """A theatre with two back ends that make share servers; the second refuses what it is asked about subnets."""

    def with_driver(self, written, driver):
        enabled = "enabled_share_backends = alpha"
        return super().with_driver(written, driver).replace(enabled, f"{enabled},other")


@pytest.fixture
def theatre(database, tmp_path):
    with contextlib.ExitStack() as stack:
        made = TwoServing(database, tmp_path, None, stack, makes_servers=True, served=OTHER)
        made.enter()
        for name in ("served", "other"):
            specs = {stage.DHSS: "True", "share_backend_name": name}
            made.ask("POST", "/types", {"share_type": {"name": f"on-{name}", "extra_specs": specs}}, who="admin")
        yield made


def a_network_on_both(theatre):
    """Its id, and those of a share on each back end."""
    network_id = cases.a_share_network(theatre)
    shares = []
    for name in ("served", "other"):
        body = {"share_proto": "NFS", "size": 1, "share_type": f"on-{name}", "share_network_id": network_id}
        shares.append(theatre.ask("POST", "/shares", {"share": body})["share"]["id"])
        theatre.settle()
    assert [theatre.status(share_id) for share_id in shares] == ["available", "available"]
    assert {one.host for one in servers(theatre)} == {"testhost@served", "testhost@other"}
    return network_id, shares


def as_before(theatre, network_id, shares, had):
    """Nothing has come of a refusal."""
    found = theatre.ask("GET", f"/share-networks/{network_id}")["share_network"]
    assert (found["status"], len(found["share_network_subnets"])) == ("active", 1)
    assert {one.status for one in servers(theatre)} == {"active"}
    assert addresses(theatre) == had
    assert [len(exports(theatre, share_id)) for share_id in shares] == [1, 1]


def test_a_check_that_one_of_two_refuses_says_which_and_why(theatre):
    network_id, shares = a_network_on_both(theatre)
    had = addresses(theatre)
    refusing = next(one.id for one in servers(theatre) if one.host == "testhost@other")
    cases.checked(theatre, network_id)
    theatre.settle()
    asked = theatre.ask("POST", f"/share-networks/{network_id}/action", cases.CHECK)
    assert asked["compatible"] is False
    body = {"share-network-subnet": cases.FIELDS}
    answer = theatre.world.ask("member", "POST", f"/share-networks/{network_id}/subnets", body, **cases.VERSION)
    said = answer.body["badRequest"]["message"]
    assert (answer.status, refusing in said, "ordered to fail" in said) == (400, True, True)
    as_before(theatre, network_id, shares, had)


def test_the_own_door_says_it_of_each_server_and_adds_nothing(theatre):
    network_id, shares = a_network_on_both(theatre)
    had = addresses(theatre)
    plan = theatre.ask("POST", f"{NETWORKS}/{network_id}/subnets/plan", WANTED)["plan"]
    hosts = {one.id: one.host for one in servers(theatre)}
    refusals = {hosts[one["id"]]: one["refusal"] for one in plan["share_servers"]}
    assert (plan["is_possible"], refusals["testhost@served"]) == (False, None)
    assert refusals["testhost@other"] == "back end other says no: check_server_network was ordered to fail"
    answer = theatre.world.ask("member", "POST", f"{NETWORKS}/{network_id}/subnets", WANTED)
    assert (answer.status, "ordered to fail" in str(answer.body)) == (400, True)
    as_before(theatre, network_id, shares, had)
