# SPDX-License-Identifier: Apache-2.0
"""How operations on the directories of share servers, and on what is known of their subnets, come about."""

from abaca.db.networks import share_network_subnets, share_servers


def a_directory(theatre):
    """The id of a security service."""
    return theatre.ask("POST", "/security-services", {"security_service": {"type": "ldap"}})["security_service"]["id"]


def check_directory(theatre, prepared):
    network_id, directory_id = prepared
    body = {"add_security_service_check": {"security_service_id": directory_id}}
    theatre.ask("POST", f"/share-networks/{network_id}/action", body)
    return network_id


def join_directory(theatre, prepared):
    """The id of the first server that joins it."""
    network_id, directory_id = prepared
    body = {"add_security_service": {"security_service_id": directory_id}}
    theatre.ask("POST", f"/share-networks/{network_id}/action", body)
    with theatre.db.read() as tx:
        return share_servers.on_network(tx, network_id)[0].id


def describe_subnet(theatre, network_id):
    """The id of the share server that hears of it."""
    with theatre.db.read() as tx:
        (subnet,) = share_network_subnets.of_network(tx, network_id)
    path = f"/share-networks/{network_id}/subnets/{subnet.id}/metadata"
    theatre.ask("POST", path, {"metadata": {"mtu": "9000"}})
    with theatre.db.read() as tx:
        return share_servers.on_network(tx, network_id)[0].id
