# SPDX-License-Identifier: Apache-2.0
"""Ports of a real Neutron: what they say, what refuses them, and what is left when somebody dies or is away."""

import contextlib
import logging
import socket
import time
import uuid

import pytest

from abaca.networks.contract import AddressNotUsable, NetworkUnknown, NetworkUnreachable, NoAddress
from abaca.reconcile.network_allocations import NetworkAllocations
from lab import keystone
from lab.neutron import BINDING_HOST
from tests.networks.harness import OTHER, PROJECT, ZONE

pytestmark = [
    pytest.mark.system,
    # the library's, of its own future
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]


def served(harness, cidr="10.7.0.0/24", **more):
    """A subnet, a share server on it, and what is beneath."""
    subnet = harness.subnet(harness.beneath(cidr, **more))
    return subnet, harness.server(subnet), harness.plugin.look(subnet, ZONE)


def test_a_port_says_whose_it_is(harness):
    subnet, server_id, network = served(harness)
    (allocation,) = harness.plugin.allocate(server_id, subnet, network, 1)
    (port,) = harness.ports(server_id)
    assert (port.device_owner, port.device_id, port.name) == ("manila:share", server_id, f"share-server-{server_id}")
    assert (port.project_id, port.is_admin_state_up, port.network_id) == (PROJECT, True, subnet.neutron_net_id)
    assert port.description == f"abaca {harness.options.neutron_deployment} {subnet.id}"
    assert port.fixed_ips == [{"subnet_id": subnet.neutron_subnet_id, "ip_address": allocation.ip_address}]
    assert (allocation.id, allocation.mac_address) == (port.id, port.mac_address)
    assert (allocation.cidr, allocation.network, allocation.mtu) == (network.cidr, network.key, network.mtu)


def test_a_port_of_another_kind_is_not_adopted_and_one_of_share_servers_is(harness):
    """As those that a Manila has made; when that is undone nothing of ours is taken for the owner of one."""
    subnet, server_id, network = served(harness)
    ports = {}
    for number, owner in ((7, "compute:nova"), (8, "manila:share")):
        fixed = [{"subnet_id": subnet.neutron_subnet_id, "ip_address": f"10.7.0.{number}"}]
        ports[number] = harness.neutron.create_port(
            network_id=subnet.neutron_net_id, fixed_ips=fixed, device_owner=owner, device_id="theirs"
        )
    with pytest.raises(AddressNotUsable, match=r"for compute:nova and not for manila:share"):
        harness.plugin.adopt(server_id, subnet, network, ["10.7.0.9", "10.7.0.7"])
    assert (harness.ports(server_id), harness.rows(server_id)) == ([], {})
    (allocation,) = harness.plugin.adopt(server_id, subnet, network, ["10.7.0.8"])
    port = harness.neutron.get_port(ports[8].id)
    assert (port.id, port.mac_address) == (allocation.id, allocation.mac_address)
    assert (port.device_id, port.description) == ("theirs", f"abaca {harness.options.neutron_deployment} {subnet.id}")
    assert NetworkAllocations(harness.db, harness.plugin).heal() == 0
    assert list(NetworkAllocations(harness.db, harness.plugin).sweep(with_unknown=True)) == []
    harness.plugin.disown(server_id)
    assert harness.rows(server_id) == {}
    assert list(NetworkAllocations(harness.db, harness.plugin).sweep(with_unknown=True)) == []
    assert harness.neutron.get_port(port.id).device_id == "theirs"
    harness.plugin.adopt(server_id, subnet, network, ["10.7.0.8"])
    harness.plugin.free(server_id)
    assert harness.neutron.find_port(port.id) is None


def test_a_new_port_for_an_address_goes_when_its_adoption_is_undone(harness):
    subnet, server_id, network = served(harness)
    harness.plugin.adopt(server_id, subnet, network, ["10.7.0.8"])
    (port,) = harness.ports(server_id)
    assert port.fixed_ips == [{"subnet_id": subnet.neutron_subnet_id, "ip_address": "10.7.0.8"}]
    harness.plugin.disown(server_id)
    assert harness.ports(server_id) == []


def test_an_interrupted_adoption_is_taken_up_again_or_undone(harness):
    """The port was made, and its row was not written."""
    subnet, server_id, network = served(harness)
    plugin = harness.plugin
    with plugin._asking() as neutron:
        made = plugin._make(neutron, server_id, subnet, PROJECT, "10.7.0.8")
    assert [one.id for one in plugin.adopt(server_id, subnet, network, ["10.7.0.8"])] == [made.id]
    plugin.free(server_id)
    with plugin._asking() as neutron:
        plugin._make(neutron, server_id, subnet, PROJECT, "10.7.0.8")
    plugin.disown(server_id)
    assert harness.ports(server_id) == []


def test_what_an_interrupted_call_has_made_is_taken_first(harness):
    """The port was made, and its row was not written."""
    subnet, server_id, network = served(harness)
    plugin = harness.plugin
    with plugin._asking() as neutron:
        made = plugin._make(neutron, server_id, subnet, PROJECT)
    assert harness.rows(server_id) == {}
    assert [one.id for one in plugin.allocate(server_id, subnet, network, 1)] == [made.id]
    assert [one.id for one in harness.ports(server_id)] == [made.id]


def test_what_an_interrupted_call_has_made_is_given_back_too(harness):
    subnet, server_id, _ = served(harness)
    plugin = harness.plugin
    with plugin._asking() as neutron:
        plugin._make(neutron, server_id, subnet, PROJECT)
    plugin.free(server_id)
    assert harness.ports(server_id) == []


def test_ports_of_others_for_the_same_server_are_left_alone(harness):
    """Another Abaca, or a Manila, at the same Neutron."""
    subnet, server_id, network = served(harness)
    said = {"network_id": subnet.neutron_net_id, "device_owner": "manila:share", "device_id": server_id}
    theirs = [
        harness.neutron.create_port(**said),
        harness.neutron.create_port(description=f"abaca another {subnet.id}", **said),
    ]
    harness.plugin.allocate(server_id, subnet, network, 1)
    assert len(harness.ports(server_id)) == 3
    harness.plugin.free(server_id)
    assert {one.id for one in harness.ports(server_id)} == {one.id for one in theirs}


def test_a_quota_that_is_used_up_is_told_in_neutrons_words(harness):
    subnet = harness.subnet(harness.beneath("10.7.0.0/24", project_id=OTHER), project_id=OTHER)
    server_id, network = harness.server(subnet), harness.plugin.look(subnet, ZONE)
    harness.neutron.put(f"/quotas/{OTHER}", json={"quota": {"port": 1}})
    try:
        with pytest.raises(NoAddress, match=r"Quota exceeded for resources: \['port'\]"):
            harness.plugin.allocate(server_id, subnet, network, 2)
    finally:
        harness.neutron.delete(f"/quotas/{OTHER}")
    assert harness.ports(server_id) == []


def test_no_address_is_told_in_neutrons_words(harness):
    subnet, server_id, network = served(harness, "10.7.0.0/30")
    with pytest.raises(NoAddress, match="No more IP addresses available on network"):
        harness.plugin.allocate(server_id, subnet, network, 3)
    assert harness.ports(server_id) == []


def test_a_network_that_is_gone_since_is_told(harness):
    subnet, server_id, network = served(harness)
    harness.neutron.delete_subnet(subnet.neutron_subnet_id)
    with pytest.raises(NetworkUnknown, match="IP allocation requires subnets for network"):
        harness.plugin.allocate(server_id, subnet, network, 1)


def test_a_network_that_is_shared_with_a_project_may_be_used(harness):
    ids = harness.beneath("10.7.0.0/24", project_id=OTHER)
    with pytest.raises(NetworkUnknown):
        harness.plugin.look(harness.subnet(ids), ZONE)
    said = {"object_type": "network", "object_id": ids[0], "action": "access_as_shared"}
    harness.neutron.create_rbac_policy(target_project_id=PROJECT, **said)
    assert harness.plugin.look(harness.subnet(ids), ZONE).cidr == "10.7.0.0/24"


def test_of_a_network_with_both_families_each_subnet_has_its_own_addresses(harness):
    """Neutron gives each port there an address of a subnet with SLAAC, whether one was asked for or not."""
    ids = harness.beneath("10.7.0.0/24")
    slaac = {"ip_version": 6, "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac", "project_id": PROJECT}
    six = harness.neutron.create_subnet(network_id=ids[0], cidr="fd07::/64", **slaac).id
    network_id = harness.new_network()
    four, other = harness.subnet(ids, of=network_id), harness.subnet((ids[0], six), of=network_id)
    server_id = harness.server(four, other)
    plugin = harness.plugin
    has = [plugin.allocate(server_id, one, plugin.look(one, ZONE), 1) for one in (four, other)]
    assert [[one.ip_version for one in each] for each in has] == [[4], [6]]
    assert [":" in each[0].ip_address for each in has] == [False, True]
    plugin.free(server_id, four.id)
    assert list(harness.rows(server_id).values()) == [has[1][0].ip_address]
    assert len(harness.ports(server_id)) == 1


def test_of_several_segments_the_settings_say_which(harness):
    segments = [
        {"provider:network_type": "vxlan", "provider:segmentation_id": 1800},
        {
            "provider:network_type": "vlan",
            "provider:physical_network": "physnet1",
            "provider:segmentation_id": 123,
        },
    ]
    subnet = harness.subnet(harness.beneath("10.7.0.0/24", segments=segments))
    with pytest.raises(NetworkUnknown, match="has several segments, and none is chosen"):
        harness.plugin.look(subnet, ZONE)
    harness.change(neutron_physical_network="physnet9")
    with pytest.raises(NetworkUnknown, match="none is on physnet9"):
        harness.plugin.look(subnet, ZONE)
    harness.change(neutron_physical_network="physnet1")
    found = harness.plugin.look(subnet, ZONE)
    assert (found.network_type, found.segmentation_id) == ("vlan", 123)


def test_ports_are_bound_where_the_settings_say(harness):
    subnet, server_id, network = served(harness)
    harness.change(neutron_host_id=BINDING_HOST, neutron_vnic_type="baremetal")
    harness.plugin.allocate(server_id, subnet, network, 1)
    (port,) = harness.ports(server_id)
    assert (port.binding_host_id, port.binding_vnic_type) == (BINDING_HOST, "baremetal")


def test_a_host_to_which_nothing_can_be_bound_is_told_and_no_port_is_left(harness):
    subnet, server_id, network = served(harness)
    harness.change(neutron_host_id="nowhere")
    with pytest.raises(NetworkUnknown, match=r"cannot bind a port to host nowhere \(neutron_host_id in \[networks\]\)"):
        harness.plugin.allocate(server_id, subnet, network, 1)
    assert harness.ports(server_id) == []


@contextlib.contextmanager
def silence():
    """A port of loopback that takes connections and says nothing."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        yield silent.getsockname()[1]


def test_a_neutron_that_is_silent_counts_as_away_in_time(harness):
    subnet, server_id, network = served(harness)
    with silence() as port:
        text = harness.clouds.read_text()
        override = f'"network_endpoint_override": "http://127.0.0.1:{port}"'
        harness.clouds.write_text(text.replace('"region_name"', f'{override}, "region_name"'))
        harness.change(neutron_timeout_s=0.5)
        plugin = harness.plugin
        for ask in (
            lambda: plugin.look(subnet, ZONE),
            lambda: plugin.allocate(server_id, subnet, network, 1),
            lambda: plugin.free(server_id),
        ):
            begun = time.monotonic()
            with pytest.raises(NetworkUnreachable):
                ask()
            assert time.monotonic() - begun < 10


def test_a_password_that_is_refused_is_told_and_never_shown(harness, caplog, capsys):
    subnet, *_ = served(harness)
    caplog.set_level(logging.DEBUG)
    secret = f"hush-{uuid.uuid4()}"
    harness.clouds.write_text(harness.clouds.read_text().replace(keystone.USERS["admin"].password, secret))
    with pytest.raises(NetworkUnreachable) as caught:
        harness.plugin.look(subnet, ZONE)
    assert "401" in caught.value.message
    assert secret not in caught.value.message + caplog.text + "".join(capsys.readouterr())
