# SPDX-License-Identifier: Apache-2.0
"""Addresses of share servers: each is in a network once, whoever takes it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
import sqlalchemy as sa

from abaca.db.engine.database import Tx, insert_into
from abaca.db.engine.statements import columns_of
from abaca.db.tables.networks import network_allocations as t
from abaca.db.tables.networks import share_servers
from abaca.domain.ids import new_id
from abaca.domain.networks.allocations import Address, Allocation, Network


def hold_server(tx: Tx, server_id: str) -> bool:
    """Whether there is such a share server; nobody else changes its addresses until this transaction ends."""
    return tx.scalar(_HOLD_SERVER, {"server": server_id}) is not None


_HOLD_SERVER = sa.select(share_servers.c.id).where(share_servers.c.id == sa.bindparam("server")).with_for_update()


def take(tx: Tx, server_id: str, subnet_id: str | None, network: Network, address: Address) -> bool:
    """Give an address to a share server; whether it has the address now, and nobody had before."""
    values = {
        **{name: value for name, value in msgspec.structs.asdict(network).items() if name != "key"},
        "id": address.id or new_id(),
        "share_server_id": server_id,
        "share_network_subnet_id": subnet_id,
        "network": network.key,
        "ip_address": address.ip,
        "mac_address": address.mac,
        "created_at": tx.now,
        "updated_at": None,
    }
    statement = insert_into(t, tx.dialect).on_conflict_do_nothing()
    return tx.row(statement.returning(t.c.id), values) is not None


def of_server(tx: Tx, server_id: str) -> list[Allocation]:
    """All addresses of a share server, in the order in which they were taken."""
    return tx.entities(Allocation, _OF_SERVER, {"server": server_id})


_OF_SERVER = (
    sa.select(*columns_of(Allocation, t))
    .where(t.c.share_server_id == sa.bindparam("server"))
    .order_by(t.c.created_at, t.c.id)
)


class Held(msgspec.Struct, frozen=True, gc=False):
    """An address of a share server, and the subnet that it lies in."""

    share_server_id: str
    ip_address: str
    cidr: str
    share_network_subnet_id: str | None


def of_servers(tx: Tx, server_ids: Collection[str]) -> list[Held]:
    """All addresses of these share servers."""
    return tx.entities(Held, _OF_SERVERS, {"servers": sorted(server_ids)}) if server_ids else []


_OF_SERVERS = sa.select(*columns_of(Held, t)).where(t.c.share_server_id.in_(sa.bindparam("servers", expanding=True)))


def page(tx: Tx, after: str, number: int) -> list[Allocation]:
    """So many addresses of all servers, by their ids, behind that id."""
    return tx.entities(Allocation, _PAGE, {"after": after, "number": number})


_PAGE = sa.select(*columns_of(Allocation, t)).where(t.c.id > sa.bindparam("after")).order_by(t.c.id)
_PAGE = _PAGE.limit(sa.bindparam("number"))


def among(tx: Tx, allocation_ids: Sequence[str]) -> frozenset[str]:
    """Those of these ids that allocations have."""
    return frozenset(row.id for row in tx.rows(_AMONG, {"allocations": list(allocation_ids)}))


_AMONG = sa.select(t.c.id).where(t.c.id.in_(sa.bindparam("allocations", expanding=True)))


def servers(tx: Tx, server_ids: Sequence[str]) -> dict[str, str]:
    """The statuses of those of these share servers that are there."""
    return {row.id: row.status for row in tx.rows(_SERVERS, {"servers": list(server_ids)})}


_SERVERS = sa.select(share_servers.c.id, share_servers.c.status)
_SERVERS = _SERVERS.where(share_servers.c.id.in_(sa.bindparam("servers", expanding=True)))


def taken(tx: Tx, network: str) -> frozenset[str]:
    """The addresses of a network that somebody has."""
    return frozenset(row.ip_address for row in tx.rows(_TAKEN, {"network": network}))


_TAKEN = sa.select(t.c.ip_address).where(t.c.network == sa.bindparam("network"))


def give_back(tx: Tx, server_id: str, subnet_id: str | None = None) -> None:
    """A share server has none of its addresses any more, or none of those on one subnet."""
    if subnet_id is None:
        tx.execute(_GIVE_BACK, {"server": server_id})
    else:
        tx.execute(_GIVE_BACK_ON, {"server": server_id, "subnet": subnet_id})


_GIVE_BACK = sa.delete(t).where(t.c.share_server_id == sa.bindparam("server"))
_GIVE_BACK_ON = _GIVE_BACK.where(t.c.share_network_subnet_id == sa.bindparam("subnet"))
