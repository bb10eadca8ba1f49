# SPDX-License-Identifier: Apache-2.0
"""Addresses of share servers: each is in a network once, whoever takes it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from abaca.db.engine.database import Tx, insert_into
from abaca.db.engine.statements import columns_of
from abaca.db.tables.networks import network_allocations as t
from abaca.domain.ids import new_id
from abaca.domain.networks.allocations import Allocation, Network


def take(tx: Tx, server_id: str, subnet_id: str | None, network: Network, address: str, mac: str | None) -> str | None:
    """Give an address to a share server; the allocation's id, or None where somebody has it."""
    values = {
        **{name: value for name, value in msgspec.structs.asdict(network).items() if name != "key"},
        "id": new_id(),
        "share_server_id": server_id,
        "share_network_subnet_id": subnet_id,
        "network": network.key,
        "ip_address": address,
        "mac_address": mac,
        "created_at": tx.now,
        "updated_at": None,
    }
    statement = insert_into(t, tx.dialect).on_conflict_do_nothing(index_elements=["network", "ip_address"])
    found = tx.row(statement.returning(t.c.id), values)
    return None if found is None else str(found.id)


def of_server(tx: Tx, server_id: str) -> list[Allocation]:
    """All addresses of a share server, in the order in which they were taken."""
    return tx.entities(Allocation, _OF_SERVER, {"server": server_id})


_OF_SERVER = (
    sa.select(*columns_of(Allocation, t))
    .where(t.c.share_server_id == sa.bindparam("server"))
    .order_by(t.c.created_at, t.c.id)
)


def taken(tx: Tx, network: str) -> frozenset[str]:
    """The addresses of a network that somebody has."""
    return frozenset(row.ip_address for row in tx.rows(_TAKEN, {"network": network}))


_TAKEN = sa.select(t.c.ip_address).where(t.c.network == sa.bindparam("network"))


def give_back(tx: Tx, allocation_ids: Sequence[str]) -> None:
    """Nobody has these any more."""
    if allocation_ids:
        tx.execute(_GIVE_BACK, {"allocations": list(allocation_ids)})


_GIVE_BACK = sa.delete(t).where(t.c.id.in_(sa.bindparam("allocations", expanding=True)))
