# SPDX-License-Identifier: Apache-2.0
"""Several share servers of the local driver get a subnet together, in real network namespaces."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from abaca.drivers import contract
from lab import processes
from tests.drivers.harness import fresh_id
from tests.drivers.test_local_servers import VLANS, local, machines, made_by, on_vlan, pid_of, share_on

__all__ = ["local", "machines"]

pytestmark = pytest.mark.system


def change_of(server, *addresses, share=None):
    """One more subnet for a server, on a segment of its own."""
    new = on_vlan(next(VLANS), *addresses)
    return contract.ServerNetworkChange(server=server, current=[], new=new, instances=[share] if share else [])


def test_several_servers_get_a_subnet_at_once_and_are_reached_there(local, machines):
    vlan = next(VLANS)
    servers = [local.set_up(fresh_id(), [on_vlan(next(VLANS), f"10.35.{place}.4/24")]) for place in range(3)]
    shares = [share_on(local, server, "10.36.0.0/16 rw", "fd77:36::/64 rw") for server in servers]
    pids = [pid_of(local, server) for server in servers]
    changes = []
    for place, (server, share) in enumerate(zip(servers, shares, strict=True)):
        new = on_vlan(vlan, f"10.36.0.{place + 4}/24", f"fd77:36::{place + 4}/64", mtu=1400)
        changes.append(contract.ServerNetworkChange(server=server, current=[], new=new, instances=[share]))
    outcomes = local.driver.update_server_networks(changes)
    assert set(outcomes) == {server.id for server in servers}
    client = machines(local, vlan, "10.36.0.11/24", "fd77:36::11/64")
    for place, (server, share) in enumerate(zip(servers, shares, strict=True)):
        for address in (f"10.36.0.{place + 4}", f"fd77:36::{place + 4}"):
            assert "file" in client.finds(address, share)
        namespace = f"{local.server_directory(server.id)}/netns"
        assert "mtu 1400" in processes.command(["nsenter", f"--net={namespace}", "ip", "link"])
        assert len(outcomes[server.id].exports[share.id]) == 3
    assert [pid_of(local, server) for server in servers] == pids
    links = made_by(local)[0]
    assert set(local.driver.update_server_networks(changes)) == set(outcomes)
    assert made_by(local)[0] == links


def test_what_keeps_one_of_several_from_a_subnet_keeps_nobody_else(local):
    servers = [local.set_up(fresh_id(), [on_vlan(next(VLANS), f"10.37.{place}.4/24")]) for place in range(4)]
    before, held = local.servers(), local.driver.servers.need(servers[2].id)
    changes = [change_of(server, f"10.38.{place}.4/24") for place, server in enumerate(servers[:3])]
    none = contract.Allocation(id="a", ip_address="10.38.3", cidr="10.38.3.0/24")
    wrong = contract.Subnet(id=fresh_id(), allocations=[none])
    changes.append(contract.ServerNetworkChange(server=servers[3], current=[], new=wrong, instances=[]))
    outer, _ = local.driver.servers.segments.cable_names(servers[0].id, changes[0].new.id)
    processes.command(["ip", "link", "add", outer, "type", "bridge"])
    processes.command(["ip", "link", "set", outer, "alias", "of somebody"])
    links = made_by(local)[0]
    try:
        with ThreadPoolExecutor(1) as other:
            other.submit(held.lock.acquire).result()
            assert set(local.driver.update_server_networks(changes)) == {servers[1].id}
            other.submit(held.lock.release).result()
    finally:
        processes.command(["ip", "link", "delete", outer])
    assert local.servers() == {**before, servers[1].id: ["10.37.1.4", "10.38.1.4"]}
    assert len(made_by(local)[0]) == len(links) + 2
    for change in changes[:3]:
        local.driver.update_server_network(change.server, [], change.new, [])
    for server in servers:
        local.driver.tear_down_server(server)


def test_a_cable_that_was_cut_short_is_made_anew_beside_others(local):
    server = local.set_up(fresh_id(), [on_vlan(next(VLANS), "10.39.0.4/24")])
    change = change_of(server, "10.39.1.4/24")
    outer, _ = local.driver.servers.segments.cable_names(server.id, change.new.id)
    processes.command(["ip", "link", "add", outer, "type", "veth"])
    assert set(local.driver.update_server_networks([change])) == {server.id}
    place = f"{local.server_directory(server.id)}/netns"
    shown = processes.command(["nsenter", f"--net={place}", "ip", "address"])
    assert ("10.39.0.4/24" in shown, "10.39.1.4/24" in shown) == (True, True)
