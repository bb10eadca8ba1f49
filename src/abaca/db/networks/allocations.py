# SPDX-License-Identifier: Apache-2.0
"""Addresses of share servers: each is in a network once, whoever takes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

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


def hold_servers(tx: Tx, server_ids: Collection[str]) -> set[str]:
    """The same for many: those that there are."""
    return {row.id for row in tx.rows(_HOLD_SERVERS, {"servers": sorted(server_ids)})} if server_ids else set()


_HOLD_SERVERS = (
    sa.select(share_servers.c.id)
    .where(share_servers.c.id.in_(sa.bindparam("servers", expanding=True)))
    .order_by(share_servers.c.id)
    .with_for_update()
)


def take(tx: Tx, server_id: str, subnet_id: str | None, network: Network, address: Address) -> bool:
    """Give an address to a share server; whether it has the address now, and nobody had before."""
    values = {
        **_beneath(network),
        "id": address.id or new_id(),
        "share_server_id": server_id,
        "share_network_subnet_id": subnet_id,
        "network": network.key,
        "ip_address": address.ip,
        "mac_address": address.mac,
        "left_host": None,
        "left_identifier": None,
        "created_at": tx.now,
        "updated_at": None,
    }
    statement = insert_into(t, tx.dialect).on_conflict_do_nothing()
    return tx.row(statement.returning(t.c.id), values) is not None


def _beneath(network: Network) -> dict[str, object]:
    return {name: value for name, value in msgspec.structs.asdict(network).items() if name != "key"}


def adopt(tx: Tx, server_id: str, subnet_id: str, network: Network, address: Address) -> bool:
    """Give a share server an address that it answers at already; whether it has it now.

    It may be nobody's, the server's own on that subnet, or what the server itself has left when it was given up.
    """
    if take(tx, server_id, subnet_id, network, address):
        return True
    of_server = (
        sa.select(share_servers.c.id)
        .where(
            share_servers.c.id == server_id,
            share_servers.c.host == t.c.left_host,
            share_servers.c.identifier == t.c.left_identifier,
        )
        .correlate(t)
    )
    is_own = sa.and_(t.c.share_server_id == server_id, t.c.share_network_subnet_id == subnet_id)
    has_left = sa.and_(t.c.share_server_id.is_(None), of_server.exists())
    values: dict[str, object] = {
        **_beneath(network),
        "share_server_id": server_id,
        "share_network_subnet_id": subnet_id,
        "updated_at": tx.now,
    }
    if address.id is not None:
        values |= {"id": address.id, "mac_address": address.mac}
    at = sa.and_(t.c.network == network.key, t.c.ip_address == address.ip)
    return tx.row(sa.update(t).where(at, sa.or_(is_own, has_left)).values(values).returning(t.c.id)) is not None


def disown(tx: Tx, server_id: str) -> None:
    """What a share server had left before it was to be taken over is left again; of the rest nothing stays."""
    parameters = {"server": server_id}
    tx.execute(_LEAVE_AGAIN, {**parameters, "at": tx.now})
    tx.execute(_GIVE_BACK, parameters)


def leave(tx: Tx, server_id: str) -> None:
    """A share server that is given up goes on with its addresses: they are kept for what its back end calls it."""
    tx.execute(_LEAVE, {"server": server_id, "at": tx.now})


_LEAVE_AGAIN = (
    sa.update(t)
    .where(t.c.share_server_id == sa.bindparam("server"), t.c.left_identifier.is_not(None))
    .values(share_server_id=None, share_network_subnet_id=None, updated_at=sa.bindparam("at"))
)


def _of_leaving(value: sa.ColumnElement[str]) -> sa.ScalarSelect[str]:
    return sa.select(value).where(share_servers.c.id == sa.bindparam("server")).scalar_subquery()


_LEAVE = (
    sa.update(t)
    .where(t.c.share_server_id == sa.bindparam("server"))
    .values(
        share_server_id=None,
        share_network_subnet_id=None,
        left_host=_of_leaving(share_servers.c.host),
        left_identifier=_of_leaving(sa.func.coalesce(share_servers.c.identifier, share_servers.c.id)),
        updated_at=sa.bindparam("at"),
    )
)


def left_by(tx: Tx, host: str, identifier: str) -> list[Allocation]:
    """The addresses that are kept for what a back end calls so."""
    return tx.entities(Allocation, _LEFT_BY, {"on_host": host, "called": identifier})


_LEFT_BY = (
    sa.select(*columns_of(Allocation, t))
    .where(
        t.c.share_server_id.is_(None),
        t.c.left_host == sa.bindparam("on_host"),
        t.c.left_identifier == sa.bindparam("called"),
    )
    .order_by(t.c.id)
)


def let_go(tx: Tx, allocation_id: str) -> bool:
    """An address that a server has left is free; whether it was such a one."""
    return tx.row(_LET_GO, {"allocation": allocation_id}) is not None


_LET_GO = sa.delete(t).where(t.c.id == sa.bindparam("allocation"), t.c.share_server_id.is_(None)).returning(t.c.id)


def of_server(tx: Tx, server_id: str) -> list[Allocation]:
    """All addresses of a share server, in the order in which they were taken."""
    return tx.entities(Allocation, _OF_SERVER, {"server": server_id})


_OF_SERVER = (
    sa.select(*columns_of(Allocation, t))
    .where(t.c.share_server_id == sa.bindparam("server"))
    .order_by(t.c.created_at, t.c.id)
)


def whole_of_servers(tx: Tx, server_ids: Collection[str]) -> Mapping[str, list[Allocation]]:
    """The same of many, by share server."""
    found: dict[str, list[Allocation]] = defaultdict(list)
    if server_ids:
        for one in tx.entities(Allocation, _WHOLE_OF_SERVERS, {"servers": sorted(server_ids)}):
            found[one.share_server_id or ""].append(one)
    return found


_WHOLE_OF_SERVERS = (
    sa.select(*columns_of(Allocation, t))
    .where(t.c.share_server_id.in_(sa.bindparam("servers", expanding=True)))
    .order_by(t.c.created_at, t.c.id)
)


class Held(msgspec.Struct, frozen=True, gc=False):
    """An address of a share server, and the subnet and network that it lies in."""

    share_server_id: str
    ip_address: str
    network: str
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
