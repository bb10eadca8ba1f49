# SPDX-License-Identifier: Apache-2.0
"""The services: one row for each back end that a worker serves. Up, down and stopped are computed when read."""

from __future__ import annotations

import datetime
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import sqlalchemy as sa

from abaca import errors
from abaca.db.engine.database import Tx, insert_into
from abaca.db.engine.lists import Filter, Listing, Page, equal
from abaca.db.engine.statements import columns_of
from abaca.db.journal import order
from abaca.db.journal.operations import LIVE
from abaca.db.tables.administration import pools
from abaca.db.tables.administration import services as t
from abaca.db.tables.journal import operations
from abaca.db.tables.shares import share_instances
from abaca.domain.administration.services import NEVER, Service

# Clients look for this name.
SHARE_BINARY = "manila-share"
STATES = ("up", "down", "stopped")


def is_up() -> sa.ColumnElement[bool]:
    """Whether a service's worker is alive; give the statement `down_before`."""
    return sa.and_(t.c.stopped.is_(sa.false()), t.c.heartbeat_at >= sa.bindparam("down_before"))


def is_back_soon() -> sa.ColumnElement[bool]:
    """Whether its worker was told to stop so lately that it may be restarting; give the statement `down_before`."""
    return sa.and_(t.c.stopped.is_(sa.true()), t.c.heartbeat_at >= sa.bindparam("down_before"))


def alive_since(tx: Tx, service_down_time_s: int) -> datetime.datetime:
    """When the last heartbeat must have come of a service that is up."""
    return tx.now - datetime.timedelta(seconds=service_down_time_s)


def down_before(tx: Tx, service_down_time_s: int) -> dict[str, datetime.datetime]:
    """The same as the parameter of `is_up` and `is_back_soon`."""
    return {"down_before": alive_since(tx, service_down_time_s)}


def register(tx: Tx, binary: str, host: str, availability_zone: str) -> int:
    """A service begins to work: its row, made where missing, and its first heartbeat; the service's id."""
    row = {**_row(tx, binary, host, availability_zone), "heartbeat_at": tx.now, "problem": None}
    return _write(tx, row, ("availability_zone", "stopped", "heartbeat_at", "problem", "updated_at"))


def report_problem(tx: Tx, binary: str, host: str, availability_zone: str, problem: str) -> int:
    """Why a service does not do its work at the moment, until it is registered or `solve_problem` says otherwise."""
    row = {**_row(tx, binary, host, availability_zone), "heartbeat_at": NEVER, "problem": problem}
    return _write(tx, row, ("problem",))


def solve_problem(tx: Tx, binary: str, host: str) -> None:
    """It does its work again."""
    statement = sa.update(t).where(t.c.binary == binary, t.c.host == host, t.c.problem.is_not(None))
    tx.execute(statement.values(problem=None))


def _row(tx: Tx, binary: str, host: str, availability_zone: str) -> dict[str, object]:
    return {
        "binary": binary,
        "host": host,
        "availability_zone": availability_zone,
        "disabled": False,
        "ensuring": False,
        "stopped": False,
        "created_at": tx.now,
        "updated_at": tx.now,
    }


def _write(tx: Tx, row: dict[str, object], fresh: Sequence[str]) -> int:
    """Add the row; of one that is there already only the `fresh` columns are changed."""
    insert = insert_into(t, tx.dialect)
    statement = insert.on_conflict_do_update(
        index_elements=["binary", "host"], set_={name: insert.excluded[name] for name in fresh}
    ).returning(t.c.id)
    return int(tx.scalar(statement, row))


_HEARTBEAT = (
    sa.update(t)
    .where(t.c.binary == SHARE_BINARY, t.c.host.in_(sa.bindparam("hosts", expanding=True)))
    .values(heartbeat_at=sa.bindparam("at"), updated_at=sa.bindparam("at"), stopped=False)
)
_STOP = (
    sa.update(t)
    .where(t.c.binary == SHARE_BINARY, t.c.host.in_(sa.bindparam("hosts", expanding=True)))
    .values(stopped=True, updated_at=sa.bindparam("at"))
)
_EXPECT = (
    sa.update(t)
    .where(
        t.c.binary == SHARE_BINARY,
        t.c.host.in_(sa.bindparam("hosts", expanding=True)),
        t.c.heartbeat_at > NEVER,
        sa.or_(t.c.stopped.is_(sa.true()), t.c.heartbeat_at < sa.bindparam("down_before")),
    )
    .values(stopped=True, heartbeat_at=sa.bindparam("at"), updated_at=sa.bindparam("at"))
)


def heartbeat(tx: Tx, hosts: list[str]) -> None:
    """The worker that serves these back ends is alive."""
    tx.execute(_HEARTBEAT, {"hosts": hosts, "at": tx.now})


def expect(tx: Tx, hosts: list[str], service_down_time_s: int) -> None:
    """The worker of these back ends is starting: those that are not up count as ones that will be back."""
    tx.execute(_EXPECT, {"hosts": hosts, "at": tx.now, **down_before(tx, service_down_time_s)})


def stop(tx: Tx, hosts: list[str]) -> None:
    """Their worker has ended as it was told to."""
    tx.execute(_STOP, {"hosts": hosts, "at": tx.now})


class State(NamedTuple):
    """A state to list services by, and since when a heartbeat must have come for a service to be up."""

    name: str
    down_before: datetime.datetime


def _in_state(name: str, state: Hashable) -> sa.ColumnElement[bool]:
    if state == "stopped":
        return t.c.stopped.is_(sa.true())
    at = sa.bindparam(name, type_=t.c.heartbeat_at.type)
    return sa.and_(t.c.stopped.is_(sa.false()), t.c.heartbeat_at >= at if state == "up" else t.c.heartbeat_at < at)


SERVICES = Listing(
    t,
    columns={"zone": t.c.availability_zone},
    filters={
        "host": equal(t.c.host),
        "binary": equal(t.c.binary),
        "zone": equal(t.c.availability_zone),
        "disabled": equal(t.c.disabled),
        "ensuring": equal(t.c.ensuring),
        "state": Filter(_in_state, shape=lambda state: state.name, bind=lambda name, state: {name: state.down_before}),
    },
    sorts=("id",),
)


def switch(
    tx: Tx, binary: str, host: str, *, disabled: bool, reason: str | msgspec.UnsetType | None = msgspec.UNSET
) -> bool:
    """Let the scheduler use a service, or not; False when there is none. Shares that live there are not touched.

    Without a `reason` the one that was given before stays.
    """
    statement = sa.update(t).where(t.c.binary == binary, t.c.host == host)
    values: dict[str, object] = {"disabled": disabled, "updated_at": tx.now}
    if reason is not msgspec.UNSET:
        values["disabled_reason"] = reason
    return tx.execute(statement.values(values)).rowcount > 0


_OF_BACK_ENDS = sa.select(*columns_of(Service, t)).where(t.c.binary == SHARE_BINARY).order_by(t.c.host)
_AFTER = _OF_BACK_ENDS.where(t.c.host > sa.bindparam("after_host"))
_FIND = _OF_BACK_ENDS.where(t.c.host == sa.bindparam("of_host"))


def of_back_ends(tx: Tx) -> list[Service]:
    """The share services of all back ends that were ever served, in the order of their hosts."""
    return tx.entities(Service, _OF_BACK_ENDS)


def places(tx: Tx, asked: Mapping[str, object], page: Page) -> tuple[list[Service], str | None]:
    """A page of them, or that of the `host` asked for, and the marker of the next page; None where none follows."""
    if "host" in asked:
        one = find(tx, str(asked["host"]))
        return [one] if one is not None else [], None
    found = tx.entities(Service, _AFTER.limit(page.limit), {"after_host": page.marker or ""})
    return found, found[-1].host if found and len(found) == page.limit else None


def find(tx: Tx, host: str) -> Service | None:
    """The share service of exactly that host@backend, or None."""
    return tx.entity(Service, _FIND, {"of_host": host})


def number_of_places(tx: Tx, asked: Mapping[str, object]) -> int:
    """How many there are, on all pages."""
    return len(places(tx, asked, Page(1))[0]) if "host" in asked else int(tx.scalar(_PLACES))


_PLACES = sa.select(sa.func.count()).where(t.c.binary == SHARE_BINARY)


def instances_held(tx: Tx, hosts: Sequence[str], most: int) -> dict[str, int]:
    """How many share instances live on each host@backend, counted to one beyond `most`."""
    return {row.host: row.number for row in tx.rows(_HELD, {"hosts": list(hosts), "most": most + 1})} if hosts else {}


# between them are the pools of a back end, "host@backend#pool"
_LIVING = (
    sa.select(share_instances.c.id)
    .where(share_instances.c.host >= t.c.host + "#", share_instances.c.host < t.c.host + "$")
    .limit(sa.bindparam("most"))
    .correlate(t)
    .subquery("living")
)
_HELD = sa.select(
    t.c.host, sa.select(sa.func.count()).select_from(_LIVING).correlate(t).scalar_subquery().label("number")
).where(t.c.binary == SHARE_BINARY, t.c.host.in_(sa.bindparam("hosts", expanding=True)))


def remove(tx: Tx, host: str, service_down_time_s: int) -> None:
    """Forget a share service and its pools. Raises `NotFound`, or `Conflict` while it is up or anything is left there.

    The pools go first: whoever is just placing a share there has one of them locked, and is seen by the look after it.
    """
    found = find(tx, host)
    if found is None:
        raise errors.NotFound(resource="Service", id=host)
    if found.state(alive_since(tx, service_down_time_s)) == "up":
        raise errors.Conflict(f"The service {host} is up: stop the worker that serves it first.")
    tx.execute(sa.delete(pools).where(pools.c.service_host == host))
    held = share_instances.c.host.startswith(f"{host}#", autoescape=True)
    number = tx.connection.scalar(sa.select(sa.func.count()).where(held)) or 0
    if number:
        raise errors.Conflict(f"{number} share instances live at {host}: delete them first, or serve them again.")
    # a comparison with a back end that nobody serves says nothing, and nobody could end it
    of_kind = operations.c.kind == "backend-reconcile"
    tx.execute(
        sa.delete(operations).where(order.locked(operations.c.queue == host, of_kind, operations.c.state.in_(LIVE)))
    )
    waiting = sa.select(sa.func.count()).where(operations.c.queue == host, operations.c.state.in_(LIVE))
    if tx.connection.scalar(waiting):
        raise errors.Conflict(f"Operations wait for {host}: `abaca operation list` shows them, cancel them first.")
    tx.execute(sa.delete(t).where(t.c.binary == SHARE_BINARY, t.c.host == host))


def set_ensuring(tx: Tx, host: str, *, ensuring: bool) -> None:
    """Say that the shares of a back end are being ensured, or no longer."""
    statement = sa.update(t).where(t.c.binary == SHARE_BINARY, t.c.host == host)
    tx.execute(statement.values(ensuring=ensuring, updated_at=tx.now))


_SETTLE = (
    sa.update(t)
    .where(
        t.c.binary == SHARE_BINARY,
        t.c.host.in_(sa.bindparam("hosts", expanding=True)),
        t.c.ensuring.is_(True),
        ~sa.exists().where(
            operations.c.kind == "backend-ensure", operations.c.queue == t.c.host, operations.c.state.in_(LIVE)
        ),
    )
    .values(ensuring=False, updated_at=sa.bindparam("at"))
)


def settle(tx: Tx, hosts: Sequence[str]) -> int:
    """Of these back ends' services, those that only seem to ensure shares no longer do; how many."""
    return tx.execute(_SETTLE, {"hosts": hosts, "at": tx.now}).rowcount


def backend_info(tx: Tx, host: str) -> str | None:
    """The digest of what the back end said of itself when its shares were last ensured."""
    found: str | None = tx.scalar(sa.select(t.c.backend_info).where(t.c.binary == SHARE_BINARY, t.c.host == host))
    return found


def set_backend_info(tx: Tx, host: str, digest: str) -> None:
    """Remember it."""
    statement = sa.update(t).where(t.c.binary == SHARE_BINARY, t.c.host == host)
    tx.execute(statement.values(backend_info=digest, updated_at=tx.now))
