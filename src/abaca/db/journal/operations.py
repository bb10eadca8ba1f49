# SPDX-License-Identifier: Apache-2.0
"""The journal's rows: what an operation is in the database, how one comes there, and how people find one.

A row is `queued`, `running` under a lease, `waiting` for a time or a condition, `paused`, or ended (`done`, `failed`,
`cancelled`). keys.py says which may run beside which; only one that nobody has begun is there of a coalescing key, held
by the unique `coalesce_key`. Taking work is in claims.py, carrying it on in runs.py.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from abaca.db.engine import lists
from abaca.db.engine.database import Tx, insert_into
from abaca.db.journal import keys
from abaca.db.tables.journal import operation_keys as k
from abaca.db.tables.journal import operations as t
from abaca.domain.ids import new_id

# Those that have not ended; the first three go on by themselves.
ACTIVE = ("queued", "running", "waiting")
LIVE = (*ACTIVE, "paused")
ENDED = ("done", "failed", "cancelled")


def add(tx: Tx, row: Mapping[str, Any]) -> str:
    """Queue an operation; the id of it, or of the queued one that it coalesces with.

    `row` has kind, queue, keys, args, resource_type, resource_id and, where known, coalesce_key, request_id,
    project_id, user_id, parent_id and place; with not_before, in seconds since the epoch, it waits until then.
    """
    values = {**_queued(tx), "home": row["queue"], **row}
    if values["not_before"] > 0:
        values["state"] = "waiting"
    tx.wake(values["queue"])
    if values.get("coalesce_key") is None:
        tx.execute(_INSERT, values)
    elif (found := str(tx.scalar(_coalescing(tx.dialect), values))) != values["id"]:
        return found
    keys.add(tx, {values["id"]: values["keys"]})
    return str(values["id"])


def add_many(tx: Tx, found: Sequence[Mapping[str, Any]]) -> None:
    """Queue operations that all coalesce, in one go; each row as for `add`."""
    if not found:
        return
    rows = [{**_queued(tx), "home": row["queue"], **row} for row in found]
    tx.execute(_coalescing_many(tx.dialect), rows)
    keys.add(tx, {row["id"]: row["keys"] for row in rows})
    for queue in {row["queue"] for row in found}:
        tx.wake(queue)


def _queued(tx: Tx) -> dict[str, Any]:
    return {
        "id": new_id(),
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
        "created_at": tx.now,
        "updated_at": tx.now,
    }


_INSERT = sa.insert(t).inline()


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


def join(tx: Tx, kind: str, key: str) -> sa.Row[Any] | None:
    """An unfinished operation of a kind and key (id, queue, state, pause), which cannot end before this transaction."""
    columns = (t.c.id, t.c.queue, t.c.state, t.c.pause)
    held = sa.exists().where(k.c.operation_id == t.c.id, k.c.key == key)
    row = tx.row(sa.select(*columns).where(t.c.kind == kind, t.c.state.in_(LIVE), held).limit(1).with_for_update())
    if row is not None:
        tx.wake(row.queue)
    return row


OPERATIONS = lists.Listing(
    t,
    filters={
        **{
            name: lists.equal(t.c[name])
            for name in ("project_id", "resource_type", "resource_id", "kind", "queue", "state", "parent_id")
        },
        "id_prefix": lists.begins(t.c.id),
        "states": lists.one_of(t.c.state),
    },
    sorts=("created_at", "updated_at", "kind", "state"),
)


def show(tx: Tx, op_id: str) -> sa.Row[Any] | None:
    """One operation."""
    return tx.row(sa.select(t).where(t.c.id == op_id))


def find(
    tx: Tx, *, live: bool = False, limit: int = 100, before: int | None = None, **equal: Any
) -> Sequence[sa.Row[Any]]:
    """Operations, newest first, whose columns equal what is given; with `live` only those that have not ended."""
    statement = sa.select(t).order_by(t.c.seq.desc()).limit(limit)
    for column, value in equal.items():
        if value is not None:
            statement = statement.where(t.c[column] == value)
    if live:
        statement = statement.where(t.c.state.in_(LIVE))
    if before is not None:
        statement = statement.where(t.c.seq < before)
    return tx.rows(statement)


def purge(tx: Tx, ended_before: Any, most: int = 1000) -> int:
    """Forget up to `most` operations that ended before then; how many."""
    # a parent looks at its children until it ends itself
    parent = t.alias("parent")
    is_joined = sa.exists().where(parent.c.id == t.c.parent_id, parent.c.state.in_(LIVE))
    old = sa.select(t.c.seq).where(t.c.state.in_(ENDED), t.c.finished_at < ended_before, ~is_joined).limit(most)
    return tx.execute(sa.delete(t).where(t.c.seq.in_(old))).rowcount
