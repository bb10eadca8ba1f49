# SPDX-License-Identifier: Apache-2.0
"""The inventory: servers that an operator registered, and their addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import exc

from abaca import errors
from abaca.db.engine import lists
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import columns_of
from abaca.db.tables.attachments import attachments, server_addresses, servers
from abaca.domain.attachments.servers import RegisteredServer, check_hypervisor
from abaca.domain.ids import new_id

# When it was changed last, which for one that never was is when it came.
_changed = sa.func.coalesce(servers.c.updated_at, servers.c.created_at)


def _at(ip: str) -> sa.ColumnElement[bool]:
    having = server_addresses.c.ip == sa.bindparam(ip, type_=sa.String())
    return servers.c.id.in_(sa.select(server_addresses.c.server_id).where(having))


def _changed_since(time: str) -> sa.ColumnElement[bool]:
    return _changed >= sa.bindparam(time, type_=sa.DateTime())


def _changed_before(time: str) -> sa.ColumnElement[bool]:
    return _changed <= sa.bindparam(time, type_=sa.DateTime())


SERVERS = lists.Listing(
    servers,
    filters={
        "project_id": lists.steady(lists.equal(servers.c.project_id)),
        "user_id": lists.equal(servers.c.user_id),
        "name": lists.equal(servers.c.name),
        "id_prefix": lists.begins(servers.c.id),
        "statuses": lists.one_of(servers.c.status),
        "availability_zone": lists.equal(servers.c.availability_zone),
        "ip": lists.where(_at),
        "changed_since": lists.where(_changed_since),
        "changed_before": lists.where(_changed_before),
    },
    sorts={
        "created_at": ("created_at", "id"),
        "id": ("id",),
        "name": ("name", "project_id", "id"),
        "project_id": ("project_id", "created_at", "id"),
        "status": ("status", "created_at", "id"),
    },
    unindexed=lists.Unindexed(("changed_since", "changed_before")),
)


def show(tx: Tx, server_id: str) -> RegisteredServer | None:
    """One server, or None. Whose it may be is the caller's business."""
    return SERVERS.entity(tx, RegisteredServer, {"id": server_id})


class _Placed(RegisteredServer, frozen=True, gc=False):
    """A server with one of its addresses; None for one that has none."""

    ip: str | None
    network: str | None


def found(tx: Tx, server_id: str) -> tuple[RegisteredServer, list[tuple[str, str]]] | None:
    """One server with its pairs (IP, network), in the order in which they were given, or None."""
    rows = tx.entities(_Placed, _FOUND, {"server": server_id})
    return (rows[0], [(row.ip, row.network or "") for row in rows if row.ip]) if rows else None


_FOUND = (
    sa.select(*columns_of(_Placed, servers, server_addresses))
    .join_from(servers, server_addresses, server_addresses.c.server_id == servers.c.id, isouter=True)
    .where(servers.c.id == sa.bindparam("server"))
    .order_by(server_addresses.c.place)
)


def named(tx: Tx, project_id: str, names: Sequence[str]) -> list[RegisteredServer]:
    """Those of a project that have one of these names."""
    return tx.entities(RegisteredServer, _NAMED, {"project": project_id, "names": list(names)}) if names else []


_NAMED = sa.select(*columns_of(RegisteredServer, servers)).where(
    servers.c.project_id == sa.bindparam("project"), servers.c.name.in_(sa.bindparam("names", expanding=True))
)


def addresses(tx: Tx, server_ids: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """Pairs (IP, network) of each server, in the order in which they were given."""
    found: dict[str, list[tuple[str, str]]] = {server_id: [] for server_id in server_ids}
    for row in tx.rows(_ADDRESSES, {"servers": list(server_ids)}) if server_ids else ():
        found[row.server_id].append((row.ip, row.network))
    return found


_ADDRESSES = (
    sa.select(server_addresses.c.server_id, server_addresses.c.ip, server_addresses.c.network)
    .where(server_addresses.c.server_id.in_(sa.bindparam("servers", expanding=True)))
    .order_by(server_addresses.c.server_id, server_addresses.c.place)
)


def zones(tx: Tx, project_id: str | None) -> list[str]:
    """The availability zones that servers of a project are in (None: of any project), by name."""
    found = sa.select(servers.c.availability_zone).where(servers.c.availability_zone.is_not(None)).distinct()
    if project_id is not None:
        found = found.where(servers.c.project_id == project_id)
    return [str(row.availability_zone) for row in tx.rows(found.order_by(servers.c.availability_zone))]


def with_the_same_address(tx: Tx, server_id: str) -> list[tuple[str, str, str, str]]:
    """The addresses of a server that others have too: each with the other's id, name and project."""
    return [tuple(row) for row in tx.rows(_SAME_ADDRESS, {"of_server": server_id})]


_others = server_addresses.alias("others")
_SAME_ADDRESS = (
    sa.select(_others.c.ip, servers.c.id, servers.c.name, servers.c.project_id)
    .join_from(server_addresses, _others, _others.c.ip == server_addresses.c.ip)
    .join(servers, servers.c.id == _others.c.server_id)
    .where(
        server_addresses.c.server_id == sa.bindparam("of_server"), _others.c.server_id != server_addresses.c.server_id
    )
    .order_by(server_addresses.c.place, servers.c.name)
    .limit(10)
)


def create(tx: Tx, values: Mapping[str, object], at: Sequence[tuple[str, str]]) -> str:
    """The id of a new server with these addresses.

    Raises Conflict when its project has one of that name, Invalid for a hypervisor that is none.
    """
    server_id = new_id()
    _check_place(tx, server_id, values)
    try:
        tx.execute(sa.insert(servers), {**values, "id": server_id, "created_at": tx.now, "updated_at": None})
    except exc.IntegrityError:
        raise _taken(str(values["name"])) from None
    _place(tx, server_id, at)
    return server_id


def update(tx: Tx, server_id: str, values: Mapping[str, object], at: Sequence[tuple[str, str]] | None) -> bool:
    """Change columns, and its addresses unless None; False when there is no such server.

    Raises Conflict, also while its hypervisor serves it shares from where it shall no longer be, and while it shall go
    to another project with shares on it; Invalid as `create`.
    """
    if "project_id" in values:
        _refuse_attached(tx, server_id, str(values["project_id"]))
    if not _PLACE.isdisjoint(values):
        known = show(tx, server_id)
        now = {} if known is None else {"hypervisor_id": known.hypervisor_id, "qmp_socket": known.qmp_socket}
        if any(values.get(name, value) != value for name, value in now.items()):
            _refuse_served(tx, server_id, "its hypervisor can be changed")
        _check_place(tx, server_id, {**now, **values})
    statement = sa.update(servers).where(servers.c.id == server_id)
    try:
        if not tx.execute(statement.values(**values, updated_at=tx.now)).rowcount:
            return False
    except exc.IntegrityError:
        raise _taken(str(values["name"])) from None
    if at is not None:
        tx.execute(sa.delete(server_addresses).where(server_addresses.c.server_id == server_id))
        _place(tx, server_id, at)
    return True


def delete(tx: Tx, server_id: str) -> bool:
    """Forget a server; False when there is none.

    Raises Conflict while it is the hypervisor of another, and while its own hypervisor serves it shares.
    """
    guest = tx.scalar(sa.select(servers.c.name).where(servers.c.hypervisor_id == server_id).limit(1))
    if guest is not None:
        raise errors.Conflict(f"Server {server_id} is the hypervisor of {guest}; remove or change that first.")
    _refuse_served(tx, server_id, "it can be removed")
    return tx.execute(sa.delete(servers).where(servers.c.id == server_id)).rowcount > 0


_PLACE = {"hypervisor_id", "qmp_socket"}


def _check_place(tx: Tx, server_id: str, values: Mapping[str, object]) -> None:
    hypervisor_id = _text(values, "hypervisor_id")
    check_hypervisor(server_id, hypervisor_id, _text(values, "qmp_socket"))
    if hypervisor_id is None:
        return
    host = tx.row(sa.select(servers.c.hypervisor_id).where(servers.c.id == hypervisor_id))
    if host is None:
        raise errors.Invalid(f"'hypervisor_id': there is no server {hypervisor_id[:64]!r}; register it first.")
    if host.hypervisor_id is not None:
        raise errors.Invalid("'hypervisor_id': that server is a guest itself, and guests of guests are not reached.")


def _text(values: Mapping[str, object], name: str) -> str | None:
    value = values.get(name)
    return value if isinstance(value, str) else None


def _refuse_served(tx: Tx, server_id: str, what: str) -> None:
    served = sa.select(attachments.c.id).where(attachments.c.server_id == server_id, attachments.c.mode == "virtiofs")
    found = tx.scalar(served.limit(1))
    if found is not None:
        raise errors.Conflict(f"The hypervisor of server {server_id} serves attachment {found}; detach before {what}.")


def _refuse_attached(tx: Tx, server_id: str, project_id: str) -> None:
    """What is mounted there belongs to the users of its project."""
    on_server = sa.select(attachments.c.id).join(servers, servers.c.id == attachments.c.server_id)
    others = on_server.where(servers.c.id == server_id, servers.c.project_id != project_id)
    found = tx.scalar(others.limit(1))
    if found is not None:
        raise errors.Conflict(f"Server {server_id} has attachment {found}; detach before it goes to another project.")


def _place(tx: Tx, server_id: str, at: Sequence[tuple[str, str]]) -> None:
    rows = [
        {"server_id": server_id, "ip": ip, "network": network, "place": place} for place, (ip, network) in enumerate(at)
    ]
    tx.execute(sa.insert(server_addresses), rows)


def _taken(name: str) -> errors.Conflict:
    return errors.Conflict(f"The project has a server called {name} already.")
