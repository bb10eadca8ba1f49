# SPDX-License-Identifier: Apache-2.0
"""Clusters of very many nodes, without the time that it takes to make them."""

import ipaddress

import sqlalchemy as sa

from abaca.db.tables.attachments import attachments, server_addresses, servers
from abaca.db.tables.clusters import cluster_nodes
from abaca.db.tables.shares import access_rules, instance_access_rules
from abaca.domain.ids import new_id
from tests.planting import by_hand

FIRST = ipaddress.ip_address("10.128.0.1")


def grow(db, cluster_id, number):
    """So many nodes more, each like the first: a server with an address, and what the cluster has attached to it.

    Where the first has an access rule of its own each of them has.
    """
    with by_hand(db) as tx:
        node = _rows(tx, cluster_nodes, cluster_nodes.c.cluster_id == cluster_id)[0]
        first = node["server_id"]
        rows = {
            servers: _rows(tx, servers, servers.c.id == first),
            server_addresses: _rows(tx, server_addresses, server_addresses.c.server_id == first),
            cluster_nodes: [node],
            attachments: _rows(tx, attachments, attachments.c.server_id == first),
        }
        ids = [new_id() for _ in range(number)]
        for table, found in rows.items():
            tx.execute(sa.insert(table), [_like(row, ids[at], FIRST + at) for at in range(number) for row in found])
        for address in (row["ip"] for row in rows[server_addresses]):
            _let_in(tx, address, [str(FIRST + at) for at in range(number)])
        if not db.is_sqlite:
            tx.execute(sa.text("ANALYZE"))  # as it does by itself after a while


def _let_in(tx, like, addresses):
    """Rules for these, like those for another address."""
    for rule in _rows(tx, access_rules, access_rules.c.client == like):
        there = _rows(tx, instance_access_rules, instance_access_rules.c.access_rule_id == rule["id"])
        new = [rule | {"id": new_id(), "client": one, "access_to": one} for one in addresses]
        tx.execute(sa.insert(access_rules), new)
        tx.execute(
            sa.insert(instance_access_rules), [row | {"access_rule_id": one["id"]} for one in new for row in there]
        )


def _rows(tx, table, condition):
    return [dict(row._mapping) for row in tx.rows(sa.select(table).where(condition))]


def _like(row, server_id, address):
    """A row like one of another server."""
    new = dict(row)
    if "server_id" not in row:
        return new | {"id": server_id, "name": f"node-{server_id}"}
    if "id" in row:
        new["id"] = new_id()
    if "ip" in row:
        new["ip"] = str(address)
    if row.get("addresses") and row["network"] is None:
        new["addresses"] = [str(address)]
    return new | {"server_id": server_id}
