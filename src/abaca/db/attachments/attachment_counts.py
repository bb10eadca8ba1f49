# SPDX-License-Identifier: Apache-2.0
"""How many attachments there are, without counting them.

Each transaction that adds or removes one writes a row of its own that says so: nobody waits for another one, as they
would for one row that all change. The rows are added up now and then, and their sum is the number.
"""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from abaca.db.engine.database import Tx
from abaca.db.tables.attachments import attachment_counts as t
from abaca.db.tables.attachments import attachments
from abaca.domain.attachments.attachments import ATTACHMENT
from abaca.domain.ids import new_id

# The state in which nearly all are.
_AT_REST = "active"


def change(tx: Tx, number: int) -> None:
    """There are so many more, or fewer."""
    tx.add(t, {"id": new_id(), "number": number})


def by_state(tx: Tx) -> dict[str, int]:
    """How many there are in each state in which there are any: those that do not rest are counted, by an index."""
    found = {str(row.state): int(row.number) for row in tx.rows(_BY_STATE)}
    at_rest = found.pop("") - sum(found.values())
    return {**found, **({_AT_REST: at_rest} if at_rest else {})}


_SUM = sa.func.coalesce(sa.func.sum(t.c.number), 0)
_BY_STATE = sa.union_all(
    sa.select(attachments.c.state, sa.func.count().label("number"))
    .where(attachments.c.state.in_([sa.literal_column(f"'{one}'") for one in sorted(ATTACHMENT.states - {_AT_REST})]))
    .group_by(attachments.c.state),
    sa.select(sa.literal_column("''"), _SUM),
)


def add_up(tx: Tx, most: int) -> int:
    """Make one row of the oldest `most`, but for those that somebody else adds up; of how many it was made."""
    found = tx.rows(_OLDEST, {"most": most})
    if len(found) > 1:
        tx.execute(_REMOVE, {"ids": [row.id for row in found]})
        change(tx, sum(row.number for row in found))
    return len(found)


_OLDEST = sa.select(t).order_by(t.c.id).limit(sa.bindparam("most")).with_for_update(skip_locked=True)
_REMOVE = sa.delete(t).where(t.c.id.in_(sa.bindparam("ids", expanding=True)))


class Difference(NamedTuple):
    """A number that is not what there is."""

    counted: int
    real: int


def difference(tx: Tx) -> Difference | None:
    """By what the number is wrong; None unless somebody changed rows by hand."""
    found = Difference(*map(int, tx.rows(_BOTH)[0]))
    return found if found.counted != found.real else None


_BOTH = sa.select(
    sa.select(_SUM).scalar_subquery().label("counted"),
    sa.select(sa.func.count()).select_from(attachments).scalar_subquery().label("real"),
)


def recount(tx: Tx) -> Difference | None:
    """Make the number what there is; what was wrong. May run at any time."""
    found = difference(tx)
    if found is not None:
        change(tx, found.real - found.counted)
    return found
