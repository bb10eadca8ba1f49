# SPDX-License-Identifier: Apache-2.0
"""Operations that others have started: the parent counts those that live, and hears of each that ends."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from abaca.db.engine.database import Tx
from abaca.db.engine.statements import columns_of
from abaca.db.journal import order
from abaca.db.tables.journal import operations as t
from abaca.domain.operations import OperationRecord

_LIVE = ("queued", "running", "waiting", "paused")


def started(tx: Tx, parent_id: str, number: int) -> None:
    """A parent has so many children more; its progress counts them."""
    tx.execute(_STARTED, {"parent": parent_id, "more": number})


_STARTED = (
    sa.update(t)
    .where(t.c.id == sa.bindparam("parent"))
    .values(
        children=t.c.children + sa.bindparam("more", type_=sa.Integer),
        progress_total=t.c.progress_total + sa.bindparam("more", type_=sa.Integer),
    )
)


def ended(tx: Tx, parent_id: str, *, is_done: bool) -> None:
    """A child has ended; its parent looks when that was the last one, or failed, or when the parent asked for each."""
    row = tx.row(_ENDED, {"parent": parent_id, "is_done": is_done})
    if row is not None and row.state == "queued":
        tx.wake(row.queue)


# Only the parent's own columns decide: two children that end at once find each other's count, one after the other.
_calls = sa.or_(t.c.children <= 1, sa.not_(sa.bindparam("is_done", type_=sa.Boolean)), t.c.joins_each)
_ENDED = (
    sa.update(t)
    .where(t.c.id == sa.bindparam("parent"))
    .values(
        children=t.c.children - 1,
        progress_done=t.c.progress_done + 1,
        signals=t.c.signals + 1,
        state=sa.case((sa.and_(t.c.state == "waiting", _calls), "queued"), else_=t.c.state),
    )
    .returning(t.c.state, t.c.queue)
)


def of(tx: Tx, parent_id: str) -> list[OperationRecord]:
    """All children of an operation, in the order in which they were started."""
    return tx.entities(OperationRecord, _OF, {"parent": parent_id})


_OF = sa.select(*columns_of(OperationRecord, t)).where(t.c.parent_id == sa.bindparam("parent")).order_by(t.c.seq)


def count_live(tx: Tx, parent_id: str) -> int:
    """How many have not ended."""
    return int(tx.scalar(_COUNT_LIVE, {"parent": parent_id}))


_COUNT_LIVE = (
    sa.select(sa.func.count()).select_from(t).where(t.c.parent_id == sa.bindparam("parent"), t.c.state.in_(_LIVE))
)


def cancel(tx: Tx, parent_ids: Sequence[str]) -> None:
    """Ask all that live below these to stop at their next step."""
    if parent_ids:
        for row in tx.rows(_CANCEL, {"parents": parent_ids, "at": tx.now}):
            tx.wake(row.queue)


_child = t.alias("child")
_first = sa.select(t.c.id).where(t.c.parent_id.in_(sa.bindparam("parents", expanding=True)))
_below = _first.cte("below", recursive=True)
_below = _below.union_all(sa.select(_child.c.id).join(_below, _child.c.parent_id == _below.c.id))
# all generations at once: one after another would be another order of locking
_CANCEL = (
    sa.update(t)
    .where(order.locked(t.c.id.in_(sa.select(_below.c.id)), t.c.state.in_(_LIVE)))
    .values(
        cancel=True,
        pause=False,
        signals=t.c.signals + 1,
        state=sa.case((t.c.state.in_(("waiting", "paused")), "queued"), else_=t.c.state),
        updated_at=sa.bindparam("at"),
    )
    .returning(t.c.queue)
)


def inherited_keys(tx: Tx, parent_id: str | None) -> set[str]:
    """The keys that an operation's ancestors hold, under which it runs."""
    found: set[str] = set()
    while parent_id is not None:
        row = tx.row(_PARENT, {"op": parent_id})
        if row is None:
            break
        found.update(row.keys)
        parent_id = row.parent_id
    return found


_PARENT = sa.select(t.c.parent_id, t.c["keys"]).where(t.c.id == sa.bindparam("op"))
