# SPDX-License-Identifier: Apache-2.0
"""The journal's rows: every statement that reads or writes `operations`.

A row is `queued`, `running` under a lease, `paused`, or ended (`done`, `failed`, `cancelled`). Only one of a key runs
at a time, held by the unique `running_key`; only one of a coalescing key is queued, held by the unique `coalesce_key`.
Each claim raises `token`; every later write of that run names it, so a worker that slept through its lease changes
nothing. `owner` is `worker#life`: a worker that starts again under its name knows by it what its earlier life has
left.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from abaca.db.engine import lists
from abaca.db.engine.database import Tx, insert_into
from abaca.db.tables.journal import operations as t
from abaca.domain.ids import new_id

# Those that have not ended; the first two go on by themselves.
ACTIVE = ("queued", "running")
LIVE = (*ACTIVE, "paused")
ENDED = ("done", "failed", "cancelled")


def add(tx: Tx, row: Mapping[str, Any]) -> str:
    """Queue an operation; the id of it, or of the queued one that it coalesces with.

    `row` has kind, queue, key, args, resource_type, resource_id and, where known, coalesce_key, request_id, project_id,
    user_id, not_before.
    """
    values = {**_queued(tx), **row}
    tx.wake(values["queue"])
    if values.get("coalesce_key") is None:
        tx.execute(_INSERT, values)
        return str(values["id"])
    return str(tx.scalar(_coalescing(tx.dialect), values))


def add_many(tx: Tx, found: Sequence[Mapping[str, Any]]) -> None:
    """Queue operations that all coalesce, in one go; each row as for `add`."""
    if not found:
        return
    insert = insert_into(t, tx.dialect)
    again = {"updated_at": insert.excluded.updated_at}
    statement = insert.on_conflict_do_update(index_elements=[t.c.coalesce_key], set_=again)
    tx.execute(statement, [{**_queued(tx), **row} for row in found])
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
        "token": 0,
        "data": {},
        "progress_done": 0,
        "progress_total": 0,
        "cancel": False,
        "pause": False,
        "created_at": tx.now,
        "updated_at": tx.now,
    }


def extends(share_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Whether the share of that id is to grow: until that has ended, more is counted for it than its size says."""
    return sa.exists().where(t.c.kind == "share-extend", t.c.key == share_id, t.c.state.in_(LIVE))


def join(tx: Tx, key: str) -> sa.Row[Any] | None:
    """An unfinished operation of `key` (id, queue, state, pause), which cannot end before this transaction has."""
    columns = (t.c.id, t.c.queue, t.c.state, t.c.pause)
    row = tx.row(sa.select(*columns).where(t.c.key == key, t.c.state.in_(LIVE)).limit(1).with_for_update())
    if row is not None:
        tx.wake(row.queue)
    return row


_INSERT = sa.insert(t).inline()


@functools.cache
def _coalescing(dialect: str) -> Any:
    # DO UPDATE, not DO NOTHING: it locks the queued row until this transaction ends, so that no worker takes it (they
    # skip locked rows) before what this transaction wrote can be seen.
    insert = insert_into(t, dialect)
    same = {"index_elements": [t.c.coalesce_key], "set_": {"updated_at": insert.excluded.updated_at}}
    return insert.on_conflict_do_update(**same).returning(t.c.id)


_other = t.alias("other")
# Behind an unfinished one of its key, or beside a running one: a row may become visible after a younger one has been
# taken, since transactions do not commit in the order in which they took their numbers.
_blocked = sa.exists().where(
    _other.c.key == t.c.key,
    sa.or_(
        _other.c.state == "running",
        sa.and_(_other.c.state.in_(("queued", "paused")), _other.c.seq < t.c.seq),
    ),
)


@functools.lru_cache(maxsize=64)
def _claiming(most: int) -> sa.Update:
    """The limit stands in the text: a statement of unknown limit PostgreSQL plans anew every time."""
    due = (
        sa.select(t.c.seq)
        .where(
            t.c.state == sa.literal_column("'queued'"),
            t.c.queue == sa.bindparam("on_queue"),
            t.c.not_before <= sa.bindparam("due"),
            t.c.kind.in_(sa.bindparam("kinds", expanding=True)),
            ~_blocked,
        )
        .order_by(t.c.seq)
        .limit(sa.literal_column(str(int(most)), sa.Integer()))
        .with_for_update(of=t, skip_locked=True)
        # a CTE that locks is evaluated once; a plain subquery may be evaluated, and lock, again and again
        .cte("due")
    )
    return (
        sa.update(t)
        .where(t.c.seq.in_(sa.select(due.c.seq)))
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


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """Who takes work, when, and until when it is theirs."""

    owner: str
    now_s: float
    until_s: float


def claim(tx: Tx, queue: str, kinds: Sequence[str], most: int, lease: Lease) -> Sequence[sa.Row[Any]]:
    """Take up to `most` due operations of `queue`, oldest first, none whose key has an earlier unfinished one."""
    parameters = {
        "on_queue": queue,
        "kinds": kinds,
        "due": lease.now_s,
        "worker": lease.owner,
        "until": lease.until_s,
        "at": tx.now,
    }
    return sorted(tx.rows(_claiming(most), parameters), key=lambda row: int(row.seq))


_left = sa.and_(
    t.c.state == "running",
    t.c.queue.in_(sa.bindparam("queues", expanding=True)),
    t.c.id.not_in(sa.bindparam("held", expanding=True)),
)
_BACK: dict[str, Any] = {
    "state": "queued",
    "running_key": None,
    "owner": None,
    "lease_until": None,
    "not_before": 0.0,
    "updated_at": sa.bindparam("at"),
}
_LEFT_BY = (t.c.id, t.c.kind, t.c.queue, t.c.step, t.c.direction)
_REGAIN = sa.update(t).where(_left, t.c.owner == sa.bindparam("mine")).values(_BACK).returning(*_LEFT_BY)

WORKER_LOST = "WorkerLost"
_LOST_TEXT = "The worker that ran it has ended; it goes on."
# What is undone keeps the error for which it is. What ends its workers again and again must not do so without pause.
_is_undone = t.c.direction == "undo"
_was_lost = sa.or_(_is_undone, t.c.error_code == WORKER_LOST)
_LOST: dict[str, Any] = {
    **_BACK,
    "attempt": sa.case((_was_lost, t.c.attempt + 1), else_=1),
    "not_before": sa.case((sa.and_(_was_lost, t.c.attempt >= 3), sa.bindparam("later")), else_=0.0),
    "error_code": sa.case((_is_undone, t.c.error_code), else_=WORKER_LOST),
    "error_text": sa.case((_is_undone, t.c.error_text), else_=_LOST_TEXT),
}
_is_over = t.c.lease_until < sa.bindparam("due")
_of_an_earlier_life = sa.func.substr(t.c.owner, 1, sa.bindparam("length")) == sa.bindparam("earlier")
_TAKE_OVER = sa.update(t).where(_left, _is_over).values(_LOST).returning(*_LEFT_BY)
_INHERIT = sa.update(t).where(_left, sa.or_(_is_over, _of_an_earlier_life)).values(_LOST).returning(*_LEFT_BY)
_PAUSE_S = 30.0


def regain(tx: Tx, queues: Sequence[str], held: Sequence[str], *, owner: str) -> Sequence[sa.Row[Any]]:
    """Queue again what is `owner`'s though it does not hold it: it had to let go while the database was away.

    The rows have id, kind, queue, step and direction.
    """
    return tx.rows(_REGAIN, {"queues": queues, "held": held, "mine": owner, "at": tx.now})


def take_over(tx: Tx, queues: Sequence[str], held: Sequence[str], *, now_s: float) -> Sequence[sa.Row[Any]]:
    """Queue again what has outlived its lease; rows as above."""
    return tx.rows(_TAKE_OVER, _losing(tx, queues, held, now_s))


def inherit(tx: Tx, queues: Sequence[str], held: Sequence[str], *, worker: str, now_s: float) -> Sequence[sa.Row[Any]]:
    """As `take_over`, with all that `worker` has left in an earlier life, whatever its lease says."""
    earlier = f"{worker}#"
    return tx.rows(_INHERIT, {**_losing(tx, queues, held, now_s), "earlier": earlier, "length": len(earlier)})


def _losing(tx: Tx, queues: Sequence[str], held: Sequence[str], now_s: float) -> dict[str, Any]:
    return {"queues": queues, "held": held, "due": now_s, "later": now_s + _PAUSE_S, "at": tx.now}


def renew(tx: Tx, owner: str, held: Sequence[str], until_s: float) -> set[str]:
    """Prolong the leases of what `owner` holds, in one statement; the ids of what it has not lost."""
    return {row.id for row in tx.rows(_RENEW, {"worker": owner, "held": held, "until": until_s})}


_RENEW = (
    sa.update(t)
    .where(
        t.c.owner == sa.bindparam("worker"),
        t.c.state == "running",
        t.c.id.in_(sa.bindparam("held", expanding=True)),
    )
    .values(lease_until=sa.bindparam("until"))
    .returning(t.c.id)
)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run is: everything before `step` is done (or undone), and what was recorded on the way."""

    step: int
    direction: str
    attempt: int
    data: Mapping[str, Any]
    error: tuple[str, str] | None = None

    def parameters(self) -> dict[str, Any]:
        """For the statements below."""
        code, text = self.error or (None, None)
        return {
            "to_step": self.step,
            "to_direction": self.direction,
            "tries": self.attempt,
            "recorded": self.data,
            "code": code,
            "text": text,
        }


_held = sa.and_(t.c.id == sa.bindparam("op"), t.c.token == sa.bindparam("held"), t.c.state == "running")
_TOUCH = sa.update(t).where(_held).values(updated_at=sa.bindparam("at")).returning(t.c.cancel)
_HERE: dict[str, Any] = {
    "direction": sa.bindparam("to_direction"),
    "attempt": sa.bindparam("tries"),
    "data": sa.bindparam("recorded", type_=sa.JSON),
    "error_code": sa.bindparam("code"),
    "error_text": sa.bindparam("text"),
    "updated_at": sa.bindparam("at"),
}
_CHECKPOINT = sa.update(t).where(_held).values(**_HERE, step=sa.bindparam("to_step")).returning(t.c.cancel)
_PROGRESS = (
    sa.update(t)
    .where(_held)
    .values(progress_done=sa.bindparam("done"), progress_total=sa.bindparam("total"), updated_at=sa.bindparam("at"))
    .returning(t.c.cancel)
)
_next = t.alias("next")
# The key is given: SQLite would take an unqualified column inside RETURNING for that of `next`.
_END = (
    sa.update(t)
    .where(_held)
    .values(
        **_HERE,
        step=sa.bindparam("to_step"),
        state=sa.bindparam("to_state"),
        running_key=None,
        owner=None,
        lease_until=None,
        finished_at=sa.bindparam("at"),
    )
    .returning(sa.exists().where(_next.c.key == sa.bindparam("of_key"), _next.c.state == "queued").label("followed"))
)
# A commit whose answer got lost may have brought the row further than its worker knows: that is never taken back.
_is_further = sa.or_(
    sa.and_(sa.bindparam("to_direction") == "do", t.c.step > sa.bindparam("to_step")),
    sa.and_(sa.bindparam("to_direction") == "undo", t.c.direction == "undo", t.c.step < sa.bindparam("to_step")),
)
_WAIT = (
    sa.update(t)
    .where(_held)
    .values(
        {
            **_HERE,
            "step": sa.case((_is_further, t.c.step), else_=sa.bindparam("to_step")),
            "data": sa.case((_is_further, t.c.data), else_=sa.bindparam("recorded", type_=sa.JSON)),
            "state": "queued",
            "running_key": None,
            "owner": None,
            "lease_until": None,
            "not_before": sa.bindparam("after"),
        }
    )
)


def touch(tx: Tx, op_id: str, token: int) -> bool | None:
    """Lock the row for this transaction: its cancel flag, or None when the lease is no longer ours."""
    return _flag(tx.row(_TOUCH, {"op": op_id, "held": token, "at": tx.now}))


def checkpoint(tx: Tx, op_id: str, token: int, place: Place) -> bool | None:
    """Record how far it is: the cancel flag, or None when the lease is no longer ours."""
    return _flag(tx.row(_CHECKPOINT, {"op": op_id, "held": token, "at": tx.now, **place.parameters()}))


def progress(tx: Tx, op_id: str, token: int, done: int, total: int) -> bool | None:
    """Record how much of the present step is done: the cancel flag, or None when the lease is no longer ours."""
    return _flag(tx.row(_PROGRESS, {"op": op_id, "held": token, "done": done, "total": total, "at": tx.now}))


def end(tx: Tx, op_id: str, token: int, state: str, place: Place, key: str) -> bool | None:
    """End it: whether others of its `key` are queued, or None when the lease is no longer ours."""
    parameters = {"op": op_id, "held": token, "to_state": state, "of_key": key, "at": tx.now, **place.parameters()}
    row = tx.row(_END, parameters)
    return None if row is None else bool(row.followed)


def wait(tx: Tx, op_id: str, token: int, place: Place, after_s: float) -> bool:
    """Give it back to its queue, due at `after_s`; False when the lease is no longer ours."""
    parameters = {"op": op_id, "held": token, "after": after_s, "at": tx.now, **place.parameters()}
    return tx.execute(_WAIT, parameters).rowcount == 1


def park(tx: Tx, op_id: str, token: int, place: Place) -> bool:
    """Put it aside until somebody resumes it; at once back in its queue when somebody has. False as for `wait`."""
    if not wait(tx, op_id, token, place, 0.0):
        return False
    tx.execute(sa.update(t).where(t.c.id == op_id, _may_pause).values(state="paused"))
    return True


# what is cancelled or undone goes on to its end
_may_pause = sa.and_(t.c.state == "queued", t.c.pause.is_(True), t.c.cancel.is_(False), t.c.direction == "do")


def wants_pause(tx: Tx, op_id: str) -> bool:
    """Whether somebody has asked that it pauses."""
    return bool(tx.scalar(_WANTS_PAUSE, {"op": op_id}))


_WANTS_PAUSE = sa.select(t.c.pause).where(t.c.id == sa.bindparam("op"))


def _flag(row: sa.Row[Any] | None) -> bool | None:
    return None if row is None else bool(row.cancel)


def next_due(tx: Tx, queues: Sequence[str], now_s: float) -> float | None:
    """When the next waiting operation of `queues` becomes due, or None."""
    statement = sa.select(sa.func.min(t.c.not_before)).where(
        t.c.state == "queued", t.c.queue.in_(queues), t.c.not_before > now_s
    )
    found = tx.scalar(statement)
    return None if found is None else float(found)


OPERATIONS = lists.Listing(
    t,
    filters={
        **{name: lists.equal(t.c[name]) for name in ("project_id", "resource_type", "resource_id", "kind", "state")},
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
    return _steer(tx, op_id, t.c.state.in_(LIVE), cancel=True, pause=False, not_before=0.0, state=_unpaused)


# what was paused must be claimed to go on, be it to its end
_unpaused = sa.case((t.c.state == "paused", "queued"), else_=t.c.state)


def request_pause(tx: Tx, op_id: str) -> bool:
    """Ask a live operation to pause after the part under way; False when it has ended, is cancelled or goes back.

    One that no worker has had yet is paused at once; any other by a worker, which knows what it leaves half done.
    """
    is_fresh = sa.and_(t.c.state == "queued", t.c.token == 0)
    can = sa.and_(t.c.state.in_(LIVE), t.c.cancel.is_(False), t.c.direction == "do")
    state = sa.case((is_fresh, "paused"), else_=t.c.state)
    return _steer(tx, op_id, can, pause=True, not_before=0.0, state=state)


def resume(tx: Tx, op_id: str) -> bool:
    """Let it go on; False when it is not paused and nobody has asked for that."""
    can = sa.and_(t.c.state.in_(LIVE), t.c.pause.is_(True))
    return _steer(tx, op_id, can, pause=False, not_before=0.0, state=_unpaused)


def _steer(tx: Tx, op_id: str, condition: sa.ColumnElement[bool], **values: Any) -> bool:
    statement = sa.update(t).where(t.c.id == op_id, condition).values(**values, updated_at=tx.now).returning(t.c.queue)
    queue = tx.scalar(statement)
    if queue is not None:
        tx.wake(queue)
    return queue is not None


def cancel_of_key(tx: Tx, key: str) -> None:
    """Ask whatever lives under `key` to stop at its next step."""
    statement = (
        sa.update(t)
        .where(t.c.key == key, t.c.state.in_(LIVE))
        .values(cancel=True, not_before=0.0, updated_at=tx.now)
        .returning(t.c.queue)
    )
    for row in tx.rows(statement):
        tx.wake(row.queue)


def hurry(tx: Tx, key: str) -> None:
    """Let what waits under `key` for another try run at once: what it waited for is so."""
    waiting = (t.c.key == key, t.c.state == "queued", t.c.not_before > 0, t.c.pause.is_(False))
    for row in tx.rows(sa.update(t).where(*waiting).values(not_before=0.0).returning(t.c.queue)):
        tx.wake(row.queue)


def retry_now(tx: Tx, op_id: str) -> bool:
    """Let a waiting operation run at once; False when it does not wait."""
    return _steer(tx, op_id, t.c.state == "queued", not_before=0.0)


def purge(tx: Tx, ended_before: Any, most: int = 1000) -> int:
    """Forget up to `most` operations that ended before then; how many."""
    old = sa.select(t.c.seq).where(t.c.state.in_(ENDED), t.c.finished_at < ended_before).limit(most)
    return tx.execute(sa.delete(t).where(t.c.seq.in_(old))).rowcount
