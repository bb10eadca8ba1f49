# SPDX-License-Identifier: Apache-2.0
"""Work is taken as cheaply out of thousands as out of a few, also where there was none when the worker began."""

import pytest
import sqlalchemy as sa

from abaca.db.journal import claims
from tests.databases import on_postgres, place
from tests.db.counted import Counted
from tests.db.journal.journal_rows import add
from tests.planting import by_hand

KINDS = ["toy"]
MANY = 2_000
# What one claim of eight reads: each of them, its keys, and who else has these.
FEW_PAGES = 600


def claim(db, owner="w#1"):
    with db.once() as tx:
        return claims.claim(tx, "q", KINDS, 8, claims.Lease(owner=owner, now_s=1.0, until_s=31.0))


@pytest.mark.parametrize("kind", [on_postgres])
def test_what_is_taken_out_of_thousands_reads_few_pages_though_there_was_nothing_before(kind, tmp_path, request):
    made = place(kind, tmp_path, request)
    with Counted(is_sqlite=False).on() as counted:
        db = made.open()
        with by_hand(db) as tx:
            tx.execute(sa.text("ANALYZE"))
        for _ in range(8):  # a statement that is run again and again is planned no more
            assert claim(db) == []
        with db.write() as tx:
            for number in range(MANY):
                add(tx, id=f"op-{number}", kind="toy", keys=[f"share:{number}"])
        found = []
        pages = counted.cost(db, lambda: found.extend(claim(db)))
        assert len(found) == 8
        assert pages < FEW_PAGES
    made.close()
