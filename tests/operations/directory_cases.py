# SPDX-License-Identifier: Apache-2.0
"""How operations on the directories of share servers come about."""

from abaca.db.networks import share_servers


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
