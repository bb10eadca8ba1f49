# SPDX-License-Identifier: Apache-2.0
"""How share servers, and shares on them, are given up and taken over, as administrators ask for it."""

import sqlalchemy as sa

from abaca.db.tables.networks import network_allocations

SERVED = "testhost@served"


def release(theatre, server_id, **more):
    """Ask for it; the same id."""
    theatre.ask("POST", f"/share-servers/{server_id}/action", {"unmanage": more}, who="admin")
    return server_id


def given_up(theatre, server_id):
    """The share network of a server that is released now, and what its back end calls it."""
    shown = theatre.ask("GET", f"/share-servers/{server_id}", who="admin")["share_server"]
    assert theatre.until_ended("share-server-unmanage", release(theatre, server_id)).state == "done"
    return shown["share_network_id"], shown["identifier"]


def manage(theatre, prepared, **more):
    """The id of the share server that it becomes."""
    network_id, identifier = prepared
    wanted = {"host": SERVED, "share_network_id": network_id, "identifier": identifier, **more}
    return theatre.ask("POST", "/share-servers/manage", {"share_server": wanted}, who="admin")["share_server"]["id"]


def share_given_up(theatre, share_id):
    """The share server that a share is on which is released now, and the path by which it is mounted."""
    server_id = theatre.ask("GET", f"/shares/{share_id}", who="admin")["share"]["share_server_id"]
    path = theatre.ask("GET", f"/shares/{share_id}/export_locations")["export_locations"][0]["path"]
    theatre.ask("POST", f"/shares/{share_id}/action", {"unmanage": None}, who="admin")
    theatre.until_ended("share-unmanage", share_id)
    return server_id, path


def manage_share(theatre, prepared):
    """The id of the share that it becomes."""
    server_id, path = prepared
    share = {"export_path": path, "service_host": f"{SERVED}#pool1", "protocol": "NFS", "share_type": "served"}
    body = {"share": {**share, "share_server_id": server_id}}
    return theatre.ask("POST", "/shares/manage", body, who="admin")["share"]["id"]


def addresses_wrong(tx, drivers):
    """Addresses that are kept for a server which nobody has given up, and of given-up ones those that are not kept."""
    rows = tx.rows(sa.select(network_allocations))
    left = {(row.left_identifier, row.ip_address) for row in rows if row.share_server_id is None}
    taken = {row.ip_address for row in rows if row.share_server_id is not None}
    kept = [one.contents().get("unmanaged_server", {}) for one in drivers]
    released = {(name, address) for of in kept for name, record in of.items() for address in record["addresses"]}
    found = [f"leaked: {address} is kept for {name}, which nobody has given up" for name, address in left - released]
    lost = {(name, address) for name, address in released - left if address not in taken}
    return [*found, *(f"{address} is free, and {name}, which was given up, answers there" for name, address in lost)]
