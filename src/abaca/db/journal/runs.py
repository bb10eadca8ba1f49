# SPDX-License-Identifier: Apache-2.0
"""Carrying work on: how far a run is, and how it ends, waits, is put aside or goes elsewhere.

Every write names the token of its claim. Those that return a flag give the cancel flag, or None when the lease is no
longer ours; the others say whether it is.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa

from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Row
from abaca.db.journal import children, keys, waits
from abaca.db.tables.journal import operation_keys as k
from abaca.db.tables.journal import operations as t
from abaca.domain.operations import Direction, Waiting


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run is: everything before `step` is done (or undone), and what was recorded on the way."""

    step: int
    direction: Direction
    attempt: int
    data: Mapping[str, object]
    error: tuple[str, str] | None = None

    def parameters(self) -> dict[str, object]:
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
_HERE: dict[str, object] = {
    "direction": sa.bindparam("to_direction"),
    "attempt": sa.bindparam("tries"),
    "data": sa.bindparam("recorded", type_=sa.JSON),
    "error_code": sa.bindparam("code"),
    "error_text": sa.bindparam("text"),
    "updated_at": sa.bindparam("at"),
    "overdue_since": None,
}
_CHECKPOINT = sa.update(t).where(_held).values(**_HERE, step=sa.bindparam("to_step")).returning(t.c.cancel)
_GO_ON = sa.update(t).where(_held).values(**_HERE, step=sa.bindparam("to_step"), wait=sa.null()).returning(t.c.cancel)
_PROGRESS = (
    sa.update(t)
    .where(_held)
    .values(progress_done=sa.bindparam("done"), progress_total=sa.bindparam("total"), updated_at=sa.bindparam("at"))
    .returning(t.c.cancel)
)


@functools.cache
def _ending(dialect: str) -> sa.Executable:
    ended = (
        sa.update(t)
        .where(_held)
        .values(
            **_HERE,
            step=sa.bindparam("to_step"),
            state=sa.bindparam("to_state"),
            owner=None,
            lease_until=None,
            wait=sa.null(),
            finished_at=sa.bindparam("at"),
        )
        .returning(t.c.id, keys.IS_FOLLOWED.label("followed"))
    )
    if dialect != "postgresql":
        return ended
    # one round trip where it can be one; all of it sees the keys as they were before
    done = ended.cte("ended")
    released = sa.delete(k).where(k.c.operation_id.in_(sa.select(done.c.id))).returning(k.c.key).cte("released")
    return sa.select(done.c.followed).add_cte(released)


# A commit whose answer got lost may have brought the row further than its worker knows: that is never taken back.
_is_further = sa.or_(
    sa.and_(sa.bindparam("to_direction") == "do", t.c.step > sa.bindparam("to_step")),
    sa.and_(sa.bindparam("to_direction") == "undo", t.c.direction == "undo", t.c.step < sa.bindparam("to_step")),
)
_LET_GO: dict[str, object] = {
    **_HERE,
    "step": sa.case((_is_further, t.c.step), else_=sa.bindparam("to_step")),
    "data": sa.case((_is_further, t.c.data), else_=sa.bindparam("recorded", type_=sa.JSON)),
    "owner": None,
    "lease_until": None,
}
_WAIT = sa.update(t).where(_held).values({**_LET_GO, "state": "waiting", "not_before": sa.bindparam("after")})
_HAND_BACK = sa.update(t).where(_held).values({**_LET_GO, "state": "queued", "not_before": 0.0})
_HOP = (
    sa.update(t)
    .where(_held)
    .values({**_LET_GO, "state": "queued", "not_before": 0.0, "queue": sa.bindparam("to_queue"), "wait": sa.null()})
)
_PUT_ASIDE = (
    sa.update(t)
    .where(_held, t.c.signals == sa.bindparam("heard"))
    .values(
        {
            **_LET_GO,
            "state": "waiting",
            "not_before": sa.bindparam("after"),
            "wait": sa.bindparam("waits_for", type_=sa.JSON),
            "joins_each": sa.bindparam("each"),
        }
    )
)
_REGISTER = (
    sa.update(t)
    .where(_held)
    .values(wait=sa.bindparam("waits_for", type_=sa.JSON), updated_at=sa.bindparam("at"))
    .returning(t.c.signals, t.c.cancel)
)


def touch(tx: Tx, op_id: str, token: int) -> bool | None:
    """Lock the row for this transaction: its cancel flag, or None when the lease is no longer ours."""
    return _flag(tx.row(_TOUCH, {"op": op_id, "held": token, "at": tx.now}))


def checkpoint(tx: Tx, op_id: str, token: int, place: Place, *, was_waiting: bool = False) -> bool | None:
    """Record how far it is; with `was_waiting` also that what it waited for is so."""
    parameters = {"op": op_id, "held": token, "at": tx.now, **place.parameters()}
    if not was_waiting:
        return _flag(tx.row(_CHECKPOINT, parameters))
    waits.forget(tx, op_id)
    return _flag(tx.row(_GO_ON, parameters))


def progress(tx: Tx, op_id: str, token: int, done: int, total: int) -> bool | None:
    """Record how much of the present step is done."""
    return _flag(tx.row(_PROGRESS, {"op": op_id, "held": token, "done": done, "total": total, "at": tx.now}))


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation has besides its row: its keys, its parent, and whether it was ever put aside for a wait."""

    keys: Sequence[str]
    parent_id: str | None
    has_waits: bool


def end(tx: Tx, op_id: str, token: int, state: str, place: Place, held: Held) -> bool | None:
    """End it and let go of its keys: whether others wait for one of these, or None when the lease is no longer ours."""
    parameters = {"op": op_id, "held": token, "to_state": state, "at": tx.now, "of_keys": held.keys}
    if held.parent_id is not None:  # first, as whoever cancels takes both rows: the other way round each waits for one
        children.ended(tx, held.parent_id, is_done=state == "done")
    row = tx.row(_ending(tx.dialect), {**parameters, **place.parameters()})
    if row is None:
        return None
    if tx.dialect != "postgresql":
        tx.execute(keys.RELEASE, {"op": op_id})
    if held.has_waits:
        waits.forget(tx, op_id)
    if row.followed:
        for queue in keys.followers(tx, held.keys):
            tx.wake(queue)
    return bool(row.followed)


def wait(tx: Tx, op_id: str, token: int, place: Place, after_s: float) -> bool:
    """Let it wait for another try, until `after_s`."""
    parameters = {"op": op_id, "held": token, "after": after_s, "at": tx.now, **place.parameters()}
    return tx.execute(_WAIT, parameters).rowcount == 1


def hand_back(tx: Tx, op_id: str, token: int, place: Place) -> bool:
    """Give it back to its queue."""
    return tx.execute(_HAND_BACK, {"op": op_id, "held": token, "at": tx.now, **place.parameters()}).rowcount == 1


def hop(tx: Tx, op_id: str, token: int, place: Place, queue: str) -> bool:
    """Let it go on from another queue, which is announced."""
    tx.wake(queue)
    parameters = {"op": op_id, "held": token, "to_queue": queue, "at": tx.now, **place.parameters()}
    return tx.execute(_HOP, parameters).rowcount == 1


def register_wait(tx: Tx, op_id: str, token: int, conditions: Sequence[str], wait: Waiting) -> tuple[int, bool] | None:
    """Write down what it waits for, before it looks once more; what it has heard so far, as `signals` says it."""
    row = tx.row(_REGISTER, {"op": op_id, "held": token, "waits_for": wait, "at": tx.now})
    if row is None:
        return None
    waits.forget(tx, op_id)
    waits.add(tx, op_id, conditions)
    return int(row.signals), bool(row.cancel)


class Aside(msgspec.Struct, frozen=True, kw_only=True):
    """How an operation is put aside: until when it looks by itself, as what, and how many signals it has heard."""

    after_s: float
    wait: Waiting
    heard: int
    each_child: bool = False


def put_aside(tx: Tx, op_id: str, token: int, place: Place, aside: Aside) -> bool:
    """Let it wait for its conditions; False when it was signalled since, or the lease is not ours."""
    parameters = {
        "op": op_id,
        "held": token,
        "at": tx.now,
        "after": aside.after_s,
        "waits_for": aside.wait,
        "heard": aside.heard,
        "each": aside.each_child,
        **place.parameters(),
    }
    return tx.execute(_PUT_ASIDE, parameters).rowcount == 1


def signals(tx: Tx, op_id: str, token: int) -> tuple[int, bool] | None:
    """How often it was signalled so far, and whether it is cancelled; None when the lease is no longer ours."""
    row = tx.row(_SIGNALS, {"op": op_id, "held": token})
    return None if row is None else (int(row.signals), bool(row.cancel))


_SIGNALS = sa.select(t.c.signals, t.c.cancel).where(_held)


def park(tx: Tx, op_id: str, token: int, place: Place) -> bool:
    """Put it aside until somebody resumes it; at once back in its queue when somebody has. False as for `wait`."""
    if not hand_back(tx, op_id, token, place):
        return False
    tx.execute(sa.update(t).where(t.c.id == op_id, _may_pause).values(state="paused"))
    return True


# what is cancelled or undone goes on to its end
_may_pause = sa.and_(t.c.state == "queued", t.c.pause.is_(True), t.c.cancel.is_(False), t.c.direction == "do")


def wants_pause(tx: Tx, op_id: str) -> bool:
    """Whether somebody has asked that it pauses."""
    return bool(tx.scalar(_WANTS_PAUSE, {"op": op_id}))


_WANTS_PAUSE = sa.select(t.c.pause).where(t.c.id == sa.bindparam("op"))


def _flag(row: Row | None) -> bool | None:
    return None if row is None else bool(row.cancel)


def mark_overdue(tx: Tx, op_id: str, token: int, step: int, now_s: float) -> None:
    """Say of an operation that it takes longer with that step than it may."""
    tx.execute(_OVERDUE, {"op": op_id, "held": token, "at_step": step, "since": now_s})


_OVERDUE = (
    sa.update(t)
    .where(_held, t.c.step == sa.bindparam("at_step"), t.c.overdue_since.is_(None))
    .values(overdue_since=sa.bindparam("since"))
)
