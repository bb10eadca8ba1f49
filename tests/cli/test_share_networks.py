# SPDX-License-Identifier: Apache-2.0
"""`abaca share-network`: subnets are added and taken away beside the database, and tried dry."""

import json

import pytest

from abaca.db.engine.database import Database
from abaca.db.networks import share_network_subnets, share_networks, share_servers
from abaca.domain.networks.share_servers import CAPABILITIES


@pytest.fixture
def give(abaca, config, tmp_path):
    """A function that gives the command; there is a share network `fields` with two subnets."""
    abaca("db", "upgrade", "--config-file", config())
    db = Database(f"sqlite:///{tmp_path / 'state' / 'abaca.sqlite'}")
    with db.write() as tx:
        network = share_networks.add(tx, {"project_id": "p", "user_id": None, "name": "fields", "description": None})
        for cidr in ("10.1.0.0/24", "fd20::/64"):
            share_network_subnets.add(tx, network, {"cidr": cidr})
    give = lambda *words: abaca("share-network", *words, "--config-file", config())  # noqa: E731
    yield give, db, network
    db.close()


def a_server(db, network):
    """On the first subnet, of a back end that no worker serves."""
    with db.write() as tx:
        subnet = share_network_subnets.of_network(tx, network)[0].id
        values = {"project_id": "p", "share_network_id": network, "host": "there@served"}
        server = share_servers.add(tx, {**values, **dict.fromkeys(CAPABILITIES, True)}, [subnet])
        share_servers.finish(tx, server, "creating", {})
    return server


def subnets(give):
    return [one["cidr"] for one in json.loads(give("show", "fields", "--json").out)]


def test_share_networks_and_their_subnets_are_shown(give):
    give, _, network = give
    (row,) = json.loads(give("list", "--json").out)
    assert (row["id"], row["network_allocation_update_support"]) == (network, True)
    assert "10.1.0.0/24, fd20::/64" in give("list").out
    assert subnets(give) == ["10.1.0.0/24", "fd20::/64"]
    assert json.loads(give("list", "--status", "error", "--json").out) == []


def test_a_subnet_comes_and_goes(give):
    give, _, network = give
    added = give("add-subnet", "fields", "--wait")
    assert added.status == 0, added.err
    assert added.out.splitlines()[1] == f"{network} is active"
    new = added.out.split()[0]
    assert subnets(give) == ["10.1.0.0/24", "fd20::/64", None]
    for said in (new, "fd20::/64"):
        gone = give("remove-subnet", "fields", said, "--wait")
        assert gone.status == 0, gone.err
    assert subnets(give) == ["10.1.0.0/24"]


def test_what_would_change_is_said_and_nothing_does(give):
    give, db, network = give
    server = a_server(db, network)
    planned = give("add-subnet", network[:8], "--dry-run")
    assert planned.status != 0
    assert planned.out == f"share server {server}: no worker serves there@served now\n"
    planned = give("remove-subnet", "fields", "10.1.0.0/24", "--dry-run")
    assert planned.out == f"share server {server}: share server {server} has no other subnet\n"
    planned = give("remove-subnet", "fields", "fd20::/64", "--dry-run")
    assert planned.out == "It is possible; nothing has changed.\n"
    refused = give("remove-subnet", "fields", "10.1.0.0/24", "--force")
    assert (refused.status != 0, server in refused.err) == (True, True)
    assert subnets(give) == ["10.1.0.0/24", "fd20::/64"]


def test_a_subnet_that_is_not_there_or_could_be_several_is_refused(give):
    give, _, _ = give
    assert "could not be found" in give("remove-subnet", "fields", "10.9.0.0/24").err
    assert "Share network nosuch could not be found" in give("show", "nosuch").err
