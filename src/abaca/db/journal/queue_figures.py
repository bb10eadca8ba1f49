# SPDX-License-Identifier: Apache-2.0
"""How full the queues are: one grouped look at the live operations."""

from __future__ import annotations

import datetime

import msgspec
import sqlalchemy as sa

from abaca.db.engine.database import Tx
from abaca.db.engine.statements import planned_for_values
from abaca.db.journal.operations import LIVE
from abaca.db.tables.journal import operations as t


class Figure(msgspec.Struct, frozen=True, gc=False):
    """How many operations of a kind are in a state on a queue, when the `oldest` came (naive UTC), and of how many the
    lease has `expired` or the step is `overdue`.
    """

    queue: str
    kind: str
    state: str
    number: int
    oldest: datetime.datetime
    expired: int
    overdue: int


_FIGURES = planned_for_values(
    sa.select(
        t.c.queue,
        t.c.kind,
        t.c.state,
        sa.func.count().label("number"),
        sa.func.min(t.c.created_at).label("oldest"),
        sa.func.sum(sa.case((t.c.lease_until < sa.bindparam("now_s"), 1), else_=0)).label("expired"),
        sa.func.sum(sa.case((t.c.overdue_since.is_not(None), 1), else_=0)).label("overdue"),
    )
    .where(t.c.state.in_(LIVE))
    .group_by(t.c.queue, t.c.kind, t.c.state)
)


def live(tx: Tx, now_s: float) -> list[Figure]:
    """The figures of all operations that have not ended."""
    return tx.entities(Figure, _FIGURES, {"now_s": now_s})
