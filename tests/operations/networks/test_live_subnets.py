# SPDX-License-Identifier: Apache-2.0
"""A subnet is added to share networks whose servers serve: export locations follow, and who fails fails alone."""

import contextlib
import datetime

import pytest
import sqlalchemy as sa

from abaca.db.engine.database import Database
from abaca.db.tables.administration import services
from abaca.db.tables.networks import share_network_checks as checks
from abaca.reconcile.expiry import Expiry
from tests import planting
from tests.operations import cases, directory_cases
from tests.operations.networks.test_share_servers import HOST, a_theatre, addresses, exports, made, message, servers

KEPT_S = 604_800


@pytest.fixture
def theatre(database, tmp_path):
    with contextlib.ExitStack() as stack:
        yield a_theatre(
            database, tmp_path, stack, "max_shares_per_share_server = 1\nfailures = update_server_network:Refused:3\n"
        )


def network(theatre, network_id):
    return theatre.ask("GET", f"/share-networks/{network_id}")["share_network"]


def test_one_server_that_fails_is_in_error_with_its_share_and_the_other_goes_on(theatre):
    network_id = cases.a_share_network(theatre)
    shares = [made(theatre, network_id) for _ in range(2)]
    before = addresses(theatre)
    cases.checked(theatre, network_id)
    cases.add_subnet(theatre, network_id)
    theatre.settle()
    assert network(theatre, network_id)["status"] == "active"
    by_status = {one.status: one.id for one in servers(theatre)}
    assert sorted(by_status) == ["active", "error"]
    for share in shares:
        failed = share["share_server_id"] == by_status["error"]
        assert theatre.status(share["id"]) == ("error" if failed else "available")
        assert len(exports(theatre, share["id"])) == (1 if failed else 2)
        if failed:
            assert "update_server_network was ordered to fail" in message(theatre, share["id"])["user_message"]
    assert len(addresses(theatre)) == len(before) + 1


def test_a_share_that_is_not_settled_stands_in_the_way(theatre):
    network_id = cases.a_share_network(theatre)
    share = made(theatre, network_id)
    theatre.ask("POST", f"/shares/{share['id']}/action", {"reset_status": {"status": "error"}}, who="admin")
    answer = theatre.world.ask("member", "POST", f"/share-networks/{network_id}/action", cases.CHECK, **cases.VERSION)
    assert answer.status == 400
    assert share["id"] in answer.body["badRequest"]["message"]


def test_a_check_of_long_ago_counts_no_more_and_a_later_one_does(theatre):
    old, new = cases.checked(theatre), cases.checked(theatre)
    with theatre.db.write() as tx:
        asked = tx.scalar(sa.select(checks.c.created_at).where(checks.c.share_network_id == new))
    planting.put(theatre.db, checks, checks.c.share_network_id == old, created_at=asked - datetime.timedelta(seconds=2))
    later = Database(theatre.db.url, clock=lambda: asked.timestamp() + KEPT_S - 1)
    expiry = Expiry(later, (), keep_messages_s=KEPT_S, keep_operations_s=KEPT_S, keep_events_s=KEPT_S)
    for _ in range(2):
        expiry.operations()
    later.close()
    path, body = f"/share-networks/{old}/subnets", {"share-network-subnet": cases.FIELDS}
    answer = theatre.world.ask("member", "POST", path, body, **cases.VERSION)
    assert answer.status == 400
    assert "no check operation was found for exactly this subnet" in answer.body["badRequest"]["message"]
    cases.add_subnet(theatre, new)
    cases.checked(theatre, old)
    cases.add_subnet(theatre, old)
    theatre.settle()


def test_addresses_at_which_a_back_end_may_serve_still_are_nobody_elses(database, tmp_path):
    """It was told to serve there, and could not take that back."""
    failures = "failures = update_server_network:Refused:1:after,remove_server_network:Refused\n"
    with contextlib.ExitStack() as stack:
        theatre = a_theatre(database, tmp_path, stack, failures)
        network_id = cases.a_share_network(theatre)
        share = made(theatre, network_id)
        cases.checked(theatre, network_id)
        cases.add_subnet(theatre, network_id)
        theatre.settle()
        assert ([one.status for one in servers(theatre)], len(addresses(theatre))) == (["error"], 2)
        cases.delete(theatre, share["id"])
        theatre.settle()
        theatre.ask("DELETE", f"/share-servers/{servers(theatre)[0].id}", who="admin")
        theatre.settle()
        assert (servers(theatre), addresses(theatre)) == ([], [])


def ask(theatre, network_id, body):
    path = f"/share-networks/{network_id}/action"
    return theatre.world.ask("member", "POST", path, body, **cases.VERSION)


@pytest.mark.parametrize("verb", ["share_network_subnet_create_check", "add_security_service_check"])
def test_a_back_end_that_nobody_serves_is_not_asked(theatre, verb):
    network_id = cases.a_share_network(theatre)
    made(theatre, network_id)
    body = cases.FIELDS if verb.startswith("share") else {"security_service_id": directory_cases.a_directory(theatre)}
    theatre.leave()
    long_ago = theatre.db.now() - datetime.timedelta(days=1)
    planting.put(theatre.db, services, services.c.host == HOST, heartbeat_at=long_ago)
    answer = ask(theatre, network_id, {verb: body})
    assert (answer.status, HOST in str(answer.body)) == (503, True)
    theatre.enter()
    planting.put(theatre.db, services, services.c.host == HOST, heartbeat_at=theatre.db.now())
    assert ask(theatre, network_id, {verb: body}).body["compatible"] is None, "it was not asked before"


def test_a_subnet_that_the_check_refused_is_refused_with_its_reason(theatre):
    network_id = cases.a_share_network(theatre)
    made(theatre, network_id)
    (server,) = servers(theatre)
    wanted = {"neutron_net_id": "fields", "neutron_subnet_id": "nosuch"}
    ask(theatre, network_id, {"share_network_subnet_create_check": wanted})
    theatre.until_ended("share-network-check", network_id)
    body = {"share-network-subnet": wanted}
    answer = theatre.world.ask("member", "POST", f"/share-networks/{network_id}/subnets", body, **cases.VERSION)
    said = answer.body["badRequest"]["message"]
    assert (answer.status, server.id in said, "has declared no subnet nosuch" in said) == (400, True, True)


def test_a_subnet_goes_while_shares_are_reached_by_those_of_other_zones(theatre):
    network_id = cases.a_share_network(theatre)
    theatre.ask(
        "POST",
        f"/share-networks/{network_id}/subnets",
        {"share-network-subnet": {**cases.FIELDS, "availability_zone": "nova"}},
    )
    made(theatre, network_id)
    its = theatre.ask("GET", f"/share-networks/{network_id}/subnets")["share_network_subnets"]
    unused, used = (next(one["id"] for one in its if one["availability_zone"] == zone) for zone in (None, "nova"))
    answer = theatre.world.ask("member", "DELETE", f"/share-networks/{network_id}/subnets/{used}", **cases.VERSION)
    assert answer.status == 409
    theatre.ask("DELETE", f"/share-networks/{network_id}/subnets/{unused}")
    left = theatre.ask("GET", f"/share-networks/{network_id}/subnets")["share_network_subnets"]
    assert [one["id"] for one in left] == [used]
