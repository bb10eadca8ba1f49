# SPDX-License-Identifier: Apache-2.0
"""In which order rows of operations are locked: by their numbers, which parents have before their children.

Two transactions that lock several rows in one order never wait for each other. A plain UPDATE locks them as it finds
them, and that is another order for each plan.
"""

from __future__ import annotations

import sqlalchemy as sa

from abaca.db.tables.journal import operations as t


def locked(*conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """For the WHERE of an UPDATE of operations: those that meet the conditions, locked one after another."""
    found = sa.select(t.c.seq).where(*conditions).order_by(t.c.seq).with_for_update(of=t)
    # a CTE that locks is evaluated once
    return t.c.seq.in_(sa.select(found.cte("in_order").c.seq))


def free(*conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """The same without those that another transaction has locked: nothing is waited for."""
    found = sa.select(t.c.seq).where(*conditions).order_by(t.c.seq).with_for_update(of=t, skip_locked=True)
    return t.c.seq.in_(sa.select(found.cte("not_locked").c.seq))
