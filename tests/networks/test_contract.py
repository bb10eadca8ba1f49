# SPDX-License-Identifier: Apache-2.0
"""What every network plug-in promises, tried on each, and read back by its own door."""

import ipaddress
import uuid

import pytest

from abaca import errors
from abaca.networks.contract import NetworkUnknown, NoAddress
from tests.db.administration.test_pools import at_once
from tests.networks.harness import OTHER, ZONE

pytestmark = [
    # the library's, of its own future
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]

NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def harness(each_plugin):
    return each_plugin


def given(plugin, server_id, subnet, number=1):
    """The addresses that a server has on a subnet when it wants so many there."""
    found = plugin.allocate(server_id, subnet, plugin.look(subnet, ZONE), number)
    return [one.ip_address for one in found]


@pytest.mark.parametrize(
    ("cidr", "gateway", "version"),
    [("10.7.0.0/24", "10.7.0.1", 4), ("10.8.0.0/24", None, 4), ("fd07::/64", "fd07::1", 6)],
)
def test_what_is_beneath_a_subnet_is_told(harness, cidr, gateway, version):
    ids = harness.beneath(cidr, gateway, mtu=1400)
    found = harness.plugin.look(harness.subnet(ids), ZONE)
    assert (found.cidr, found.gateway, found.ip_version, found.mtu) == (cidr, gateway, version, 1400)
    assert (found.network_type, found.segmentation_id) == harness.segment(ids)


def test_ids_that_nothing_has_are_refused(harness):
    plugin = harness.plugin
    known = harness.beneath("10.7.0.0/24")
    for ids in ((NOBODY, NOBODY), (known[0], NOBODY), (NOBODY, known[1]), ("no such", "../ports"), None):
        with pytest.raises(NetworkUnknown):
            plugin.look(harness.subnet(ids), ZONE)


def test_what_is_another_projects_is_as_if_it_were_not_there(harness):
    plugin = harness.plugin
    theirs = harness.beneath("10.7.0.0/24", project_id=OTHER)
    told = []
    for network_id, subnet_id in (theirs, (NOBODY, NOBODY[::-1])):
        subnet = harness.subnet((network_id, subnet_id))
        with pytest.raises(NetworkUnknown) as caught:
            plugin.look(subnet, ZONE)
        told.append(caught.value.message.replace(subnet.id, "").replace(network_id, "N").replace(subnet_id, "S"))
    assert told[0] == told[1]
    assert plugin.look(harness.subnet(theirs, project_id=OTHER), ZONE).cidr == "10.7.0.0/24"


def test_a_family_that_share_servers_do_not_have_is_refused(harness):
    harness.change(ip_versions=(4,))
    with pytest.raises(NetworkUnknown, match="no addresses of IPv6 here"):
        harness.plugin.look(harness.subnet(harness.beneath("fd07::/64")), ZONE)


@pytest.mark.parametrize(("cidr", "gateway"), [("10.7.0.0/28", "10.7.0.5"), ("fd07::/124", "fd07::5")])
def test_every_address_is_a_hosts_and_given_once_until_none_is_left(harness, cidr, gateway):
    subnet = harness.subnet(harness.beneath(cidr, gateway))
    servers = [harness.server(subnet) for _ in range(3)]
    plugin, found = harness.plugin, []
    network = ipaddress.ip_network(cidr)
    for server_id in servers[:2]:
        found += given(plugin, server_id, subnet, 6)
    with pytest.raises(NoAddress) as caught:
        given(plugin, servers[2], subnet, 6)
    assert len(set(found)) == 12
    assert not {gateway, str(network[0])} & set(found)
    assert all(ipaddress.ip_address(one) in network for one in found)
    assert network.version == 6 or str(network.broadcast_address) not in found
    assert subnet.id in caught.value.message
    assert harness.seen(servers[2]) == [] == list(harness.rows(servers[2]).values())


def test_who_asks_again_has_what_they_have(harness):
    subnet = harness.subnet(harness.beneath("10.7.0.0/24"))
    server_id = harness.server(subnet)
    first = given(harness.plugin, server_id, subnet)
    assert given(harness.plugin, server_id, subnet) == first == harness.seen(server_id)
    both = given(harness.plugin, server_id, subnet, 2)
    assert set(first) < set(both)
    assert given(harness.plugin, server_id, subnet) == both
    assert harness.seen(server_id) == sorted(both) == sorted(harness.rows(server_id).values())


def test_two_subnets_over_the_same_network_have_addresses_of_their_own(harness):
    ids = harness.beneath("10.7.0.0/24")
    network_id = harness.new_network()
    one, other = harness.subnet(ids, of=network_id), harness.subnet(ids, of=network_id)
    server_id = harness.server(one, other)
    assert len({*given(harness.plugin, server_id, one), *given(harness.plugin, server_id, other)}) == 2
    harness.plugin.free(server_id, one.id)
    assert harness.seen(server_id) == given(harness.plugin, server_id, other)


def test_both_families_are_had_together_and_given_back_together(harness):
    network_id = harness.new_network()
    four = harness.subnet(harness.beneath("10.7.0.0/24"), of=network_id)
    six = harness.subnet(harness.beneath("fd07::/64"), of=network_id)
    server_id, other = harness.server(four, six), harness.server(four, six)
    has = [*given(harness.plugin, server_id, four), *given(harness.plugin, server_id, six)]
    stays = given(harness.plugin, other, four)
    assert harness.seen(server_id) == sorted(has)
    for _ in range(2):
        harness.plugin.free(server_id)
        assert harness.seen(server_id) == [] == list(harness.rows(server_id))
    assert harness.seen(other) == stays


def test_nothing_is_given_to_a_server_that_is_gone(harness):
    subnet = harness.subnet(harness.beneath("10.7.0.0/24"))
    server_id = str(uuid.uuid4())
    with pytest.raises(errors.NotFound):
        given(harness.plugin, server_id, subnet)
    assert harness.seen(server_id) == []
    harness.plugin.free(server_id)


def test_several_servers_have_addresses_at_once_and_who_gets_none_is_left_out(harness):
    plugin, wide = harness.plugin, harness.subnet(harness.beneath("10.7.0.0/28", "10.7.0.1"))
    servers, gone = [harness.server(wide) for _ in range(2)], str(uuid.uuid4())
    for _ in range(2):
        found = plugin.allocate_many([*servers, gone], wide, plugin.look(wide, ZONE), 2)
        assert sorted(found) == sorted(servers)
    assert [len(harness.seen(one)) for one in servers] == [2, 2]
    assert len({address for one in servers for address in harness.seen(one)}) == 4
    narrow = harness.subnet(harness.beneath("10.8.0.0/30", "10.8.0.1"))
    servers = [harness.server(narrow) for _ in range(2)]
    (winner,) = plugin.allocate_many(servers, narrow, plugin.look(narrow, ZONE), 1)
    (loser,) = set(servers) - {winner}
    assert (harness.seen(winner), harness.seen(loser), list(harness.rows(loser))) == (["10.8.0.2"], [], [])


class TooLate(Exception):
    pass


def refuse(_tx):
    raise TooLate


def test_who_comes_too_late_takes_nothing_and_gives_nothing_back(harness):
    plugin, subnet = harness.plugin, harness.subnet(harness.beneath("10.7.0.0/24"))
    server_id = harness.server(subnet)
    network = plugin.look(subnet, ZONE)
    has = given(plugin, server_id, subnet)
    for late in (
        lambda: plugin.allocate(server_id, subnet, network, 2, refuse),
        lambda: plugin.allocate_many([server_id], subnet, network, 2, refuse),
        lambda: plugin.free(server_id, guard=refuse),
    ):
        with pytest.raises(TooLate):
            late()
        assert given(plugin, server_id, subnet) == has
        # what was made too late waits for whoever goes on and asks for as much
        assert set(has) <= set(harness.seen(server_id))
    assert sorted(given(plugin, server_id, subnet, 2)) == harness.seen(server_id)


def test_workers_who_ask_at_once_for_one_server_get_it_one_set(harness):
    subnet = harness.subnet(harness.beneath("10.7.0.0/24"))
    server_id = harness.server(subnet)
    found = at_once(4, lambda: given(harness.plugin, server_id, subnet, 2))
    assert len({tuple(sorted(one)) for one in found}) == 1
    assert harness.seen(server_id) == sorted(found[0]) == sorted(harness.rows(server_id).values())


def test_workers_who_ask_at_once_for_many_servers_never_get_the_same(harness):
    subnet = harness.subnet(harness.beneath("10.7.0.0/28"))
    left = [harness.server(subnet) for _ in range(8)]
    servers = list(left)

    def ask():
        return given(harness.plugin, left.pop(), subnet)

    found = [one for addresses in at_once(8, ask) for one in addresses]
    assert len(set(found)) == 8
    assert sorted(one for server_id in servers for one in harness.seen(server_id)) == sorted(found)
