# SPDX-License-Identifier: Apache-2.0
"""What keeps the database from working ends no work, however long it lasts; what it says of a statement does."""

import pytest
import sqlalchemy as sa

from abaca.drivers import contract
from tests.operations.bench import QUICK, record, step

OFTEN = 3 * len(QUICK.delays_s)


def no_room(bench, tx):
    """What the database of the bench says when its disk is full."""
    if not bench.place.url.startswith("sqlite"):
        tx.execute(sa.text("DO $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$"))
    with sa.create_engine("sqlite://").connect() as small:
        small.exec_driver_sql("PRAGMA max_page_count = 1")
        small.exec_driver_sql("CREATE TABLE more (than INTEGER, fits INTEGER)")


@pytest.fixture
def full(bench):
    """`full(op, tx)`: there is no room at the first tries, one more often than any other error is forgiven."""
    tries = []

    def full(op, tx):
        tries.append(op.attempt)
        if len(tries) <= OFTEN:
            no_room(bench, tx)

    full.tries = tries
    return full


def test_work_waits_for_room_on_the_disk_of_the_database_as_long_as_it_takes(bench, full):
    bench.add("work", step("before", lambda op: None), record("write", full))
    bench.worker()
    op_id = bench.enqueue("work", "thing")
    assert bench.until(op_id, "done", "failed").state == "done"
    assert len(full.tries) == OFTEN + 1


def test_what_is_undone_waits_for_room_as_well(bench, full):
    def refuse(op):
        raise contract.Refused(reason="no")

    bench.add("work", record("write", lambda op, tx: None, undo=full), step("refuse", refuse))
    bench.worker()
    row = bench.run("work")
    assert (row.state, row.error_code) == ("failed", "Refused")
    assert len(full.tries) == OFTEN + 1


def test_who_waits_for_room_says_so(bench):
    bench.add("work", record("write", lambda op, tx: no_room(bench, tx)))
    bench.worker()
    op_id = bench.enqueue("work", "thing")
    row = bench.until(op_id, "waiting", and_so=lambda row: row.attempt > 1)
    assert row.error_code == "Unavailable"
    assert "database" in row.error_text


def test_another_error_afterwards_has_a_try_left(bench, full):
    """However long there was no room."""
    busy = []

    def write(op, tx):
        full(op, tx)
        busy.append(op.attempt)
        if len(busy) == 1:
            raise contract.Busy(reason="for a moment")

    bench.add("work", record("write", write))
    bench.worker()
    assert bench.run("work").state == "done"
    assert len(busy) == 2


def test_a_statement_that_can_never_work_ends_the_work(bench):
    bench.add("work", record("write", lambda op, tx: tx.execute(sa.text("SELECT nothing FROM nowhere"))))
    bench.worker()
    assert bench.run("work").state == "failed"
