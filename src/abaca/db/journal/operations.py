# SPDX-License-Identifier: Apache-2.0
"""The journal's rows: what an operation is in the database, how one comes there, and how people find one.

A row is `queued`, `running` under a lease, `waiting` for a time or a condition, `paused`, or ended (`done`, `failed`,
`cancelled`). keys.py says which may run beside which; only one that nobody has begun is there of a coalescing key, held
by the unique `coalesce_key`. Taking work is in claims.py, carrying it on in runs.py.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Required, TypedDict

import msgspec
import sqlalchemy as sa

from abaca.db.engine import lists
from abaca.db.engine.database import Tx, insert_into
from abaca.db.engine.statements import columns_of, planned_for_values
from abaca.db.journal import keys, order
from abaca.db.tables.journal import operation_keys as k
from abaca.db.tables.journal import operations as t
from abaca.domain.ids import new_id
from abaca.domain.operations import OperationRecord, Waiting

# Those that have not ended; the first three go on by themselves.
ACTIVE = ("queued", "running", "waiting")
LIVE = (*ACTIVE, "paused")
ENDED = ("done", "failed", "cancelled")


class NewOperation(TypedDict, total=False):
    """The columns that a new operation sets; with `not_before`, in seconds since the epoch, it waits until then."""

    id: str
    kind: Required[str]
    queue: Required[str]
    keys: Required[Sequence[str]]
    coalesce_key: str | None
    args: Required[object]
    not_before: float
    wait: Waiting
    parent_id: str
    place: int
    resource_type: Required[str]
    resource_id: Required[str]
    request_id: str | None
    project_id: str | None
    user_id: str | None


def add(tx: Tx, row: NewOperation) -> str:
    """Queue an operation; the id of it, or of the queued one that it coalesces with."""
    op_id = row.get("id") or new_id()
    values = {**_queued(tx), "home": row["queue"], **row, "id": op_id}
    if row.get("not_before", 0.0) > 0:
        values["state"] = "waiting"
    tx.wake(row["queue"])
    if row.get("coalesce_key") is None and tx.dialect == "postgresql":
        _add_with_keys(tx, values, row["keys"])
        return op_id
    if row.get("coalesce_key") is None:
        tx.execute(_INSERT, values)
    elif (found := str(tx.scalar(_coalescing(tx.dialect), values))) != op_id:
        return found
    keys.add(tx, {op_id: row["keys"]})
    return op_id


def add_many(tx: Tx, found: Sequence[NewOperation]) -> None:
    """Queue operations that all coalesce, in one go."""
    if not found:
        return
    rows = {new_id(): row for row in found}
    tx.execute(
        _coalescing_many(tx.dialect),
        [{**_queued(tx), "home": row["queue"], **row, "id": op_id} for op_id, row in rows.items()],
    )
    keys.add(tx, {op_id: row["keys"] for op_id, row in rows.items()})
    for queue in {row["queue"] for row in found}:
        tx.wake(queue)


def _queued(tx: Tx) -> dict[str, object]:
    return {**_QUEUED, "created_at": tx.now, "updated_at": tx.now}


_QUEUED: dict[str, object] = {
    "state": "queued",
    "step": 0,
    "direction": "do",
    "attempt": 0,
    "not_before": 0.0,
    "signals": 0,
    "token": 0,
    "data": {},
    "progress_done": 0,
    "progress_total": 0,
    "children": 0,
    "joins_each": False,
    "cancel": False,
    "pause": False,
}
_INSERT = sa.insert(t).inline()


def _add_with_keys(tx: Tx, values: Mapping[str, object], of_keys: Sequence[str]) -> None:
    """On PostgreSQL: in one round trip, with whatever else waits to be added."""
    told = {name: value for name, value in values.items() if name not in _QUEUED or value != _QUEUED[name]}
    named = {f"op_{name}": value for name, value in told.items() if value is not None}
    tx.along(tx.execute, _adding(tuple(named)), {**named, "of_keys": list(dict.fromkeys(of_keys))})


@functools.lru_cache(maxsize=64)
def _adding(named: tuple[str, ...]) -> sa.Insert:
    """What is the same of each new operation stands in the text, which makes a third of it less to send."""
    values: dict[str, object] = {name: sa.literal_column(text) for name, text in _QUEUED_TEXTS.items()}
    for parameter in named:
        name = parameter.removeprefix("op_")
        values[name] = sa.bindparam(parameter, type_=t.c[name].type)
    return keys.adding_with(sa.insert(t).values(values))


_QUEUED_TEXTS = {
    name: f"'{value}'" if isinstance(value, str | dict) else str(value).lower() for name, value in _QUEUED.items()
}


@functools.cache
def _coalescing(dialect: str) -> Any:
    return _coalescing_many(dialect).returning(t.c.id)


@functools.cache
def _coalescing_many(dialect: str) -> Any:
    # DO UPDATE, not DO NOTHING: it locks the queued row until this transaction ends, so that no worker takes it (they
    # skip locked rows) before what this transaction wrote can be seen.
    insert = insert_into(t, dialect)
    same = {"index_elements": [t.c.coalesce_key], "set_": {"updated_at": insert.excluded.updated_at}}
    return insert.on_conflict_do_update(**same)


def extends(share_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Whether the share of that id is to grow: until that has ended, more is counted for it than its size says."""
    return keys.is_held("share", share_id, t.c.kind == "share-extend")


class _Grown(msgspec.Struct, frozen=True):
    size_gib: int


class Extension(msgspec.Struct, frozen=True):
    """A share in the pool `host` that is to grow, as its operation says it."""

    host: str
    new_size_gib: int
    instance: _Grown

    @property
    def difference_gib(self) -> int:
        """By how much."""
        return self.new_size_gib - self.instance.size_gib


def extensions(tx: Tx, queue: str) -> list[Extension]:
    """Those of a back end that have not ended."""
    return [msgspec.convert(row.args, Extension) for row in tx.rows(_EXTENSIONS, {"on_queue": queue})]


_EXTENSIONS = planned_for_values(
    sa.select(t.c.args).where(t.c.kind == "share-extend", t.c.queue == sa.bindparam("on_queue"), t.c.state.in_(LIVE))
)


class Joined(msgspec.Struct, frozen=True, gc=False):
    """An unfinished operation that somebody joins; with `pause` it is paused, or shall be."""

    id: str
    queue: str
    pause: bool


def join(tx: Tx, kind: str, key: str) -> Joined | None:
    """An unfinished operation of a kind and key, which cannot end before this transaction."""
    found = tx.entity(Joined, _JOIN, {"of_kind": kind, "of_key": key})
    if found is not None:
        tx.wake(found.queue)
    return found


_JOIN = (
    sa.select(*columns_of(Joined, t))
    .where(
        t.c.kind == sa.bindparam("of_kind"),
        t.c.state.in_(LIVE),
        sa.exists().where(k.c.operation_id == t.c.id, k.c.key == sa.bindparam("of_key")),
    )
    .limit(1)
    .with_for_update()
)


def _on_queue(name: str) -> sa.ColumnElement[bool]:
    """The index by queues begins with the state: all states are named, so that it serves."""
    return sa.and_(t.c.queue == sa.bindparam(name, type_=t.c.queue.type), t.c.state.in_((*LIVE, *ENDED)))


OPERATIONS = lists.Listing(
    t,
    filters={
        **{name: lists.equal(t.c[name]) for name in ("project_id", "resource_type", "kind", "state", "parent_id")},
        "queue": lists.where(_on_queue),
        "resource_id": lists.steady(lists.equal(t.c.resource_id)),
        "id_prefix": lists.begins(t.c.id),
        "states": lists.one_of(t.c.state),
    },
    # `seq` is the order of writing
    sorts={"created_at": ("seq",)},
    unindexed=lists.Unindexed(on_sqlite=("state", "states")),
)


def show(tx: Tx, op_id: str) -> OperationRecord | None:
    """One operation."""
    return tx.entity(OperationRecord, _SHOW, {"op": op_id})


WHOLE = sa.select(*columns_of(OperationRecord, t))
_SHOW = WHOLE.where(t.c.id == sa.bindparam("op"))


def ended(tx: Tx, op_ids: Sequence[str]) -> list[OperationRecord]:
    """Those of the operations that have ended."""
    return tx.entities(OperationRecord, _ENDED, {"ops": op_ids, "states": ENDED})


_ENDED = WHOLE.where(
    t.c.id.in_(sa.bindparam("ops", expanding=True)), t.c.state.in_(sa.bindparam("states", expanding=True))
)


def find(
    tx: Tx, *, live: bool = False, limit: int = 100, before: int | None = None, **equal: object
) -> list[OperationRecord]:
    """Operations, newest first, whose columns equal what is given; with `live` only those that have not ended."""
    statement = WHOLE.order_by(t.c.seq.desc()).limit(limit)
    for column, value in equal.items():
        if value is not None:
            statement = statement.where(t.c[column] == value)
    if live:
        statement = statement.where(t.c.state.in_(LIVE))
    if before is not None:
        statement = statement.where(t.c.seq < before)
    return tx.entities(OperationRecord, statement)


def done_on(tx: Tx, resource_ids: Sequence[str], kinds: Sequence[str]) -> list[OperationRecord]:
    """Those of these kinds that have been done with these resources, as far as the journal remembers."""
    return tx.entities(OperationRecord, _DONE_ON, {"resources": resource_ids, "kinds": kinds})


_DONE_ON = WHOLE.where(
    t.c.resource_id.in_(sa.bindparam("resources", expanding=True)),
    t.c.kind.in_(sa.bindparam("kinds", expanding=True)),
    t.c.state == sa.literal_column("'done'"),
)


def live_on(tx: Tx, resource_ids: Sequence[str], kind: str) -> list[str]:
    """Those of these resources about which operations of that kind have not ended."""
    found = tx.rows(_LIVE_ON, {"resources": resource_ids, "of_kind": kind}) if resource_ids else []
    return sorted({str(row.resource_id) for row in found})


_LIVE_ON = sa.select(t.c.resource_id).where(
    t.c.resource_id.in_(sa.bindparam("resources", expanding=True)),
    t.c.kind == sa.bindparam("of_kind"),
    t.c.state.in_(LIVE),
)


def forget(tx: Tx, op_ids: Sequence[str]) -> None:
    """Those of these operations that have ended; what another worker is purging is left to that."""
    if op_ids:
        tx.execute(sa.delete(t).where(order.free(t.c.id.in_(op_ids), t.c.state.in_(ENDED))))


def purge(tx: Tx, ended_before: datetime.datetime, most: int = 1000) -> int:
    """Forget up to `most` operations that ended before then; how many."""
    chosen = tx.rows(_OLD, {"before": ended_before, "most": most})
    if not chosen:
        return 0
    tx.execute(sa.delete(t).where(t.c.seq.in_([row.seq for row in chosen])))
    return len(chosen)


_parent = t.alias("parent")
# a parent looks at its children until it ends itself
_is_joined = sa.exists().where(_parent.c.id == t.c.parent_id, _parent.c.state.in_(LIVE))
_OLD = planned_for_values(
    sa.select(t.c.seq)
    .where(t.c.state.in_(ENDED), t.c.finished_at < sa.bindparam("before"), ~_is_joined)
    .order_by(t.c.seq)
    .limit(sa.bindparam("most"))
    # what another worker is purging is left to that
    .with_for_update(of=t, skip_locked=True)
)
