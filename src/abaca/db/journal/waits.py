# SPDX-License-Identifier: Apache-2.0
"""What operations wait for, and how they hear that it is so.

A condition is a name, such as `rules:<share instance's id>`. Whoever makes it true calls `signal` in the same
transaction. An operation first writes down what it waits for, then looks once more, and is put aside only if nobody has
signalled since (`runs.await_signal`); so no signal is passed by, whichever comes first. A signal may be repeated, and
may come for nothing: the operation looks, and waits on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Row
from abaca.db.journal import order
from abaca.db.tables.journal import operation_waits as w
from abaca.db.tables.journal import operations as t

# A condition is announced as the queues are, under its name behind this.
ANNOUNCED = "?"


def add(tx: Tx, op_id: str, conditions: Iterable[str]) -> None:
    """An operation waits for these."""
    rows = [{"operation_id": op_id, "condition": one} for one in dict.fromkeys(conditions)]
    if rows:
        tx.execute(_ADD, rows if len(rows) > 1 else rows[0])


_ADD = sa.insert(w).inline()


def forget(tx: Tx, op_id: str) -> None:
    """It waits for nothing any more."""
    tx.execute(_FORGET, {"op": op_id})


_FORGET = sa.delete(w).where(w.c.operation_id == sa.bindparam("op"))


def signal(tx: Tx, condition: str) -> None:
    """A condition is true from this transaction on: whoever waits for it looks."""
    hear(tx, condition)
    # who is writing down at this moment that they wait cannot be seen yet; their worker hears this after the commit
    tx.wake(f"{ANNOUNCED}{condition}")


def signal_many(tx: Tx, conditions: Sequence[str]) -> None:
    """The same for several conditions."""
    if conditions:
        _wake(tx, tx.rows(_SIGNAL_MANY, {"conditions": list(conditions)}))
    for condition in conditions:
        tx.wake(f"{ANNOUNCED}{condition}")


def hear(tx: Tx, condition: str) -> None:
    """Whoever waits for a condition looks, and nobody else is told."""
    _wake(tx, tx.rows(_SIGNAL, {"condition": condition}))


def signal_operations(tx: Tx, op_ids: Sequence[str]) -> None:
    """These look again."""
    _wake(tx, tx.rows(_SIGNAL_THESE, {"ops": op_ids}))


def _wake(tx: Tx, rows: Iterable[Row]) -> None:
    for row in rows:
        tx.wake(row.queue)


_NOW: dict[str, object] = {
    "signals": t.c.signals + 1,
    # what is not put aside yet is not touched: it sees the count
    "state": sa.case((t.c.state == "waiting", "queued"), else_=t.c.state),
}
_waiting = sa.select(w.c.operation_id).where(w.c.condition == sa.bindparam("condition"))
_SIGNAL = sa.update(t).where(order.locked(t.c.id.in_(_waiting))).values(_NOW).returning(t.c.queue)
_waiting_for_any = sa.select(w.c.operation_id).where(w.c.condition.in_(sa.bindparam("conditions", expanding=True)))
_SIGNAL_MANY = sa.update(t).where(order.locked(t.c.id.in_(_waiting_for_any))).values(_NOW).returning(t.c.queue)
_these = t.c.id.in_(sa.bindparam("ops", expanding=True))
_SIGNAL_THESE = sa.update(t).where(order.locked(_these)).values(_NOW).returning(t.c.queue)
