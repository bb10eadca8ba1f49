# SPDX-License-Identifier: Apache-2.0
"""No address of a network is given twice, whoever takes it at the same moment; share servers count what is on them."""

import pytest

from abaca.db.engine.database import Database
from abaca.db.networks import allocations, share_network_subnets, share_networks, share_servers
from abaca.domain.networks.allocations import Address, Network
from tests.db.administration.test_pools import at_once

NETWORK = Network(key="red", cidr="10.1.0.0/24", ip_version=4)
CAN = dict.fromkeys(
    ("security_service_update_support", "network_allocation_update_support", "share_server_multiple_subnet_support"),
    True,
)


@pytest.fixture
def db(database):
    opened = Database(database.url, pool_size=16)
    yield opened
    opened.close()


def make_server(tx):
    """A share server on a network of its own; its id and its subnet's."""
    words = {"project_id": "p", "user_id": "u", "name": "red", "description": None}
    network_id = share_networks.add(tx, words)
    subnet_id = share_network_subnets.add(tx, network_id, {"availability_zone": "nova"})
    values = {"project_id": "p", "share_network_id": network_id, "host": "h@b", **CAN}
    return share_servers.add(tx, values, [subnet_id]), subnet_id


def test_of_many_who_take_one_address_one_gets_it(db):
    with db.write() as tx:
        found = [make_server(tx) for _ in range(8)]

    left = list(found)

    def take():
        with db.write() as tx:
            server = left.pop()
            return server[0] if allocations.take(tx, *server, NETWORK, Address("10.1.0.7")) else None

    (winner,) = [one for one in at_once(8, take) if one is not None]
    with db.write() as tx:
        assert allocations.taken(tx, "red") == {"10.1.0.7"}
        assert allocations.taken(tx, "another") == set()
        allocations.give_back(tx, winner)
        assert allocations.taken(tx, "red") == set()
        assert allocations.take(tx, *found[0], NETWORK, Address("10.1.0.7", "fa:16:3e:00:00:07"))
        (has,) = allocations.of_server(tx, found[0][0])
    assert (has.cidr, has.ip_address, has.mac_address) == ("10.1.0.0/24", "10.1.0.7", "fa:16:3e:00:00:07")


def test_a_share_server_is_found_by_its_network_and_goes_with_its_subnets(db):
    with db.write() as tx:
        server_id, subnet_id = make_server(tx)
        server = share_servers.show(tx, server_id)
        assert (server.status, server.host, server.details) == ("creating", "h@b", {})
        assert share_servers.on_network(tx, server.share_network_id) == [server]
        assert share_servers.on_network(tx, server.share_network_id, "another@b") == []
        assert share_servers.subnets_of(tx, [server_id]) == {server_id: [subnet_id]}
        assert share_servers.loads(tx, [server_id])[server_id].shares == 0
        share_servers.delete(tx, server_id)
        assert share_servers.show(tx, server_id) is None
        assert share_servers.subnets_of(tx, [server_id]) == {}
