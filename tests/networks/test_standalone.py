# SPDX-License-Identifier: Apache-2.0
"""Declared subnets: who gets the default, what an address costs, and that a death between two steps leaves nothing."""

import multiprocessing
import signal

import pytest
import sqlalchemy as sa

from abaca import settings
from abaca.db.tables.networks import network_allocations
from abaca.domain.ids import new_id
from abaca.networks.contract import NetworkUnknown, NoAddress
from abaca.networks.standalone import Standalone
from tests.db.watched import Watched
from tests.networks import workers
from tests.networks.harness import OTHER, PROJECT, ZONE, StandaloneHarness


@pytest.fixture
def harness(database):
    return StandaloneHarness(database)


def declared(name, cidr, **more):
    return settings.DeclaredSubnet(name=name, cidr=cidr, is_default=True, **more)


@pytest.mark.parametrize(
    ("zone", "project_id", "cidr"),
    [
        ("east", PROJECT, "10.1.0.0/24"),
        ("west", PROJECT, "10.0.0.0/24"),
        ("west", OTHER, "10.0.0.0/24"),
        ("north", OTHER, "10.2.0.0/24"),
        ("north", PROJECT, "10.0.0.0/24"),
    ],
)
def test_a_zones_own_default_goes_before_that_of_all_zones(harness, zone, project_id, cidr):
    known = [
        declared("all", "10.0.0.0/24"),
        declared("east", "10.1.0.0/24", availability_zone="east"),
        declared("theirs", "10.2.0.0/24", availability_zone="north", projects=(OTHER,)),
    ]
    plugin = Standalone(harness.db, settings.Networks(), known)
    assert plugin.look(harness.subnet(None, project_id), zone).cidr == cidr


def test_without_a_default_it_is_said_what_to_give(harness):
    with pytest.raises(NetworkUnknown, match="zone east has no default subnet for this project; give neutron_net_id"):
        harness.plugin.look(harness.subnet(None), ZONE)


def test_a_subnet_of_another_zone_is_refused(harness):
    ids = harness.beneath("10.0.0.0/24", availability_zone="west")
    with pytest.raises(NetworkUnknown, match="sub-0 is of zone west, and the share server is in east"):
        harness.plugin.look(harness.subnet(ids), ZONE)


def test_a_subnet_that_is_no_longer_declared_gives_out_nothing(harness):
    subnet = harness.subnet(harness.beneath("10.0.0.0/24"))
    found = harness.plugin.look(subnet, ZONE)
    plugin = Standalone(harness.db, settings.Networks(), ())
    with pytest.raises(NetworkUnknown, match=r"does not declare .* any more"):
        plugin.allocate(harness.server(subnet), subnet, found, 1)


def fill(harness, server_id, subnet, network, number):
    """Have a server take so many addresses of a subnet, the first ones."""
    same = {"share_server_id": server_id, "share_network_subnet_id": subnet.id, "network": network.key}
    same |= {"ip_version": network.ip_version, "cidr": network.cidr}
    first = int(declared("x", network.cidr).network[0])
    of = type(declared("x", network.cidr).network[0])
    with harness.db.write() as tx:
        rows = [
            {**same, "id": new_id(), "ip_address": str(of(first + one)), "created_at": tx.now}
            for one in range(1, number + 1)
        ]
        tx.execute(sa.insert(network_allocations).inline(), rows)


def texts(watched, plugin):
    """The statements that a plug-in has sent, each a line."""
    return [" ".join(one.text.split()) for one in watched.statements(plugin._db)]


@pytest.mark.parametrize(("cidr", "taken"), [("10.64.0.0/18", 12_000), ("fd07::/64", 12_000)])
def test_an_address_costs_the_same_however_many_are_taken(harness, cidr, taken):
    """Of 16,382 addresses three quarters are taken; of the 18 trillion others nothing is walked."""
    subnet = harness.subnet(harness.beneath(cidr))
    network = harness.plugin.look(subnet, ZONE)
    fill(harness, harness.server(subnet), subnet, network, taken)
    servers = [harness.server(subnet) for _ in range(20)]
    watched = Watched()
    with watched.on():
        plugin = harness.plugin
        found = [plugin.allocate(one, subnet, network, 1)[0].ip_address for one in servers]
    assert len(set(found)) == 20
    sent = texts(watched, plugin)
    assert sum(one.startswith("INSERT INTO network_allocations") for one in sent) in range(20, 400)
    assert [one for one in sent if "network_allocations.network =" in one] == []


def test_the_last_address_of_a_large_subnet_is_found(harness):
    subnet = harness.subnet(harness.beneath("10.0.0.0/22", "10.0.0.1"))
    plugin = harness.plugin
    network = plugin.look(subnet, ZONE)
    fill(harness, harness.server(subnet), subnet, network, 1021)
    assert [one.ip_address for one in plugin.allocate(harness.server(subnet), subnet, network, 1)] == ["10.0.3.254"]
    with pytest.raises(NoAddress, match="all 1021 addresses that n0 gives to share servers are taken"):
        plugin.allocate(harness.server(subnet), subnet, network, 1)


def test_who_is_killed_in_the_middle_has_taken_nothing(harness, database):
    ids = harness.beneath("10.0.0.0/29")
    subnet = harness.subnet(ids)
    server_id = harness.server(subnet)
    network = harness.plugin.look(subnet, ZONE)
    killed = multiprocessing.get_context("spawn").Process(
        target=workers.die_while_taking, args=(database.url, server_id, subnet, network, harness._declared)
    )
    killed.start()
    killed.join(60)
    assert killed.exitcode == -signal.SIGKILL
    assert harness.seen(server_id) == []
    assert len(harness.plugin.allocate(server_id, subnet, network, 6)) == 6


def test_processes_that_take_at_once_take_each_address_once(harness, database):
    subnet = harness.subnet(harness.beneath("10.0.0.0/27"))
    servers = [harness.server(subnet) for _ in range(30)]
    network = harness.plugin.look(subnet, ZONE)
    started = [
        multiprocessing.get_context("spawn").Process(
            target=workers.take_some, args=(database.url, servers[one::2], subnet, network, harness._declared)
        )
        for one in range(2)
    ]
    for one in started:
        one.start()
    for one in started:
        one.join(60)
    assert [one.exitcode for one in started] == [0, 0]
    assert len({address for one in servers for address in harness.seen(one)}) == 30
