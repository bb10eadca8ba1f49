# SPDX-License-Identifier: Apache-2.0
"""Share servers: where they are, by which subnets they are reached, and how much is on them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import sqlalchemy as sa

from abaca.db.engine import moving
from abaca.db.engine.database import Tx
from abaca.db.engine.lists import Listing, equal, where
from abaca.db.engine.statements import columns_of
from abaca.db.tables.networks import share_networks, share_server_subnets
from abaca.db.tables.networks import share_servers as t
from abaca.db.tables.shares import share_instances, shares
from abaca.domain.ids import new_id
from abaca.domain.networks.share_servers import Load, ShareServer

# What an operation on one holds, and what is signalled when one is settled: up, or known not to come.
KEY = "share-server"

STATUS = moving.Mover(t.c.status, "Share server")
try_move, move, reset = STATUS.try_move, STATUS.move, STATUS.reset

_OF_SUBNETS = sa.select(share_server_subnets.c.share_server_id)

SHARE_SERVERS = Listing(
    t.join(share_networks, share_networks.c.id == t.c.share_network_id),
    columns={**{column.name: column for column in t.c}, "share_network_name": share_networks.c.name},
    filters={
        **{name: equal(t.c[name]) for name in ("host", "status", "share_network_id", "project_id", "identifier")},
        "share_network": where(
            lambda name: sa.or_(t.c.share_network_id == sa.bindparam(name), share_networks.c.name == sa.bindparam(name))
        ),
        "share_network_subnet_id": where(
            lambda name: t.c.id.in_(
                _OF_SUBNETS.where(share_server_subnets.c.share_network_subnet_id == sa.bindparam(name))
            )
        ),
    },
)


def settled_condition(server_id: str) -> str:
    """The condition that a share server is up, or will not come."""
    return f"{KEY}:{server_id}"


def add(tx: Tx, values: Mapping[str, object], subnet_ids: Iterable[str]) -> str:
    """A new share server, which is being made, on these subnets; its id."""
    server_id = new_id()
    row = {**_NEW, "id": server_id, "created_at": tx.now, "updated_at": None, **values}
    moving.add(tx, t, row, {"status": "create"})
    tx.execute(_ADD_SUBNETS, [{"share_server_id": server_id, "share_network_subnet_id": one} for one in subnet_ids])
    return server_id


_NEW: dict[str, object] = {"identifier": None, "is_auto_deletable": True, "details": {}, "unused_since": None}
_ADD_SUBNETS = sa.insert(share_server_subnets).inline()


def update(tx: Tx, server_id: str, values: Mapping[str, object]) -> None:
    """Change anything but its status."""
    tx.change(t, server_id, values)


def delete(tx: Tx, server_id: str) -> None:
    """The row, with its subnets; its addresses went before."""
    tx.execute(_DELETE, {"server": server_id})


_DELETE = sa.delete(t).where(t.c.id == sa.bindparam("server"))


def show(tx: Tx, server_id: str) -> ShareServer | None:
    """One, or None."""
    return SHARE_SERVERS.entity(tx, ShareServer, {"id": server_id})


def on_network(tx: Tx, network_id: str, host: str | None = None) -> list[ShareServer]:
    """Those of a share network, oldest first; of one back end, if that is said."""
    found = tx.entities(ShareServer, _ON_NETWORK, {"network": network_id})
    return [server for server in found if host is None or server.host == host]


_ON_NETWORK = (
    sa.select(*columns_of(ShareServer, t))
    .where(t.c.share_network_id == sa.bindparam("network"))
    .order_by(t.c.created_at, t.c.id)
)


class _OnServer(msgspec.Struct, frozen=True, gc=False):
    share_server_id: str
    shares: int
    gib: int


def loads(tx: Tx, server_ids: Sequence[str]) -> Mapping[str, Load]:
    """What is on each of these, or on its way there."""
    found: dict[str, Load] = dict.fromkeys(server_ids, Load(0, 0))
    if server_ids:
        for one in tx.entities(_OnServer, _LOADS, {"servers": list(server_ids)}):
            found[one.share_server_id] = Load(one.shares, one.gib)
    return found


_LOADS = (
    sa.select(
        share_instances.c.share_server_id,
        sa.func.count().label("shares"),
        sa.func.sum(shares.c.size).label("gib"),
    )
    .select_from(share_instances.join(shares, shares.c.id == share_instances.c.share_id))
    .where(share_instances.c.share_server_id.in_(sa.bindparam("servers", expanding=True)))
    .group_by(share_instances.c.share_server_id)
)


def subnets_of(tx: Tx, server_ids: Sequence[str]) -> Mapping[str, list[str]]:
    """The ids of the subnets of each of these, in their order."""
    found: dict[str, list[str]] = defaultdict(list)
    if server_ids:
        for row in tx.rows(_SUBNETS_OF, {"servers": list(server_ids)}):
            found[row.share_server_id].append(row.share_network_subnet_id)
    return found


_SUBNETS_OF = (
    sa.select(share_server_subnets.c.share_server_id, share_server_subnets.c.share_network_subnet_id)
    .where(share_server_subnets.c.share_server_id.in_(sa.bindparam("servers", expanding=True)))
    .order_by(share_server_subnets.c.share_server_id, share_server_subnets.c.share_network_subnet_id)
)
