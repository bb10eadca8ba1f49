# SPDX-License-Identifier: Apache-2.0
"""Addresses of share servers that are taken over and given up: whose they are, on each network plug-in."""

import contextlib

import pytest

from abaca import errors
from abaca.db.networks import share_servers
from abaca.networks.contract import AddressNotUsable
from tests.networks.harness import ZONE
from tests.networks.test_contract import TooLate, given, refuse

pytestmark = [
    # the library's, of its own future
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]


@pytest.fixture
def harness(each_plugin):
    return each_plugin


def called(harness, subnet, identifier="filer-7"):
    """A new share server that its back end calls so."""
    server_id = harness.server(subnet)
    with harness.db.write() as tx:
        share_servers.update(tx, server_id, {"identifier": identifier})
    return server_id


def adopted(harness, server_id, subnet, *addresses):
    found = harness.plugin.adopt(server_id, subnet, harness.plugin.look(subnet, ZONE), addresses)
    return [one.ip_address for one in found]


def left(harness, subnet, identifier="filer-7", **more):
    """The address of a server that was given up."""
    server_id = called(harness, subnet, identifier)
    (address,) = given(harness.plugin, server_id, subnet, **more)
    for _ in range(2):
        harness.plugin.leave(server_id)
    assert harness.rows(server_id) == {}
    harness.remove_server(server_id)
    return address


@pytest.mark.parametrize(
    ("cidr", "written", "address"),
    [("10.7.0.0/24", "10.7.0.77", "10.7.0.77"), ("fd07::/64", "fd07:0::00c:7", "fd07::c:7")],
)
def test_a_free_address_at_which_a_server_answers_is_its_own(harness, cidr, written, address):
    subnet = harness.subnet(harness.beneath(cidr))
    server_id = called(harness, subnet)
    for _ in range(2):
        assert adopted(harness, server_id, subnet, written) == [address]
        assert harness.seen(server_id) == [address] == list(harness.rows(server_id).values())
    other = called(harness, subnet, "filer-8")
    with pytest.raises(AddressNotUsable, match="another share server has it"):
        adopted(harness, other, subnet, address)
    assert (harness.seen(other), harness.seen(server_id)) == ([], [address])
    harness.plugin.free(server_id)
    assert harness.seen(server_id) == []


@pytest.mark.parametrize("address", ["10.8.0.7", "10.7.0.0", "10.7.0.255", "10.7.0.1", "fd07::7", "10.7.0.7%lo", "x"])
def test_what_no_server_on_the_subnet_can_have_is_refused(harness, address):
    subnet = harness.subnet(harness.beneath("10.7.0.0/24", "10.7.0.1"))
    server_id = called(harness, subnet)
    with pytest.raises(AddressNotUsable, match="take it over on the subnet on which it answers"):
        adopted(harness, server_id, subnet, "10.7.0.9", address)
    assert harness.seen(server_id) == [] == list(harness.rows(server_id))


def test_what_was_left_is_nobody_elses_until_its_server_is_taken_over_again(harness):
    subnet = harness.subnet(harness.beneath("10.7.0.0/29"))
    address = left(harness, subnet)
    many = [called(harness, subnet, f"filer-{number}") for number in range(10, 16)]
    got = []
    for server_id in many:
        with contextlib.suppress(errors.AbacaError):
            got += given(harness.plugin, server_id, subnet)
    assert len(got) >= 4
    assert address not in got
    other = called(harness, subnet, "filer-8")
    with pytest.raises(AddressNotUsable, match="another share server has it"):
        adopted(harness, other, subnet, address)
    again = called(harness, subnet)
    assert adopted(harness, again, subnet, address) == [address] == harness.seen(again)


def test_who_turns_back_leaves_what_was_left_and_keeps_nothing_else(harness):
    subnet = harness.subnet(harness.beneath("10.7.0.0/24"))
    address = left(harness, subnet)
    free = "10.7.0.77" if address != "10.7.0.77" else "10.7.0.78"
    server_id = called(harness, subnet)
    assert set(adopted(harness, server_id, subnet, address, free)) == {address, free}
    for _ in range(2):
        harness.plugin.disown(server_id)
        assert harness.rows(server_id) == {}
    other = called(harness, subnet, "filer-8")
    assert adopted(harness, other, subnet, free) == [free]
    with pytest.raises(AddressNotUsable):
        adopted(harness, other, subnet, address)


def test_what_was_left_is_given_to_others_when_somebody_says_so(harness):
    subnet = harness.subnet(harness.beneath("10.7.0.0/24"))
    address = left(harness, subnet)
    other = called(harness, subnet, "filer-8")
    with harness.db.read() as tx:
        ((allocation_id, server_id),) = harness.kept(tx)
    assert server_id is None
    assert harness.plugin.let_go(allocation_id)
    assert not harness.plugin.let_go(allocation_id)
    assert adopted(harness, other, subnet, address) == [address]
    (row_id,) = harness.rows(other)
    assert not harness.plugin.let_go(row_id)
    assert harness.seen(other) == [address]


def test_who_comes_too_late_adopts_nothing_and_leaves_nothing(harness):
    plugin, subnet = harness.plugin, harness.subnet(harness.beneath("10.7.0.0/24"))
    server_id = called(harness, subnet)
    network = plugin.look(subnet, ZONE)
    (has,) = given(plugin, server_id, subnet)
    for late in (
        lambda: plugin.adopt(server_id, subnet, network, ["10.7.0.77"], refuse),
        lambda: plugin.disown(server_id, refuse),
        lambda: plugin.leave(server_id, refuse),
    ):
        with pytest.raises(TooLate):
            late()
        assert list(harness.rows(server_id).values()) == [has]


def test_nothing_is_adopted_for_a_server_that_is_gone(harness):
    subnet = harness.subnet(harness.beneath("10.7.0.0/24"))
    with pytest.raises(errors.NotFound):
        adopted(harness, "gone", subnet, "10.7.0.7")
    assert harness.seen("gone") == []
    harness.plugin.disown("gone")
    harness.plugin.leave("gone")
