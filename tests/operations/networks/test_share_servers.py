# SPDX-License-Identifier: Apache-2.0
"""Shares on share networks: the first makes its share server, the next are on it, the last leaves it to be deleted."""

import contextlib
import datetime
import threading

import msgspec
import pytest
import sqlalchemy as sa

from abaca import app
from abaca.db.catalog import quotas
from abaca.db.tables.administration import pools
from abaca.db.tables.networks import network_allocations, share_networks, share_servers
from abaca.db.tables.shares import share_instances
from abaca.reconcile.share_servers import UnusedShareServers
from abaca.reconcile.stuck_states import StuckStates
from tests import planting
from tests.api.world import PROJECT
from tests.conftest import wait_until
from tests.operations import cases
from tests.operations import theatre as stage

HOST = "testhost@served"
FIELDS = {"neutron_net_id": "fields", "neutron_subnet_id": "blue"}


def a_theatre(database, directory, stack, served=""):
    made = stage.Theatre(database, directory, None, stack, makes_servers=True, served=served)
    made.enter()
    return made


@pytest.fixture
def theatre(database, tmp_path):
    with contextlib.ExitStack() as stack:
        yield a_theatre(database, tmp_path, stack)


def servers(theatre):
    with theatre.db.read() as tx:
        return tx.rows(sa.select(share_servers).order_by(share_servers.c.created_at, share_servers.c.id))


def addresses(theatre):
    with theatre.db.read() as tx:
        return sorted(row.ip_address for row in tx.rows(sa.select(network_allocations)))


def server_of(theatre, share_id):
    with theatre.db.read() as tx:
        found = sa.select(share_instances.c.share_server_id).where(share_instances.c.share_id == share_id)
        return tx.scalar(found)


def made(theatre, network_id, **more):
    """A share on it, as it has become."""
    share_id = cases.new_share_on(theatre, network_id, **more)
    theatre.settle()
    return theatre.ask("GET", f"/shares/{share_id}", who="admin")["share"]


def message(theatre, share_id):
    (found,) = theatre.ask("GET", f"/messages?resource_id={share_id}")["messages"]
    return found


def exports(theatre, share_id):
    found = theatre.ask("GET", f"/shares/{share_id}/export_locations")["export_locations"]
    return sorted(one["path"].rpartition(":/")[0] for one in found)


def a_wide_network(theatre):
    """With two subnets in the zone, of both address families."""
    network_id = cases.a_share_network(theatre)
    theatre.ask("POST", f"/share-networks/{network_id}/subnets", {"share-network-subnet": FIELDS})
    return network_id


def test_the_first_share_makes_the_server_and_the_next_is_on_it(theatre):
    network_id = cases.a_share_network(theatre)
    first, second = made(theatre, network_id), made(theatre, network_id)
    assert (first["status"], second["status"]) == ("available", "available")
    (server,) = servers(theatre)
    assert first["share_server_id"] == second["share_server_id"] == server.id
    assert (server.status, server.host, server.unused_since) == ("active", HOST, None)
    assert first["share_network_id"] == network_id
    assert exports(theatre, first["id"]) == addresses(theatre)
    assert addresses(theatre)[0].startswith("10.20.0.")


def test_a_server_is_on_all_subnets_of_its_zone_in_both_families(theatre):
    share = made(theatre, a_wide_network(theatre))
    v4, v6 = addresses(theatre)
    assert v4.startswith("10.20.0.")
    assert v6.startswith("fd20::")
    assert exports(theatre, share["id"]) == sorted([v4, f"[{v6}]"])


def test_where_share_servers_are_on_one_subnet_only_a_network_with_two_in_the_zone_has_no_share(theatre):
    """The share says which back end could not; on a network with one subnet there is one."""
    with theatre.db.read() as tx:
        known = tx.row(sa.select(pools).where(pools.c.host.like("%@served#%")))
    cannot = {**known.capabilities, "share_server_multiple_subnet_support": False}
    planting.put(theatre.db, pools, pools.c.host == known.host, capabilities=cannot)
    share = made(theatre, a_wide_network(theatre))
    told = message(theatre, share["id"])
    assert (share["status"], told["action_id"], told["detail_id"]) == ("error", "001", "007")
    assert "The share network has 2 subnets for zone nova, of which share servers reach one." in told["user_message"]
    assert (servers(theatre), addresses(theatre)) == ([], [])
    assert made(theatre, cases.a_share_network(theatre))["status"] == "available"


def test_a_network_without_a_subnet_has_no_share_and_says_so(theatre):
    network_id = cases.a_share_network(theatre)
    (subnet,) = theatre.ask("GET", f"/share-networks/{network_id}/subnets")["share_network_subnets"]
    theatre.ask("DELETE", f"/share-networks/{network_id}/subnets/{subnet['id']}")
    share = made(theatre, network_id)
    told = message(theatre, share["id"])
    assert (share["status"], told["detail_id"]) == ("error", "007")
    assert told["user_message"].endswith("The share network has no subnet for zone nova.")


def test_shares_that_come_at_the_same_moment_are_on_one_server(theatre):
    network_id = cases.a_share_network(theatre)
    theatre.leave()
    shares = [cases.new_share_on(theatre, network_id) for _ in range(4)]
    theatre.enter()
    theatre.settle()
    assert {theatre.status(share_id) for share_id in shares} == {"available"}
    assert {server_of(theatre, share_id) for share_id in shares} == {servers(theatre)[0].id}


def test_networks_have_servers_of_their_own(theatre):
    one, other = made(theatre, cases.a_share_network(theatre)), made(theatre, cases.a_share_network(theatre))
    assert one["share_server_id"] != other["share_server_id"]
    assert len(set(addresses(theatre))) == 2


@pytest.mark.parametrize("limit", ["max_shares_per_share_server = 1", "max_share_server_size = 5"])
def test_a_full_server_gets_no_more_shares(database, tmp_path, limit):
    with contextlib.ExitStack() as stack:
        theatre = a_theatre(database, tmp_path, stack, f"{limit}\n")
        network_id = cases.a_share_network(theatre)
        found = {made(theatre, network_id)["share_server_id"] for _ in range(2)}
        assert len(found) == 2


def test_a_failed_set_up_takes_all_back_and_the_next_share_has_another_try(database, tmp_path):
    with contextlib.ExitStack() as stack:
        theatre = a_theatre(database, tmp_path, stack, "failures = set_up_server:Full:1:after\n")
        network_id = cases.a_share_network(theatre)
        share = made(theatre, network_id)
        assert share["status"] == "error"
        told = message(theatre, share["id"])
        assert told["detail_id"] == "004"
        assert "set_up_server was ordered to fail" in told["user_message"]
        assert addresses(theatre) == []
        assert theatre.drivers[1].contents().get("server", {}) == {}
        assert made(theatre, network_id)["status"] == "available"
        assert sorted(one.status for one in servers(theatre)) == ["active", "error"]
        assert theatre.ask("GET", f"/share-networks/{network_id}")["share_network"]["status"] == "active"


def test_a_server_that_could_not_be_torn_down_keeps_its_addresses_until_it_is_deleted(database, tmp_path):
    with contextlib.ExitStack() as stack:
        failures = "failures = set_up_server:Full:1:after,tear_down_server:Refused:3\n"
        theatre = a_theatre(database, tmp_path, stack, failures)
        share = made(theatre, cases.a_share_network(theatre))
        (server,) = servers(theatre)
        assert (share["status"], server.status, len(addresses(theatre))) == ("error", "error", 1)
        cases.delete(theatre, share["id"])
        theatre.settle()
        theatre.ask("DELETE", f"/share-servers/{server.id}", who="admin")
        theatre.settle()
        assert (servers(theatre), addresses(theatre)) == ([], [])


def test_a_subnet_that_nobody_declares_fails_the_share_with_the_reason(theatre):
    ids = {"neutron_net_id": "nosuch", "neutron_subnet_id": "nosuch"}
    share = made(theatre, cases.a_share_network(theatre, **ids))
    assert share["status"] == "error"
    assert "nosuch" in message(theatre, share["id"])["user_message"]


def test_an_unused_server_is_deleted_after_a_while(theatre):
    network_id = cases.a_share_network(theatre)
    used, unused = made(theatre, network_id), made(theatre, cases.a_share_network(theatre))
    cases.delete(theatre, unused["id"])
    theatre.settle()
    assert UnusedShareServers(theatre.db, [HOST], unused_for_s=600).delete() == 0
    long_ago = theatre.db.now() - datetime.timedelta(hours=1)
    planting.put(theatre.db, share_servers, share_servers.c.id == unused["share_server_id"], unused_since=long_ago)
    assert UnusedShareServers(theatre.db, [HOST], unused_for_s=600).delete() == 1
    theatre.settle()
    assert [one.id for one in servers(theatre)] == [used["share_server_id"]]
    assert len(addresses(theatre)) == 1
    assert list(theatre.drivers[1].contents()["server"]) == [used["share_server_id"]]


@contextlib.contextmanager
def working(theatre, **changed):
    """A whole worker with these settings; what it does by itself has been done once."""
    worker = app.worker(msgspec.structs.replace(theatre.stage.settings, **changed))
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        wait_until(lambda: all(one.is_started for one in worker.queues.values()))
        for task in worker.periodic_tasks:
            if task.name == "unused share servers":
                task.do()
        yield
    finally:
        worker.stop()
        thread.join()
        worker.db.close()


def test_workers_see_to_that_after_as_many_minutes_as_the_operator_says(theatre):
    share = made(theatre, cases.a_share_network(theatre))
    cases.delete(theatre, share["id"])
    theatre.settle()
    theatre.leave()
    since = theatre.db.now() - datetime.timedelta(minutes=21)
    planting.put(theatre.db, share_servers, unused_since=since)
    for stays in ({"automatic_share_server_cleanup": False}, {"unused_share_server_cleanup_interval": 22}):
        with working(theatre, **stays):
            theatre.settle()
            assert [one.status for one in servers(theatre)] == ["active"]
    with working(theatre, unused_share_server_cleanup_interval=20):
        wait_until(lambda: servers(theatre) == [])
    assert addresses(theatre) == []


@pytest.mark.parametrize("status", ["creating", "deleting", "network_change"])
def test_a_busy_server_that_nothing_will_end_is_in_error(theatre, status):
    network_id = cases.a_share_network(theatre)
    made(theatre, network_id)
    theatre.leave()
    planting.put(theatre.db, share_servers, status=status)
    planting.put(theatre.db, share_networks, status="network_change" if status == "network_change" else "active")
    assert StuckStates(theatre.db, [HOST]).heal() == 1
    assert servers(theatre)[0].status == "error"
    assert theatre.ask("GET", f"/share-networks/{network_id}")["share_network"]["status"] == "active"


def test_a_share_that_comes_back_keeps_its_server(theatre):
    network_id = cases.a_share_network(theatre)
    share = made(theatre, network_id)
    cases.delete(theatre, share["id"])
    theatre.settle()
    assert servers(theatre)[0].unused_since is not None
    assert made(theatre, network_id)["share_server_id"] == share["share_server_id"]
    assert servers(theatre)[0].unused_since is None
    assert UnusedShareServers(theatre.db, [HOST], unused_for_s=0).delete() == 0


def test_a_share_server_is_made_for_the_key_of_its_shares_and_only_for_that(theatre):
    """The back end is told the key when it makes one, and again whenever it makes it anew."""
    network_id = cases.a_share_network(theatre)
    specs = {"driver_handles_share_servers": "True", "encryption_support": "share_server"}
    theatre.ask("POST", "/types", {"share_type": {"name": "vault", "extra_specs": specs}}, who="admin")
    wish = {"share_proto": "NFS", "size": 1, "share_type": "vault", "share_network_id": network_id}
    keys = [None, "3d9a0c2e-7d4c-4e0b-9e0c-0d0f5a9d7c11", "6b1f2a90-51f0-4a52-8b6c-7f6f0a1b2c3d"]
    asked = [theatre.ask("POST", "/shares", {"share": wish | {"encryption_key_ref": key}}) for key in (*keys, *keys)]
    theatre.settle()
    on = [server_of(theatre, one["share"]["id"]) for one in asked]
    assert on[:3] == on[3:]
    told = {id: one["encryption_key_ref"] for id, one in theatre.drivers[1].contents()["server"].items()}
    assert told == dict(zip(on, keys, strict=False)) == {one.id: one.encryption_key_ref for one in servers(theatre)}
    theatre.ask("POST", f"//abaca/v1/share-servers/{on[1]}/mend", who="admin")
    theatre.settle()
    assert theatre.drivers[1].contents()["server"][on[1]]["encryption_key_ref"] == keys[1]
    with theatre.db.write() as tx:
        assert quotas.usage(tx, PROJECT)["encryption_keys"] == 2
        assert quotas.recount(tx) == []
    for one in asked:
        theatre.ask("DELETE", f"/shares/{one['share']['id']}")
    theatre.settle()
    with theatre.db.write() as tx:
        assert quotas.usage(tx, PROJECT)["encryption_keys"] == 0
        assert quotas.recount(tx) == []
