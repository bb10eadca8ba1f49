# SPDX-License-Identifier: Apache-2.0
"""Share servers, and shares on them, are given up and taken over; nobody else gets their addresses meanwhile."""

import contextlib
import datetime

import pytest
import sqlalchemy as sa

from abaca.db.tables.networks import network_allocations, share_networks, share_servers
from abaca.reconcile.share_servers import UnusedShareServers
from abaca.reconcile.stuck_states import StuckStates
from tests import planting
from tests.operations import cases, server_takeover, takeover
from tests.operations import theatre as stage_of
from tests.operations.networks.test_share_servers import HOST, a_theatre, addresses, exports, made, servers
from tests.operations.snapshot_cases import take_snapshot


@pytest.fixture
def stage(database, tmp_path):
    """`stage(orders)`: a theatre whose back end fails as it is ordered to."""
    with contextlib.ExitStack() as stack:
        yield lambda orders="": a_theatre(database, tmp_path, stack, f"failures = {orders}\n" if orders else "")


@pytest.fixture
def theatre(stage):
    return stage()


def a_released_server(theatre):
    """The share network of a server that was given up, how its back end calls it, and its address."""
    share = made(theatre, cases.a_share_network(theatre))
    (address,) = addresses(theatre)
    cases.delete(theatre, share["id"])
    theatre.settle()
    return (*server_takeover.given_up(theatre, share["share_server_id"]), address)


def kept(theatre):
    """The addresses that are nobody's, by what left them."""
    t = network_allocations
    with theatre.db.read() as tx:
        found = tx.rows(sa.select(t).where(t.c.share_server_id.is_(None)))
    return {(one.left_host, one.left_identifier): one.ip_address for one in found}


def managed(theatre, network_id, identifier, **more):
    """What became of a server that is taken over."""
    server_id = server_takeover.manage(theatre, (network_id, identifier), **more)
    theatre.settle()
    return theatre.ask("GET", f"/share-servers/{server_id}", who="admin")["share_server"]


@contextlib.contextmanager
def planted(theatre, server_id, identifier):
    """Nobody sees how a server is called."""
    with theatre.db.read() as tx:
        before = tx.scalar(sa.select(share_servers.c.identifier).where(share_servers.c.id == server_id))
    planting.put(theatre.db, share_servers, share_servers.c.id == server_id, identifier=identifier)
    yield
    planting.put(theatre.db, share_servers, share_servers.c.id == server_id, identifier=before)


def reason(theatre, kind, server_id):
    return theatre.operation(kind, server_id).error_text


def given_up_here(theatre):
    return theatre.drivers[1].contents().get("unmanaged_server", {})


def test_what_is_taken_over_has_the_address_it_had_and_nobody_had_it_meanwhile(theatre):
    network_id, identifier, address = a_released_server(theatre)
    assert (servers(theatre), kept(theatre)) == ([], {(HOST, identifier): address})
    others = [made(theatre, cases.a_share_network(theatre)) for _ in range(3)]
    assert all(exports(theatre, one["id"]) != [address] for one in others)
    server = managed(theatre, network_id, identifier)
    assert (server["status"], server["identifier"], server["is_auto_deletable"]) == ("active", identifier, False)
    assert server["backend_details"]["addresses"] == address
    assert kept(theatre) == {}
    share = made(theatre, network_id)
    assert (share["share_server_id"], exports(theatre, share["id"])) == (server["id"], [address])


def test_a_share_goes_the_whole_way_with_its_server(theatre):
    share = made(theatre, cases.a_share_network(theatre))
    server_id, path = server_takeover.share_given_up(theatre, share["id"])
    network_id, identifier = server_takeover.given_up(theatre, server_id)
    server = managed(theatre, network_id, identifier)
    share_id = server_takeover.manage_share(theatre, (server["id"], path))
    theatre.settle()
    found = theatre.ask("GET", f"/shares/{share_id}", who="admin")["share"]
    assert (found["status"], found["size"]) == ("available", 3)
    assert (found["share_server_id"], found["share_network_id"]) == (server["id"], network_id)
    (location,) = theatre.ask("GET", f"/shares/{share_id}/export_locations")["export_locations"]
    assert location["path"] == path
    assert theatre.check(theatre.operation("share-manage", share_id)) == []


def test_a_server_that_a_share_was_released_on_is_not_deleted_by_itself(theatre):
    share = made(theatre, cases.a_share_network(theatre))
    server_takeover.share_given_up(theatre, share["id"])
    long_ago = theatre.db.now() - datetime.timedelta(hours=1)
    planting.put(theatre.db, share_servers, unused_since=long_ago)
    assert UnusedShareServers(theatre.db, [HOST], unused_for_s=600).delete() == 0
    assert [one.id for one in servers(theatre)] == [share["share_server_id"]]


def test_a_snapshot_that_was_released_keeps_no_server_and_no_share_network(theatre):
    copied = {"name": "copied there", "extra_specs": {stage_of.DHSS: "True", "snapshot_support": "True"}}
    theatre.ask("POST", "/types", {"share_type": copied}, who="admin")
    network_id = cases.a_share_network(theatre)
    share = made(theatre, network_id, share_type="copied there")
    snapshot_id = take_snapshot(theatre, share["id"])
    theatre.settle()
    takeover.unmanage_snapshot(theatre, (share["id"], snapshot_id))
    theatre.settle()
    cases.delete(theatre, share["id"])
    theatre.settle()
    theatre.ask("DELETE", f"/share-networks/{network_id}")
    theatre.settle()
    assert servers(theatre) == []


def test_one_that_the_back_end_does_not_know_leaves_nothing_but_its_row(theatre):
    network_id = cases.a_share_network(theatre)
    server = managed(theatre, network_id, "nosuch")
    assert server["status"] == "manage_error"
    assert "there is no share server nosuch" in reason(theatre, "share-server-manage", server["id"])
    assert (addresses(theatre), given_up_here(theatre)) == ([], {})
    server_takeover.release(theatre, server["id"])
    theatre.settle()
    assert servers(theatre) == []


def test_one_that_answers_elsewhere_is_not_taken_over(theatre):
    """What was kept for it stays so; its back end goes on as it was."""
    network_id = cases.a_share_network(theatre)
    options = {"driver_options": {"addresses": "10.99.0.5"}}
    server = managed(theatre, network_id, "strayed", **options)
    assert server["status"] == "manage_error"
    said = reason(theatre, "share-server-manage", server["id"])
    assert "Address 10.99.0.5 on subnet" in said
    assert "take it over on the subnet on which it answers" in said
    assert addresses(theatre) == []


def test_one_that_was_left_on_another_network_with_the_same_addresses_is_not_taken_over_here(theatre):
    """The address could be had here as well, and whoever uses it answers there."""
    green = {"neutron_net_id": "hills", "neutron_subnet_id": "green"}
    share = made(theatre, cases.a_share_network(theatre, **green))
    (address,) = addresses(theatre)
    cases.delete(theatre, share["id"])
    theatre.settle()
    there, identifier = server_takeover.given_up(theatre, share["share_server_id"])
    server = managed(theatre, cases.a_share_network(theatre), identifier)
    assert server["status"] == "manage_error"
    said = reason(theatre, "share-server-manage", server["id"])
    assert (f"Address {address}" in said, "it was left in network hills" in said) == (True, True)
    assert (kept(theatre), list(given_up_here(theatre))) == ({(HOST, identifier): address}, [identifier])
    server_takeover.release(theatre, server["id"])
    theatre.settle()
    assert managed(theatre, there, identifier)["status"] == "active"
    assert (kept(theatre), addresses(theatre)) == ({}, [address])


def test_an_address_that_another_server_has_is_not_taken_from_it(theatre):
    share = made(theatre, cases.a_share_network(theatre))
    (address,) = addresses(theatre)
    network_id = cases.a_share_network(theatre)
    server = managed(theatre, network_id, "twin", driver_options={"addresses": address})
    assert server["status"] == "manage_error"
    assert "another share server has it" in reason(theatre, "share-server-manage", server["id"])
    assert exports(theatre, share["id"]) == [address] == addresses(theatre)


def test_when_taking_over_fails_at_last_all_is_as_it_was_given_up(stage):
    theatre = stage("manage_server:Refused:1:after")
    network_id, identifier, address = a_released_server(theatre)
    failed = managed(theatre, network_id, identifier)
    assert failed["status"] == "manage_error"
    assert kept(theatre) == {(HOST, identifier): address}
    assert list(given_up_here(theatre)) == [identifier]
    server_takeover.release(theatre, failed["id"])
    theatre.settle()
    assert kept(theatre) == {(HOST, identifier): address}
    assert managed(theatre, network_id, identifier)["status"] == "active"


def test_a_new_address_of_a_take_over_that_fails_is_free_again(stage):
    theatre = stage("manage_server:Refused:1")
    server = managed(theatre, cases.a_share_network(theatre), "found", driver_options={"addresses": "10.20.0.77"})
    assert (server["status"], addresses(theatre)) == ("manage_error", [])


def test_of_two_who_want_the_same_server_one_gets_it(theatre):
    network_id, identifier, _ = a_released_server(theatre)
    theatre.leave()
    first = server_takeover.manage(theatre, (network_id, identifier))
    with planted(theatre, first, "accepted at the same moment"):
        second = server_takeover.manage(theatre, (network_id, identifier))
    theatre.enter()
    theatre.settle()
    assert {one.id: one.status for one in servers(theatre)} == {first: "active", second: "manage_error"}
    assert f"under management already, as share server {first}" in reason(theatre, "share-server-manage", second)


def test_a_back_end_that_refuses_is_overruled_by_force(stage):
    theatre = stage("unmanage_server:Refused:1")
    share = made(theatre, cases.a_share_network(theatre))
    cases.delete(theatre, share["id"])
    theatre.settle()
    server_id = share["share_server_id"]
    server_takeover.release(theatre, server_id)
    theatre.settle()
    assert servers(theatre)[0].status == "unmanage_error"
    assert "unmanage_server was ordered to fail" in reason(theatre, "share-server-unmanage", server_id)
    server_takeover.release(theatre, server_id, force=True)
    theatre.settle()
    assert servers(theatre) == []
    assert list(kept(theatre)) == [(HOST, f"dummy-{server_id}")]


@pytest.mark.parametrize(
    ("status", "failed"), [("manage_starting", "manage_error"), ("unmanage_starting", "unmanage_error")]
)
def test_what_nothing_will_end_has_failed(theatre, status, failed):
    made(theatre, cases.a_share_network(theatre))
    theatre.leave()
    planting.put(theatre.db, share_servers, status=status)
    assert StuckStates(theatre.db, [HOST]).heal() == 1
    assert servers(theatre)[0].status == failed


def test_what_could_not_be_taken_over_keeps_no_subnet_waiting(theatre):
    network_id = cases.a_share_network(theatre)
    assert managed(theatre, network_id, "nosuch")["status"] == "manage_error"
    body = {"share-network-subnet": {"neutron_net_id": "fields", "neutron_subnet_id": "blue"}}
    theatre.ask("POST", f"/share-networks/{network_id}/subnets", body)
    assert theatre.ask("GET", f"/share-networks/{network_id}")["share_network"]["status"] == "active"


def test_a_network_that_is_no_more_active_takes_none_over(theatre):
    network_id, identifier, _ = a_released_server(theatre)
    planting.put(theatre.db, share_networks, status="error")
    body = {"share_server": {"host": HOST, "share_network_id": network_id, "identifier": identifier}}
    answer = theatre.world.ask("admin", "POST", "/share-servers/manage", body, **cases.VERSION)
    assert answer.status == 400
    said = f"Share network {network_id} is error; try again when it is active."
    assert answer.body["badRequest"]["message"] == said
