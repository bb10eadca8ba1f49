# SPDX-License-Identifier: Apache-2.0
"""Taking work: claims under a lease, and what becomes of work whose worker is gone.

Each claim raises `token`; every later write of that run names it, so a worker that slept through its lease changes
nothing. `generation` says the same to back ends, which know nothing of operations: it is greater than that of every
claim before, of whatever operation. It is the time in microseconds, or one more than the greatest where clocks are
behind, so that a database which was brought back from a backup goes on with greater ones. `owner` is `worker#life`: a
worker that starts again under its name knows by it what its earlier life has left.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from abaca.db.engine.database import Tx
from abaca.db.engine.statements import columns_of
from abaca.db.journal import keys, order
from abaca.db.tables.journal import operation_keys as k
from abaca.db.tables.journal import operations as t
from abaca.domain.operations import Direction, OperationRecord

_every = t.alias("every")
_GREATEST = sa.select(sa.func.coalesce(sa.func.max(_every.c.generation), 0))


def _after_all(dialect: str) -> sa.Function[int]:
    greater = sa.func.greatest if dialect == "postgresql" else sa.func.max
    return greater(sa.bindparam("now_us", type_=sa.BigInteger()), _GREATEST.scalar_subquery() + 1)


def greatest_generation(tx: Tx, now_s: float) -> int:
    """A generation that no earlier claim exceeds, and later ones do: of what is done outside of keys."""
    return max(int(now_s * 1e6), int(tx.scalar(_GREATEST)))


def _is_known(dialect: str) -> sa.ColumnElement[bool]:
    """Whether this worker knows the kind: PostgreSQL gets one parameter instead of one for each kind."""
    if dialect == "postgresql":
        return t.c.kind == sa.any_(sa.bindparam("kinds", type_=sa.ARRAY(t.c.kind.type)))
    return t.c.kind.in_(sa.bindparam("kinds", expanding=True))


@functools.lru_cache(maxsize=64)
def _claiming(most: int, dialect: str) -> sa.Update:
    """The limit stands in the text: a statement of unknown limit PostgreSQL plans anew every time."""
    due = (
        sa.select(t.c.seq, t.c.id)
        .where(
            t.c.state == sa.literal_column("'queued'"),
            t.c.queue == sa.bindparam("on_queue"),
            _is_known(dialect),
            ~keys.IS_BLOCKED,
        )
        .order_by(t.c.seq)
        .limit(sa.literal_column(str(int(most)), sa.Integer()))
        .with_for_update(of=t, skip_locked=True)
        # a CTE that locks is evaluated once; a plain subquery may be evaluated, and lock, again and again
        .cte("due")
    )
    # PostgreSQL joins nothing with an array: with a plan from when there were no rows it would go through all of them
    taken = sa.any_(sa.func.array(sa.select(due.c.id).scalar_subquery(), type_=sa.ARRAY(t.c.id.type)))
    claimed = (
        sa.update(t)
        .where(t.c.id == taken if dialect == "postgresql" else t.c.seq.in_(sa.select(due.c.seq)))
        .values(
            state="running",
            coalesce_key=None,
            owner=sa.bindparam("worker"),
            token=t.c.token + 1,
            generation=_after_all(dialect),
            lease_until=sa.bindparam("until"),
            updated_at=sa.bindparam("at"),
        )
        .returning(*columns_of(OperationRecord, t))
    )
    if dialect != "postgresql":
        return claimed
    # one round trip where it can be one
    mine = sa.update(k).where(k.c.operation_id == taken, k.c.held_key.is_distinct_from(k.c.key))
    return claimed.add_cte(mine.values(held_key=k.c.key).returning(k.c.key).cte("held"))


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """Who takes work, when, and until when it is theirs."""

    owner: str
    now_s: float
    until_s: float


def claim(tx: Tx, queue: str, kinds: Sequence[str], most: int, lease: Lease) -> list[OperationRecord]:
    """Take up to `most` queued operations of `queue`, oldest first, none that is behind another on one of its keys.

    Raises `IntegrityError` when another worker has just taken one of the same key.
    """
    parameters = {
        "on_queue": queue,
        "kinds": list(kinds),
        "worker": lease.owner,
        "until": lease.until_s,
        "now_us": int(lease.now_s * 1e6),
        "at": tx.now,
    }
    found = tx.entities(OperationRecord, _claiming(most, tx.dialect), parameters)
    if found and tx.dialect != "postgresql":
        tx.execute(keys.HOLD, {"ops": [one.id for one in found]})
    return sorted(found, key=lambda one: one.seq)


def promote(tx: Tx, queues: Sequence[str], now_s: float) -> int:
    """What has waited long enough is queued again, and its queue announced; how many.

    What another transaction writes is waited for: nobody looks at it once more when its time has come.
    """
    found = tx.rows(_PROMOTE, {"queues": queues, "now_s": now_s})
    for row in found:
        tx.wake(row.queue)
    return len(found)


_PROMOTE = (
    sa.update(t)
    .where(
        order.locked(
            t.c.state == sa.literal_column("'waiting'"),
            t.c.queue.in_(sa.bindparam("queues", expanding=True)),
            t.c.not_before <= sa.bindparam("now_s"),
        )
    )
    .values(state="queued")
    .returning(t.c.queue)
)


def next_due(tx: Tx, queues: Sequence[str]) -> float | None:
    """When the next waiting operation of `queues` looks again, or None."""
    found = tx.scalar(_NEXT_DUE, {"queues": queues})
    return None if found is None else float(found)


_NEXT_DUE = sa.select(sa.func.min(t.c.not_before)).where(
    t.c.state == sa.literal_column("'waiting'"), t.c.queue.in_(sa.bindparam("queues", expanding=True))
)

_left = sa.and_(
    t.c.state == "running",
    t.c.queue.in_(sa.bindparam("queues", expanding=True)),
    t.c.id.not_in(sa.bindparam("held", expanding=True)),
)
_BACK: dict[str, object] = {
    "state": "queued",
    "owner": None,
    "lease_until": None,
    "not_before": 0.0,
    "overdue_since": None,
    "updated_at": sa.bindparam("at"),
}


class Left(msgspec.Struct, frozen=True, gc=False):
    """An operation that its worker has left, or lost: the step from which it goes on, and what it is about.

    With `not_before` (Unix time in seconds) it waits until then.
    """

    id: str
    kind: str
    queue: str
    step: int
    direction: Direction
    home: str
    args: dict[str, object]
    data: dict[str, object]
    not_before: float = 0.0


_LEFT_BY = columns_of(Left, t)
# By its owner alone SQLite finds it among all that rest; what runs has a lease, and leases have an index.
_is_mine = sa.and_(t.c.owner == sa.bindparam("mine"), t.c.lease_until > 0.0)
_REGAIN = sa.update(t).where(order.free(_left, _is_mine)).values(_BACK).returning(*_LEFT_BY)

WORKER_LOST = "WorkerLost"
_LOST_TEXT = "The worker that ran it has ended; it goes on."
# What is undone keeps the error for which it is. What ends its workers again and again must not do so without pause.
_is_undone = t.c.direction == "undo"
_was_lost = sa.or_(_is_undone, t.c.error_code == WORKER_LOST)
_is_lost_often = sa.and_(_was_lost, t.c.attempt >= 3)
_LOST: dict[str, object] = {
    **_BACK,
    "attempt": sa.case((_was_lost, t.c.attempt + 1), else_=1),
    "state": sa.case((_is_lost_often, "waiting"), else_="queued"),
    "not_before": sa.case((_is_lost_often, sa.bindparam("later")), else_=0.0),
    "error_code": sa.case((_is_undone, t.c.error_code), else_=WORKER_LOST),
    "error_text": sa.case((_is_undone, t.c.error_text), else_=_LOST_TEXT),
}
_is_over = t.c.lease_until < sa.bindparam("due")
_of_an_earlier_life = sa.func.substr(t.c.owner, 1, sa.bindparam("length")) == sa.bindparam("earlier")
_TAKE_OVER = sa.update(t).where(order.free(_left, _is_over)).values(_LOST).returning(*_LEFT_BY)
_INHERIT = sa.update(t).where(order.free(_left, _of_an_earlier_life)).values(_LOST).returning(*_LEFT_BY)
_LEGACY = sa.select(t.c.id).where(_left, _of_an_earlier_life)
_INHERIT_ONE = (
    sa.update(t).where(_left, _of_an_earlier_life, t.c.id == sa.bindparam("op")).values(_LOST).returning(*_LEFT_BY)
)


class Moment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """When work is taken over (Unix time in seconds), and the pause of what has ended its workers again and again."""

    now_s: float
    pause_s: float = 30.0


def regain(tx: Tx, queues: Sequence[str], held: Sequence[str], *, owner: str) -> list[Left]:
    """Queue again what is `owner`'s though it does not hold it: it had to let go while the database was away.

    Like `take_over` and `inherit` it leaves out what another transaction writes at this moment: that one may want a row
    which is locked here.
    """
    return tx.entities(Left, _REGAIN, {"queues": queues, "held": held, "mine": owner, "at": tx.now})


def take_over(tx: Tx, queues: Sequence[str], held: Sequence[str], *, at: Moment) -> list[Left]:
    """Queue again what has outlived its lease."""
    return tx.entities(Left, _TAKE_OVER, _losing(tx, queues, held, at))


def inherit(tx: Tx, queues: Sequence[str], held: Sequence[str], *, worker: str, at: Moment) -> list[Left]:
    """Queue again all that `worker` has left in an earlier life, whatever its lease says."""
    return tx.entities(Left, _INHERIT, {**_losing(tx, queues, held, at), **_earlier(worker)})


def left_by(tx: Tx, queues: Sequence[str], held: Sequence[str], *, worker: str) -> list[str]:
    """The ids of what `inherit` would take, written by another transaction or not."""
    return [row.id for row in tx.rows(_LEGACY, {"queues": queues, "held": held, **_earlier(worker)})]


def inherit_one(
    tx: Tx, op_id: str, queues: Sequence[str], held: Sequence[str], *, worker: str, at: Moment
) -> list[Left]:
    """The same for one operation, which is waited for."""
    return tx.entities(Left, _INHERIT_ONE, {**_losing(tx, queues, held, at), **_earlier(worker), "op": op_id})


def _earlier(worker: str) -> dict[str, object]:
    earlier = f"{worker}#"
    return {"earlier": earlier, "length": len(earlier)}


def _losing(tx: Tx, queues: Sequence[str], held: Sequence[str], at: Moment) -> dict[str, object]:
    return {"queues": queues, "held": held, "due": at.now_s, "later": at.now_s + at.pause_s, "at": tx.now}


def renew(tx: Tx, owner: str, held: Sequence[str], until_s: float) -> set[str]:
    """Prolong the leases of what `owner` holds, in one statement; the ids of what it has not lost.

    What another transaction writes at this moment is left out: a row that waits must not keep the others from theirs.
    """
    return {row.id for row in tx.rows(_RENEW, {"worker": owner, "held": held, "until": until_s})}


def renew_one(tx: Tx, owner: str, op_id: str, until_s: float) -> bool:
    """The same for one, which is waited for; whether it is not lost."""
    return bool(tx.rows(_RENEW_ONE, {"worker": owner, "op": op_id, "until": until_s}))


_is_owned = sa.and_(t.c.owner == sa.bindparam("worker"), t.c.state == "running")
_RENEWED = sa.update(t).values(lease_until=sa.bindparam("until")).returning(t.c.id)
_RENEW = _RENEWED.where(order.free(_is_owned, t.c.id.in_(sa.bindparam("held", expanding=True))))
_RENEW_ONE = _RENEWED.where(_is_owned, t.c.id == sa.bindparam("op"))
