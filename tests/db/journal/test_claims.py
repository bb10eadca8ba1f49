# SPDX-License-Identifier: Apache-2.0
"""Work is taken as cheaply out of thousands as out of a few, also where there was none when the worker began."""

import pytest
import sqlalchemy as sa

from abaca.db.journal import claims
from abaca.db.tables.journal import operations
from tests.databases import on_postgres, place
from tests.db.counted import Counted
from tests.db.journal.journal_rows import add
from tests.planting import by_hand

KINDS = ["toy"]
MANY = 2_000
# What one claim of eight reads: each of them, its keys, and who else has these.
FEW_PAGES = 400


def claim(db, owner="w#1"):
    with db.once() as tx:
        return claims.claim(tx, "q", KINDS, 8, claims.Lease(owner=owner, now_s=1.0, until_s=31.0))


def add_many(db, begin=0):
    with db.write() as tx:
        for number in range(begin, begin + MANY):
            add(tx, id=f"op-{number}", kind="toy", keys=[f"share:{number}"])


@pytest.mark.parametrize("kind", [on_postgres])
@pytest.mark.parametrize("earlier", ["there was nothing", "there were thousands"])
def test_what_is_taken_out_of_thousands_reads_few_pages_whatever_there_was_before(kind, earlier, tmp_path, request):
    made = place(kind, tmp_path, request, is_unused=True)
    with Counted(is_sqlite=False).on() as counted:
        db = made.open()
        if earlier == "there were thousands":  # their pages are still there, of which the planner knows
            add_many(db, begin=MANY)
            with by_hand(db) as tx:
                tx.execute(sa.delete(operations))
        with by_hand(db) as tx:
            tx.execute(sa.text("ANALYZE"))
        for _ in range(8):  # a statement that is run again and again is planned no more
            assert claim(db) == []
        add_many(db)
        found = []
        pages = [counted.cost(db, lambda: found.extend(claim(db))) for _ in range(2)]
        assert len(found) == 16
        assert min(pages) < FEW_PAGES, pages  # one of them may meet what PostgreSQL tidies up by itself
