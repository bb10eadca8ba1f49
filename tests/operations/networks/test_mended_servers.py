# SPDX-License-Identifier: Apache-2.0
"""A share server that is not as the database says is made so: on demand, and where its back end is ensured."""

import contextlib

import pytest

from abaca.db.networks import share_servers as servers_db
from abaca.db.tables.networks import share_servers
from abaca.db.tables.shares import share_instances
from abaca.drivers import contract
from tests import planting
from tests.operations import cases
from tests.operations.networks.test_live_subnets import network
from tests.operations.networks.test_share_servers import HOST, a_theatre, addresses, exports, made, servers

ORDERED = "failures = {}\n"


@pytest.fixture
def stage(database, tmp_path):
    """`stage(orders)`: a theatre whose back end fails as it is ordered to."""
    with contextlib.ExitStack() as stack:
        yield lambda orders="": a_theatre(database, tmp_path, stack, ORDERED.format(orders) if orders else "")


def a_failed_server(theatre):
    """A share network to whose one server a subnet could not be added, and the share on it."""
    network_id = cases.a_share_network(theatre)
    share = made(theatre, network_id)
    cases.checked(theatre, network_id)
    cases.add_subnet(theatre, network_id)
    theatre.settle()
    assert (servers(theatre)[0].status, theatre.status(share["id"])) == ("error", "error")
    return network_id, share


def mend(theatre, server_id):
    return theatre.ask("POST", f"//abaca/v1/share-servers/{server_id}/mend", who="admin")["share_server"]


def ensure(theatre):
    theatre.ask("POST", "/services/ensure-shares", {"host": HOST}, who="admin")
    theatre.settle()


def on_back_end(theatre):
    return {key: one["addresses"] for key, one in theatre.drivers[1].contents().get("server", {}).items()}


def assert_serves_on(theatre, network_id, share, number):
    """On so many subnets, with the share, and the back end says the same."""
    (server,) = servers(theatre)
    assert (server.status, network(theatre, network_id)["status"]) == ("active", "active")
    with theatre.db.read() as tx:
        assert len(servers_db.subnets_of(tx, [server.id])[server.id]) == number
    assert theatre.status(share["id"]) == "available"
    seen = sorted(one.strip("[]") for one in exports(theatre, share["id"]))
    assert seen == addresses(theatre) == sorted(on_back_end(theatre)[server.id])
    assert len(seen) == number


def test_a_server_that_failed_serves_on_all_subnets_when_it_is_mended(stage):
    theatre = stage("update_server_network:Refused:1")
    network_id, share = a_failed_server(theatre)
    theatre.leave()
    assert mend(theatre, servers(theatre)[0].id)["status"] == "network_change"
    theatre.enter()
    theatre.settle()
    assert_serves_on(theatre, network_id, share, 2)


def test_ensuring_the_back_end_mends_a_server_that_failed(stage):
    theatre = stage("update_server_network:Refused:1")
    network_id, share = a_failed_server(theatre)
    ensure(theatre)
    assert_serves_on(theatre, network_id, share, 2)


def test_one_whose_status_is_set_by_hand_is_mended_where_its_back_end_is_ensured(stage):
    theatre = stage("update_server_network:Refused:1")
    network_id, share = a_failed_server(theatre)
    reset = {"reset_status": {"status": "active"}}
    theatre.ask("POST", f"/share-servers/{servers(theatre)[0].id}/action", reset, who="admin")
    ensure(theatre)
    assert_serves_on(theatre, network_id, share, 2)


def test_ensuring_makes_servers_what_the_database_says(stage):
    theatre = stage()
    network_id = cases.a_share_network(theatre)
    share = made(theatre, network_id)
    driver, (server,) = theatre.drivers[1], servers(theatre)
    other = contract.Allocation(id="another", ip_address="10.20.0.250", cidr="10.20.0.0/24")
    subnets = [contract.Subnet(id="another", allocations=[other])]
    driver.set_up_server(contract.ServerSetup(id=server.id, share_network_id=network_id, subnets=subnets))
    assert on_back_end(theatre) == {server.id: ["10.20.0.250"]}
    ensure(theatre)
    assert_serves_on(theatre, network_id, share, 1)


def test_one_that_fails_again_is_in_error_again_and_as_it_was(stage):
    theatre = stage("update_server_network:Refused:1,set_up_server:Refused:2:after")
    network_id = cases.a_share_network(theatre)
    assert made(theatre, network_id)["status"] == "error"  # its server could not be set up
    failed = servers(theatre)[0].id
    mend(theatre, failed)
    theatre.settle()
    assert [(one.id, one.status) for one in servers(theatre)] == [(failed, "error")]
    assert (addresses(theatre), on_back_end(theatre)) == ([], {})
    assert network(theatre, network_id)["status"] == "active"


def test_a_share_that_was_never_made_stays_in_error(stage):
    theatre = stage("update_server_network:Refused:1,create:Refused:1")
    network_id = cases.a_share_network(theatre)
    never = made(theatre, network_id)
    assert never["status"] == "error"
    share = made(theatre, network_id)
    planting.put(theatre.db, share_servers, status="error")
    planting.put(theatre.db, share_instances, status="error")
    mend(theatre, servers(theatre)[0].id)
    theatre.settle()
    assert (theatre.status(never["id"]), theatre.status(share["id"])) == ("error", "available")


def test_what_the_back_end_has_lost_stays_in_error_with_its_reason(stage):
    theatre = stage("update_server_network:Refused:1")
    _, share = a_failed_server(theatre)
    theatre.drivers[1].delete(cases.instance_of(theatre, share["id"]))
    mend(theatre, servers(theatre)[0].id)
    theatre.settle()
    assert servers(theatre)[0].status == "active"
    assert theatre.status(share["id"]) == "error"


def test_a_server_that_is_being_changed_is_not_mended(stage):
    theatre = stage()
    made(theatre, cases.a_share_network(theatre))
    planting.put(theatre.db, share_servers, status="network_change")
    answer = theatre.world.ask("admin", "POST", f"//abaca/v1/share-servers/{servers(theatre)[0].id}/mend")
    assert (answer.status, "network_change" in str(answer.body)) == (409, True)


def test_a_server_on_which_nothing_is_stays_in_error_when_its_back_end_is_ensured(stage):
    theatre = stage("set_up_server:Full:1")
    network_id = cases.a_share_network(theatre)
    share = made(theatre, network_id)
    cases.delete(theatre, share["id"])
    theatre.settle()
    ensure(theatre)
    assert [one.status for one in servers(theatre)] == ["error"]
    assert addresses(theatre) == []
