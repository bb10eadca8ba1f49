# SPDX-License-Identifier: Apache-2.0
"""The local driver gives share servers up and takes them over while clients use them: on real namespaces."""

import msgspec
import pytest

from abaca.drivers import contract
from tests.drivers.harness import LocalServersHarness, fresh_id
from tests.drivers.test_local_servers import VLANS, cut_off, machines, made_by, on_vlan, pid_of, share_on

pytestmark = pytest.mark.system

__all__ = ["machines"]


@pytest.fixture
def local():
    made = LocalServersHarness()
    made.start()
    yield made
    made.close()


def served(local, vlan, address):
    """A share server, and what it is made of."""
    subnet = on_vlan(vlan, f"{address}/24")
    return local.set_up(fresh_id(), [subnet]), subnet


def wanted(subnet, **more):
    """What a server shall be that is taken over: in another share network, and so on another subnet there."""
    other = msgspec.structs.replace(subnet, id=fresh_id(), **more)
    return contract.ServerSetup(id=fresh_id(), share_network_id=fresh_id(), subnets=[other])


def test_clients_go_on_while_their_server_is_given_up_and_taken_over(local, machines):
    vlan = next(VLANS)
    server, subnet = served(local, vlan, "10.60.1.4")
    client = machines(local, vlan, "10.60.1.11/24")
    share = share_on(local, server, "10.60.1.11 rw")
    pid = pid_of(local, server)
    path = local.driver.create(share).exports[0]
    local.driver.unmanage(share)
    local.driver.unmanage_server(server)
    assert "file" in client.finds("10.60.1.4", share)
    local.start()
    assert "file" in client.finds("10.60.1.4", share)
    setup = wanted(subnet)
    details = local.driver.manage_server(setup, server.id, {})
    taken = contract.ShareServer(id=setup.id, details=details)
    assert (details["identifier"], details["addresses"]) == (server.id, "10.60.1.4")
    assert pid_of(local, taken) == pid
    assert "file" in client.finds("10.60.1.4", share)
    found = local.instance(server=taken, exports=[path], size_gib=0)
    managed = local.driver.manage(found, {})
    found = local.instance(
        id=found.id, server=taken, exports=managed.exports, driver_data=managed.driver_data, size_gib=managed.size_gib
    )
    assert "file" in client.finds("10.60.1.4", share)
    assert local.read(found) == "text"
    local.driver.delete(found)
    local.driver.tear_down_server(taken)


def test_what_was_given_up_and_what_was_taken_over_come_back_after_a_reboot(local):
    first, _ = served(local, next(VLANS), "10.61.1.4")
    second, subnet = served(local, next(VLANS), "10.61.2.4")
    for one in (first, second):
        local.driver.unmanage_server(one)
    setup = wanted(subnet)
    details = local.driver.manage_server(setup, second.id, {})
    there = made_by(local)
    cut_off(local, [contract.ShareServer(id=setup.id, details=details)])
    local.start()
    assert [len(one) for one in made_by(local)] == [len(one) for one in there]
    assert local.servers() == {local.server.id: ["10.9.0.4", "fd77:9::4"], setup.id: ["10.61.2.4"]}
    assert local.driver.find_server_addresses(first.id, {}) == ["10.61.1.4"]


def test_one_is_not_taken_over_on_another_segment(local):
    server, subnet = served(local, next(VLANS), "10.62.1.4")
    local.driver.unmanage_server(server)
    with pytest.raises(contract.Refused, match="name the share network in which it answers"):
        local.driver.manage_server(wanted(subnet, segmentation_id=next(VLANS)), server.id, {})
    assert local.driver.find_server_addresses(server.id, {}) == ["10.62.1.4"]


def test_deleting_or_making_what_was_given_up_by_its_old_id_harms_nobody(local):
    server, subnet = served(local, next(VLANS), "10.63.1.4")
    local.driver.unmanage_server(server)
    local.driver.tear_down_server(server)
    assert local.driver.find_server_addresses(server.id, {}) == ["10.63.1.4"]
    taken = wanted(subnet)
    local.driver.manage_server(taken, server.id, {})
    local.driver.tear_down_server(server)
    again = contract.ServerSetup(id=server.id, share_network_id="n", subnets=[subnet])
    with pytest.raises(contract.Refused, match="release that share server first"):
        local.driver.set_up_server(again)
    assert local.servers()[taken.id] == ["10.63.1.4"]
    local.driver.unmanage_server(contract.ShareServer(id=taken.id))
    assert local.driver.set_up_server(again)["identifier"] == server.id
    assert local.servers()[server.id] == ["10.63.1.4"]


def test_a_share_of_a_server_that_goes_is_taken_over_on_another(local, machines):
    vlan = next(VLANS)
    (first, _), (second, _) = served(local, vlan, "10.64.1.4"), served(local, vlan, "10.64.1.5")
    client = machines(local, vlan, "10.64.1.11/24")
    share = share_on(local, first, "10.64.1.11 rw")
    local.driver.unmanage(share)
    found = local.instance(server=second, exports=[contract.Export(path=f"unmanaged/{share.id}")], size_gib=0)
    local.driver.manage(found, {})
    local.driver.set_access(found, local.rules("10.64.1.11 rw"))
    assert "file" in client.finds("10.64.1.5", found)
    assert str(local.mounted(share)) not in local.shown(local.server_directory(first.id))
    local.driver.tear_down_server(first)
    assert "file" in client.finds("10.64.1.5", found)
