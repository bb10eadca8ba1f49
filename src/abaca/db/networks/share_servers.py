# SPDX-License-Identifier: Apache-2.0
"""Share servers: where they are, by which subnets they are reached, and how much is on them."""

from __future__ import annotations

import datetime
import functools
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
import sqlalchemy as sa

from abaca.db.engine import moving
from abaca.db.engine.database import Tx, insert_into
from abaca.db.engine.lists import Listing, Unindexed, begins, equal, where
from abaca.db.engine.statements import columns_of
from abaca.db.journal import keys
from abaca.db.tables.networks import NOBODY_USES, share_network_subnets, share_networks, share_server_subnets
from abaca.db.tables.networks import share_servers as t
from abaca.db.tables.shares import share_instances, shares
from abaca.domain.ids import new_id
from abaca.domain.networks.share_networks import Subnet
from abaca.domain.networks.share_servers import SHARE_SERVER, Load, ShareServer

# What an operation on one holds, and what is signalled when one is settled: up, or known not to come.
KEY = "share-server"

STATUS = moving.Mover(t.c.status, "Share server")
try_move, move, reset = STATUS.try_move, STATUS.move, STATUS.reset
TASK_STATE = moving.Mover(t.c.task_state, "Share server")

_OF_SUBNETS = sa.select(share_server_subnets.c.share_server_id)


def _called(name: str) -> sa.CompoundSelect[tuple[str]]:
    """The share networks of that id or name, each by its index."""
    said = sa.bindparam(name, type_=sa.String())
    return sa.union_all(*(sa.select(share_networks.c.id).where(column == said) for column in _CALLED))


_EQUAL = ("host", "status", "share_network_id", "project_id", "identifier", "encryption_key_ref")
_CALLED = (share_networks.c.id, share_networks.c.name)
SHARE_SERVERS = Listing(
    t.outerjoin(share_networks, share_networks.c.id == t.c.share_network_id),
    columns={**{column.name: column for column in t.c}, "share_network_name": share_networks.c.name},
    filters={
        "id_prefix": begins(t.c.id),
        **{name: equal(t.c[name]) for name in _EQUAL},
        "share_network": where(lambda name: t.c.share_network_id.in_(_called(name))),
        "share_network_subnet_id": where(
            lambda name: t.c.id.in_(
                _OF_SUBNETS.where(share_server_subnets.c.share_network_subnet_id == sa.bindparam(name))
            )
        ),
    },
    unindexed=Unindexed(on_sqlite=("host",)),
)


def settled_condition(server_id: str) -> str:
    """The condition that a share server is up, or will not come."""
    return keys.key(KEY, server_id)


def add(tx: Tx, values: Mapping[str, object], subnet_ids: Iterable[str], event: str = "create") -> str:
    """A new share server, which is being made, or to which another `event` happens, on these subnets; its id."""
    server_id = new_id()
    row = {**_NEW, "id": server_id, "created_at": tx.now, "updated_at": None, **values}
    moving.add(tx, t, row, {"status": event})
    tx.execute(_ADD_SUBNETS, [{"share_server_id": server_id, "share_network_subnet_id": one} for one in subnet_ids])
    return server_id


_NEW: dict[str, object] = {
    "identifier": None,
    "is_auto_deletable": True,
    "details": {},
    "unused_since": None,
    "encryption_key_ref": None,
}
_ADD_SUBNETS = sa.insert(share_server_subnets).inline()


def update(tx: Tx, server_id: str, values: Mapping[str, object]) -> None:
    """Change anything but its status."""
    tx.change(t, server_id, values)


def finish(tx: Tx, server_id: str, at: str, details: Mapping[str, str]) -> None:
    """`done` at that status, with what the driver says of it; nothing where an operator has set another one."""
    also = {"details": dict(details), "identifier": details.get("identifier", server_id)}
    STATUS.try_move(tx, server_id, "done", at, also=also)


def keep_details(tx: Tx, server_id: str, details: Mapping[str, str]) -> None:
    """What the driver says of it, whatever its status."""
    update(tx, server_id, {"details": dict(details), "identifier": details.get("identifier", server_id)})


def hold(tx: Tx, server_id: str) -> None:
    """Lock it until this transaction ends: shares come to it and leave it one after the other."""
    tx.rows(_HOLD, {"server": server_id})


_HOLD = sa.select(t.c.id).where(t.c.id == sa.bindparam("server")).with_for_update()


def put_on(tx: Tx, server_id: str, instance_id: str) -> None:
    """A share instance is on it from now on."""
    tx.change(t, server_id, {"unused_since": None})
    tx.change(share_instances, instance_id, {"share_server_id": server_id})


def keep_unused(tx: Tx, server_id: str) -> None:
    """It is not deleted by itself: something is on it that is not managed here."""
    tx.change(t, server_id, {"is_auto_deletable": False})


def is_used(tx: Tx, server_id: str) -> bool:
    """Whether a share instance is on it, or on its way there."""
    return tx.scalar(_IS_USED, {"server": server_id}) is not None


_IS_USED = sa.select(share_instances.c.id).where(share_instances.c.share_server_id == sa.bindparam("server")).limit(1)


def note_use(tx: Tx, server_id: str) -> None:
    """Something has left it: it is unused from now on, if nothing else is on it."""
    hold(tx, server_id)
    if not is_used(tx, server_id):
        tx.change(t, server_id, {"unused_since": tx.now})


def delete(tx: Tx, server_id: str) -> None:
    """The row, with its subnets; its addresses went before."""
    tx.execute(_DELETE, {"server": server_id})


_DELETE = sa.delete(t).where(t.c.id == sa.bindparam("server"))


def show(tx: Tx, server_id: str) -> ShareServer | None:
    """One, or None."""
    return SHARE_SERVERS.entity(tx, ShareServer, {"id": server_id})


def show_many(tx: Tx, server_ids: Collection[str]) -> list[ShareServer]:
    """Those of these that there are, oldest first."""
    return tx.entities(ShareServer, _SHOWN, {"servers": sorted(server_ids)}) if server_ids else []


_SHOWN = (
    sa.select(*columns_of(ShareServer, t))
    .where(t.c.id.in_(sa.bindparam("servers", expanding=True)))
    .order_by(t.c.created_at, t.c.id)
)


def called(tx: Tx, host: str, identifier: str) -> dict[str, str]:
    """The ids and statuses of those that a back end (host@backend) calls so, oldest first."""
    return {row.id: row.status for row in tx.rows(_WITH_IDENTIFIER, {"on_host": host, "called": identifier})}


_WITH_IDENTIFIER = (
    sa.select(t.c.id, t.c.status)
    .where(t.c.identifier == sa.bindparam("called"), t.c.host == sa.bindparam("on_host"))
    .order_by(t.c.created_at, t.c.id)
)


def called_in_part(tx: Tx, host: str, part: str) -> list[str]:
    """The ids of those in whose identifier on a back end this stands, letters, digits and hyphens."""
    return [row.id for row in tx.rows(_WITH_PART, {"on_host": host, "part": f"%{part}%"})]


_WITH_PART = (
    sa.select(t.c.id)
    .where(t.c.identifier.like(sa.bindparam("part")), t.c.host == sa.bindparam("on_host"))
    .order_by(t.c.created_at, t.c.id)
)


def on_network(tx: Tx, network_id: str, host: str | None = None) -> list[ShareServer]:
    """Those of a share network, oldest first; of one back end, if that is said."""
    found = tx.entities(ShareServer, _ON_NETWORK, {"network": network_id})
    return [server for server in found if host is None or server.host == host]


_ON_NETWORK = (
    sa.select(*columns_of(ShareServer, t))
    .where(t.c.share_network_id == sa.bindparam("network"))
    .order_by(t.c.created_at, t.c.id)
)


def page_of_backend(tx: Tx, host: str, after: str, most: int) -> list[ShareServer]:
    """The next ones of a back end whose ids follow `after`, in the order of ids."""
    return tx.entities(ShareServer, _PAGE_OF_BACKEND, {"on_host": host, "after": after, "most": most})


_PAGE_OF_BACKEND = (
    sa.select(*columns_of(ShareServer, t))
    .where(t.c.host == sa.bindparam("on_host"), t.c.id > sa.bindparam("after"))
    .order_by(t.c.id)
    .limit(sa.bindparam("most"))
)


def join(tx: Tx, server_id: str, subnet_id: str) -> None:
    """It is reached by that subnet from now on, if that is there; by one that it is on it stays so."""
    its = share_server_subnets.c
    found = sa.select(sa.literal(server_id), share_network_subnets.c.id).where(share_network_subnets.c.id == subnet_id)
    statement = insert_into(share_server_subnets, tx.dialect)
    joined = statement.from_select([its.share_server_id, its.share_network_subnet_id], found)
    tx.execute(joined.on_conflict_do_nothing())


def join_many(tx: Tx, server_ids: Collection[str], subnet_id: str) -> None:
    """The same for several."""
    tx.execute(_joining(tx.dialect), {"servers": sorted(server_ids), "subnet": subnet_id})


@functools.cache
def _joining(dialect: str) -> sa.Executable:
    its, of = share_server_subnets.c, share_network_subnets.c
    found = (
        sa.select(t.c.id, of.id)
        .join(share_network_subnets, of.share_network_id == t.c.share_network_id)
        .where(t.c.id.in_(sa.bindparam("servers", expanding=True)), of.id == sa.bindparam("subnet"))
    )
    written = insert_into(share_server_subnets, dialect)
    joined = written.from_select([its.share_server_id, its.share_network_subnet_id], found)
    statement: sa.Executable = joined.on_conflict_do_nothing()
    return statement


def leave(tx: Tx, server_id: str, subnet_id: str) -> None:
    """It is no longer reached by that subnet."""
    tx.execute(_LEAVE, {"server": server_id, "subnet": subnet_id})


_LEAVE = sa.delete(share_server_subnets).where(
    share_server_subnets.c.share_server_id == sa.bindparam("server"),
    share_server_subnets.c.share_network_subnet_id == sa.bindparam("subnet"),
)


def instances_on(tx: Tx, server_id: str) -> list[str]:
    """The ids of the share instances that are on it."""
    return [row.id for row in tx.rows(_INSTANCES_ON, {"server": server_id})]


_INSTANCES_ON = (
    sa.select(share_instances.c.id)
    .where(share_instances.c.share_server_id == sa.bindparam("server"))
    .order_by(share_instances.c.id)
)


def instances_of(tx: Tx, server_ids: Collection[str]) -> list[str]:
    """The ids of the share instances that are on any of these."""
    return [row.id for row in tx.rows(_INSTANCES_OF, {"servers": sorted(server_ids)})] if server_ids else []


_INSTANCES_OF = (
    sa.select(share_instances.c.id)
    .where(share_instances.c.share_server_id.in_(sa.bindparam("servers", expanding=True)))
    .order_by(share_instances.c.id)
)


def unused(tx: Tx, host: str, before: datetime.datetime, most: int) -> list[ShareServer]:
    """Those of a back end that go by themselves, and on which nothing has been since then; the longest first."""
    return tx.entities(ShareServer, _UNUSED, {"on_host": host, "before": before, "most": most})


_UNUSED = (
    sa.select(*columns_of(ShareServer, t))
    .where(
        NOBODY_USES,
        t.c.unused_since < sa.bindparam("before"),
        t.c.host == sa.bindparam("on_host"),
        t.c.is_auto_deletable.is_(True),
        t.c.status.in_(["active", "error"]),
    )
    .order_by(t.c.unused_since)
    .limit(sa.bindparam("most"))
)


def busy_without_operation(tx: Tx, host: str, most: int) -> list[ShareServer]:
    """Busy ones of a back end that no live operation explains."""
    return tx.entities(ShareServer, _BUSY, {"on_host": host, "most": most})


_BUSY = (
    sa.select(*columns_of(ShareServer, t))
    .where(t.c.host == sa.bindparam("on_host"), t.c.status.in_(sorted(SHARE_SERVER.busy)), ~keys.is_held(KEY, t.c.id))
    .order_by(t.c.id)
    .limit(sa.bindparam("most"))
)


def subnets(tx: Tx, server_id: str) -> list[Subnet]:
    """The subnets by which it is reached, oldest first."""
    return tx.entities(Subnet, _SUBNETS, {"server": server_id})


_SUBNETS = (
    sa.select(*columns_of(Subnet, share_network_subnets))
    .join(share_server_subnets, share_server_subnets.c.share_network_subnet_id == share_network_subnets.c.id)
    .where(share_server_subnets.c.share_server_id == sa.bindparam("server"))
    .order_by(share_network_subnets.c.created_at, share_network_subnets.c.id)
)


def on_subnets(tx: Tx, subnet_ids: Sequence[str]) -> list[ShareServer]:
    """Those that are reached by one of these subnets, oldest first."""
    return tx.entities(ShareServer, _ON_SUBNETS, {"subnets": list(subnet_ids)}) if subnet_ids else []


_ON_SUBNETS = (
    sa.select(*columns_of(ShareServer, t))
    .where(
        t.c.id.in_(
            sa.select(share_server_subnets.c.share_server_id).where(
                share_server_subnets.c.share_network_subnet_id.in_(sa.bindparam("subnets", expanding=True))
            )
        )
    )
    .order_by(t.c.created_at, t.c.id)
)


def supports(tx: Tx, network_ids: Sequence[str]) -> Mapping[str, Supports]:
    """What all share servers of each of these share networks can; a network without any is left out."""
    if not network_ids:
        return {}
    return {one.share_network_id: one for one in tx.entities(Supports, _SUPPORTS, {"networks": list(network_ids)})}


def in_error(tx: Tx, network_ids: Sequence[str]) -> Mapping[str, list[str]]:
    """The ids of the share servers of each of these share networks that are in error, in their order."""
    found: dict[str, list[str]] = defaultdict(list)
    if network_ids:
        for row in tx.rows(_IN_ERROR, {"networks": list(network_ids)}):
            found[row.share_network_id].append(row.id)
    return found


_IN_ERROR = (
    sa.select(t.c.share_network_id, t.c.id)
    .where(t.c.share_network_id.in_(sa.bindparam("networks", expanding=True)), t.c.status == "error")
    .order_by(t.c.share_network_id, t.c.id)
)


class Supports(msgspec.Struct, frozen=True, gc=False):
    """Whether the share servers of a share network can all change while they serve; 1 is yes."""

    share_network_id: str
    security_services: int
    network_allocations: int


def _all(flag: sa.Column[bool]) -> sa.ColumnElement[int]:
    return sa.func.min(sa.case((flag, 1), else_=0))


_SUPPORTS = (
    sa.select(
        t.c.share_network_id,
        _all(t.c.security_service_update_support).label("security_services"),
        _all(t.c.network_allocation_update_support).label("network_allocations"),
    )
    .where(t.c.share_network_id.in_(sa.bindparam("networks", expanding=True)))
    .group_by(t.c.share_network_id)
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
