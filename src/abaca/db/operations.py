# SPDX-License-Identifier: Apache-2.0
"""The journal's rows: every statement that reads or writes `operations`.

A row is `queued`, `running` under a lease, or ended (`done`, `failed`, `cancelled`). Only one of a key runs at a time, held
by the unique `running_key`; only one of a coalescing key is queued, held by the unique `coalesce_key`. Each claim raises
`token`; every later write of that run names it, so a worker that slept through its lease changes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from abaca.db.engine import Tx
from abaca.db.tables import operations as t

LIVE = ("queued", "running")
ENDED = ("done", "failed", "cancelled")


def add(tx: Tx, row: Mapping[str, Any]) -> str:
    """Queue an operation; the id of it, or of the queued one that it coalesces with.

    `row` has kind, queue, key, args, resource_type, resource_id and, where known, coalesce_key, request_id, project_id,
    user_id, not_before.
    """
    values = {
        "id": str(uuid.uuid4()),
        "state": "queued",
        "step": 0,
        "direction": "do",
        "attempt": 0,
        "not_before": 0.0,
        "token": 0,
        "data": {},
        "progress_done": 0,
        "progress_total": 0,
        "cancel": False,
        "created_at": tx.now,
        "updated_at": tx.now,
        **row,
    }
    tx.wake(values["queue"])
    if values.get("coalesce_key") is None:
        tx.execute(_INSERT, values)
        return str(values["id"])
    # DO UPDATE, not DO NOTHING: it locks the queued row until this transaction ends, so that no worker takes it (they skip
    # locked rows) before what this transaction wrote can be seen.
    insert = postgresql.insert(t) if tx.dialect == "postgresql" else sqlite.insert(t)
    statement = (
        insert.values(values)
        .on_conflict_do_update(index_elements=[t.c.coalesce_key], set_={"updated_at": tx.now})
        .returning(t.c.id)
    )
    return str(tx.scalar(statement))


_INSERT = sa.insert(t).inline()

_earlier = t.alias("earlier")
_due = (
    sa.select(t.c.seq)
    .where(
        t.c.state == "queued",
        t.c.queue == sa.bindparam("on_queue"),
        t.c.not_before <= sa.bindparam("due"),
        t.c.kind.in_(sa.bindparam("kinds", expanding=True)),
        ~sa.exists().where(_earlier.c.key == t.c.key, _earlier.c.seq < t.c.seq, _earlier.c.state.in_(LIVE)),
    )
    .order_by(t.c.seq)
    .limit(sa.bindparam("most"))
    .with_for_update(of=t, skip_locked=True)
)


def _taken(where: sa.ColumnElement[bool]) -> sa.sql.dml.ReturningUpdate[Any]:
    return (
        sa.update(t)
        .where(where)
        .values(
            state="running",
            running_key=t.c.key,
            coalesce_key=None,
            owner=sa.bindparam("worker"),
            token=t.c.token + 1,
            lease_until=sa.bindparam("until"),
            updated_at=sa.bindparam("at"),
        )
        .returning(*t.c)
    )


_CLAIM = _taken(t.c.seq.in_(_due))
_ADOPT = _taken(
    sa.and_(
        t.c.state == "running",
        t.c.queue.in_(sa.bindparam("queues", expanding=True)),
        t.c.kind.in_(sa.bindparam("kinds", expanding=True)),
        sa.or_(
            t.c.lease_until < sa.bindparam("due"),
            sa.and_(t.c.owner == sa.bindparam("worker"), t.c.id.not_in(sa.bindparam("held", expanding=True))),
        ),
    )
)


def claim(
    tx: Tx, queue: str, kinds: Sequence[str], most: int, *, worker: str, now_s: float, lease_s: float
) -> Sequence[sa.Row[Any]]:
    """Take up to `most` due operations of `queue`, oldest first, none whose key has an earlier unfinished one."""
    rows = tx.rows(
        _CLAIM,
        {"on_queue": queue, "kinds": kinds, "most": most, "due": now_s, "worker": worker, "until": now_s + lease_s, "at": tx.now},
    )
    return sorted(rows, key=lambda row: int(row.seq))


def adopt(
    tx: Tx, queues: Sequence[str], kinds: Sequence[str], held: Sequence[str], *, worker: str, now_s: float, lease_s: float
) -> Sequence[sa.Row[Any]]:
    """Take over running operations whose lease has ended, and this worker's own that it does not hold.

    The latter are those of its earlier life, or those that it had to let go of while the database was away.
    """
    return tx.rows(
        _ADOPT,
        {
            "queues": queues,
            "kinds": kinds,
            "due": now_s,
            "held": held,
            "worker": worker,
            "until": now_s + lease_s,
            "at": tx.now,
        },
    )


def renew(tx: Tx, worker: str, held: Sequence[str], until_s: float) -> int:
    """Prolong the leases of what `worker` holds, in one statement; how many."""
    return tx.execute(_RENEW, {"worker": worker, "held": held, "until": until_s}).rowcount


_RENEW = (
    sa.update(t)
    .where(
        t.c.owner == sa.bindparam("worker"),
        t.c.state == "running",
        t.c.id.in_(sa.bindparam("held", expanding=True)),
    )
    .values(lease_until=sa.bindparam("until"))
)

_held = sa.and_(t.c.id == sa.bindparam("op"), t.c.token == sa.bindparam("held"), t.c.state == "running")
_TOUCH = sa.update(t).where(_held).values(updated_at=sa.bindparam("at")).returning(t.c.cancel)
_CHECKPOINT = (
    sa.update(t)
    .where(_held)
    .values(
        step=sa.bindparam("to_step"),
        direction=sa.bindparam("to_direction"),
        data=sa.bindparam("learnt", type_=sa.JSON),
        attempt=0,
        error_code=sa.bindparam("code"),
        error_text=sa.bindparam("text"),
        updated_at=sa.bindparam("at"),
    )
    .returning(t.c.cancel)
)
_PROGRESS = (
    sa.update(t)
    .where(_held)
    .values(progress_done=sa.bindparam("done"), progress_total=sa.bindparam("total"), updated_at=sa.bindparam("at"))
    .returning(t.c.cancel)
)
_next = t.alias("next")
_END = (
    sa.update(t)
    .where(_held)
    .values(
        state=sa.bindparam("to_state"),
        running_key=None,
        owner=None,
        lease_until=None,
        data=sa.bindparam("learnt", type_=sa.JSON),
        error_code=sa.bindparam("code"),
        error_text=sa.bindparam("text"),
        updated_at=sa.bindparam("at"),
        finished_at=sa.bindparam("at"),
    )
    .returning(sa.exists().where(_next.c.key == t.c.key, _next.c.state == "queued").label("followed"))
)
_WAIT = (
    sa.update(t)
    .where(_held)
    .values(
        state="queued",
        running_key=None,
        owner=None,
        lease_until=None,
        attempt=sa.bindparam("tries"),
        not_before=sa.bindparam("after"),
        error_code=sa.bindparam("code"),
        error_text=sa.bindparam("text"),
        updated_at=sa.bindparam("at"),
    )
)


def touch(tx: Tx, op_id: str, token: int) -> bool | None:
    """Lock the row for this transaction: its cancel flag, or None when the lease is no longer ours."""
    return _flag(tx.row(_TOUCH, {"op": op_id, "held": token, "at": tx.now}))


def checkpoint(
    tx: Tx, op_id: str, token: int, *, step: int, direction: str, data: Mapping[str, Any], error: tuple[str, str] | None
) -> bool | None:
    """Record that everything before `step` is done: the cancel flag, or None when the lease is no longer ours."""
    code, text = error or (None, None)
    return _flag(
        tx.row(
            _CHECKPOINT,
            {
                "op": op_id,
                "held": token,
                "to_step": step,
                "to_direction": direction,
                "learnt": data,
                "code": code,
                "text": text,
                "at": tx.now,
            },
        )
    )


def progress(tx: Tx, op_id: str, token: int, done: int, total: int) -> bool | None:
    """Record how far it is: the cancel flag, or None when the lease is no longer ours."""
    return _flag(tx.row(_PROGRESS, {"op": op_id, "held": token, "done": done, "total": total, "at": tx.now}))


def end(
    tx: Tx, op_id: str, token: int, state: str, *, data: Mapping[str, Any], error: tuple[str, str] | None
) -> bool | None:
    """End it: whether others of its key are queued, or None when the lease is no longer ours."""
    code, text = error or (None, None)
    parameters = {"op": op_id, "held": token, "to_state": state, "learnt": data, "code": code, "text": text, "at": tx.now}
    row = tx.row(_END, parameters)
    return None if row is None else bool(row.followed)


def wait(tx: Tx, op_id: str, token: int, *, attempt: int, after_s: float, error: tuple[str, str] | None) -> bool:
    """Give it back to its queue, due at `after_s`; False when the lease is no longer ours."""
    code, text = error or (None, None)
    parameters = {"op": op_id, "held": token, "tries": attempt, "after": after_s, "code": code, "text": text, "at": tx.now}
    return tx.execute(_WAIT, parameters).rowcount == 1


def _flag(row: sa.Row[Any] | None) -> bool | None:
    return None if row is None else bool(row.cancel)


def next_due(tx: Tx, queues: Sequence[str], now_s: float) -> float | None:
    """When the next waiting operation of `queues` becomes due, or None."""
    statement = sa.select(sa.func.min(t.c.not_before)).where(
        t.c.state == "queued", t.c.queue.in_(queues), t.c.not_before > now_s
    )
    found = tx.scalar(statement)
    return None if found is None else float(found)


def show(tx: Tx, op_id: str) -> sa.Row[Any] | None:
    """One operation."""
    return tx.row(sa.select(t).where(t.c.id == op_id))


def find(tx: Tx, *, live: bool = False, limit: int = 100, before: int | None = None, **equal: Any) -> Sequence[sa.Row[Any]]:
    """Operations, newest first, whose columns equal what is given; with `live` only queued and running ones."""
    statement = sa.select(t).order_by(t.c.seq.desc()).limit(limit)
    for column, value in equal.items():
        if value is not None:
            statement = statement.where(t.c[column] == value)
    if live:
        statement = statement.where(t.c.state.in_(LIVE))
    if before is not None:
        statement = statement.where(t.c.seq < before)
    return tx.rows(statement)


def request_cancel(tx: Tx, op_id: str) -> bool:
    """Ask a live operation to stop at its next step; False when it has ended."""
    statement = (
        sa.update(t)
        .where(t.c.id == op_id, t.c.state.in_(LIVE))
        .values(cancel=True, not_before=0.0, updated_at=tx.now)
        .returning(t.c.queue)
    )
    queue = tx.scalar(statement)
    if queue is not None:
        tx.wake(queue)
    return queue is not None


def retry_now(tx: Tx, op_id: str) -> bool:
    """Let a waiting operation run at once; False when it does not wait."""
    statement = (
        sa.update(t)
        .where(t.c.id == op_id, t.c.state == "queued")
        .values(not_before=0.0, updated_at=tx.now)
        .returning(t.c.queue)
    )
    queue = tx.scalar(statement)
    if queue is not None:
        tx.wake(queue)
    return queue is not None


def purge(tx: Tx, ended_before: Any, most: int = 1000) -> int:
    """Forget up to `most` operations that ended before then; how many."""
    old = sa.select(t.c.seq).where(t.c.state.in_(ENDED), t.c.finished_at < ended_before).limit(most)
    return tx.execute(sa.delete(t).where(t.c.seq.in_(old))).rowcount
