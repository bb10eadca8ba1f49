# SPDX-License-Identifier: Apache-2.0
"""How people steer operations: cancel, pause, resume, try again at once."""

from __future__ import annotations

import sqlalchemy as sa

from abaca.db.engine.database import Tx
from abaca.db.journal import children, order
from abaca.db.journal.operations import LIVE
from abaca.db.tables.journal import operation_keys as k
from abaca.db.tables.journal import operations as t

# what was put aside must be claimed to go on, be it to its end
_going_on = sa.case((t.c.state.in_(("waiting", "paused")), "queued"), else_=t.c.state)


def request_cancel(tx: Tx, op_id: str) -> bool:
    """Ask a live operation, and all that it has started, to stop at the next step; False when it has ended."""
    if not _steer(tx, op_id, t.c.state.in_(LIVE), cancel=True, pause=False, signals=t.c.signals + 1, state=_going_on):
        return False
    children.cancel(tx, [op_id])
    return True


def request_pause(tx: Tx, op_id: str) -> bool:
    """Ask a live operation to pause after the part under way; False when it has ended, is cancelled or goes back.

    One that no worker has had yet is paused at once; any other by a worker, which knows what it leaves half done.
    """
    is_fresh = sa.and_(t.c.state.in_(("queued", "waiting")), t.c.token == 0)
    can = sa.and_(t.c.state.in_(LIVE), t.c.cancel.is_(False), t.c.direction == "do")
    state = sa.case((is_fresh, "paused"), (t.c.state == "waiting", "queued"), else_=t.c.state)
    return _steer(tx, op_id, can, pause=True, signals=t.c.signals + 1, state=state)


def resume(tx: Tx, op_id: str) -> bool:
    """Let it go on; False when it is not paused and nobody has asked for that."""
    can = sa.and_(t.c.state.in_(LIVE), t.c.pause.is_(True))
    return _steer(tx, op_id, can, pause=False, state=_going_on)


def retry_now(tx: Tx, op_id: str) -> bool:
    """Let a waiting operation look at once; False when it does not wait."""
    return _steer(tx, op_id, t.c.state.in_(("queued", "waiting")), state="queued")


def _steer(tx: Tx, op_id: str, condition: sa.ColumnElement[bool], **values: object) -> bool:
    statement = sa.update(t).where(t.c.id == op_id, condition).values(**values, updated_at=tx.now).returning(t.c.queue)
    queue = tx.scalar(statement)
    if queue is not None:
        tx.wake(queue)
    return queue is not None


def cancel_of_key(tx: Tx, key: str) -> None:
    """Ask whatever lives under `key`, and what that has started, to stop at its next step."""
    held = sa.select(k.c.operation_id).where(k.c.key == key)
    statement = (
        sa.update(t)
        .where(order.locked(t.c.id.in_(held), t.c.state.in_(LIVE)))
        .values(
            cancel=True,
            signals=t.c.signals + 1,
            state=sa.case((t.c.state == "waiting", "queued"), else_=t.c.state),
            updated_at=tx.now,
        )
        .returning(t.c.id, t.c.queue)
    )
    rows = tx.rows(statement)
    for row in rows:
        tx.wake(row.queue)
    children.cancel(tx, [row.id for row in rows])
