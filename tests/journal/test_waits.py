# SPDX-License-Identifier: Apache-2.0
"""Waits: whenever a signal comes, it is heard; what waits holds nothing; what waits too long fails."""

import time

import pytest
import sqlalchemy as sa

from abaca import errors
from abaca.db.journal import operations as rows
from abaca.db.journal import steering, waits
from abaca.db.tables.journal import operation_waits
from abaca.drivers import contract
from abaca.journal import kinds
from abaca.journal.interruptions import Wait
from tests.conftest import wait_until
from tests.journal.world import is_fact, state_fact
from tests.operations.bench import Final, fails, record, shelf, step
from tests.operations.theatre import Arms


def bell(bench, name="bell", *, signals=True, is_so=True):
    """It rings: from this transaction on that is so, and whoever waits is told."""
    with bench.db.write() as tx:
        if is_so:
            state_fact(tx, name)
        if signals:
            waits.signal(tx, f"bell:{name}")


def awaits(name="bell", **more):
    """A step that waits for the bell."""

    def look(op):
        with op.db.read() as tx:
            if is_fact(tx, name):
                return
        raise Wait(f"the {name}", **{"conditions": [f"bell:{name}"], "look_again_s": 300.0, **more})

    return look


def waits_left(bench):
    with bench.db.read() as tx:
        return waits_of(tx)


def waits_of(tx):
    return [row.condition for row in tx.rows(sa.select(operation_waits))]


def noting(bench, name, do):
    """The step, which notes each time that it looks."""

    def look(op):
        bench.diary.note(name)
        do(op)

    return step(name, look)


def aside(row):
    return row.wait is not None


# ---------------------------------------------------------------- signals


@pytest.mark.parametrize("point", ["work:look:before", "work:look:registered", "work:look:aside"])
def test_a_signal_is_heard_whenever_it_comes(bench, point):
    bench.add("work", step("look", awaits()), step("end", lambda op: bench.diary.note("end")))
    bench.worker(faults=Arms({point: lambda: bell(bench)}))
    assert bench.run("work").state == "done"
    assert bench.diary.lines == ["end", "work succeeds"]
    assert waits_left(bench) == []


def test_a_signal_that_comes_before_the_wait_is_not_needed(bench):
    bell(bench)
    bench.add("work", noting(bench, "look", awaits()))
    bench.worker()
    assert bench.run("work").wait is None
    assert bench.diary.lines == ["look", "work succeeds"]


def test_a_signal_for_nothing_makes_it_look_and_wait_on(bench):
    bench.add("work", noting(bench, "look", awaits()))
    bench.worker()
    op_id = bench.enqueue("work")
    bench.until(op_id, "waiting")
    since_s = bench.show(op_id).wait["since_s"]
    for number in range(3):
        bell(bench, is_so=False)
        bench.diary.until("look", 3 + number)
        row = bench.until(op_id, "waiting")
        assert (row.wait["since_s"], row.attempt, row.owner) == (since_s, 0, None)
    bell(bench)
    bell(bench)
    bench.until(op_id, "done")
    bell(bench)
    assert bench.show(op_id).state == "done"


def test_a_signal_that_is_lost_is_made_good_by_looking(bench):
    bench.add("work", step("look", awaits(look_again_s=0.02)))
    bench.worker()
    op_id = bench.enqueue("work")
    bench.until(op_id, "waiting")
    bell(bench, signals=False)
    bench.until(op_id, "done")


def test_a_signal_that_is_rolled_back_is_none(bench):
    bench.add("work", noting(bench, "look", awaits()))
    bench.worker()
    op_id = bench.enqueue("work")
    signals = bench.until(op_id, "waiting").signals

    def refused():
        with bench.db.write() as tx:
            waits.signal(tx, "bell:bell")
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        refused()
    row = bench.show(op_id)
    assert (row.state, row.signals) == ("waiting", signals)


def test_one_signal_is_heard_by_all_who_wait_and_by_no_other(bench):
    bench.add("work", step("look", awaits()))
    bench.add("other", step("look", awaits("another")))
    bench.worker()
    ids = [bench.enqueue("work", str(number)) for number in range(5)]
    other = bench.enqueue("other", "other")
    for op_id in [*ids, other]:
        bench.until(op_id, "waiting")
    bell(bench)
    for op_id in ids:
        bench.until(op_id, "done")
    assert bench.show(other).state == "waiting"
    assert waits_left(bench) == ["bell:another"]


def test_what_one_step_waited_for_the_next_waits_for_anew(bench):
    """The same condition again: it is written down again, and its deadline counts from there."""
    turns = []

    def look(op):
        with op.db.read() as tx:
            if is_fact(tx, f"turn {len(turns)}"):
                turns.append(op.wait["since_s"])
                return
        raise Wait("its turn", conditions=["bell:turn"], look_again_s=300.0, within_s=60.0)

    def next_turn(number):
        with bench.db.write() as tx:
            state_fact(tx, f"turn {number}")
            waits.signal(tx, "bell:turn")

    bench.add("work", step("first", look), step("second", look))
    bench.worker(faults=Arms({"work:first:registered": lambda: next_turn(0)}))
    op_id = bench.enqueue("work")
    row = bench.until(op_id, "waiting")
    assert row.step == 1
    assert row.wait["since_s"] > turns[0]
    next_turn(1)
    bench.until(op_id, "done")
    assert waits_left(bench) == []


def test_what_a_part_records_takes_no_wait_away(bench):
    """A part that ends between two looks forgets what was waited for; whoever waits on for that hears of it."""

    def look(op):
        if "parts" not in op.data:
            with op.write() as tx:
                is_registered = bool(waits_of(tx))
            if is_registered:
                with op.part():
                    op.record(parts=1)
        awaits()(op)

    bench.add("work", noting(bench, "look", look))
    bench.worker()
    op_id = bench.enqueue("work")
    wait_until(lambda: bench.show(op_id).data and bench.show(op_id).state == "waiting")
    assert waits_left(bench) == ["bell:bell"]
    bell(bench)
    bench.until(op_id, "done")
    assert waits_left(bench) == []


def stumble(op):
    """Once."""
    if op.attempt == 0:
        raise contract.Busy(reason="later")


@pytest.mark.parametrize(
    "following",
    [
        pytest.param(lambda bench: [record("write", lambda op, tx: bench.diary.note("written"))], id="record"),
        pytest.param(lambda bench: [record("write", lambda op, tx: stumble(op))], id="tried-again"),
        pytest.param(lambda bench: [step("go", lambda op: None, queue=lambda op: "there@shelf")], id="elsewhere"),
    ],
)
def test_a_wait_is_forgotten_whatever_comes_after_its_step(bench, following):
    """So that nobody thinks of the next step that it waits for that."""
    seen = []
    bench.add("work", step("look", awaits()), *following(bench), step("see", lambda op: seen.append(bench.show(op.id))))
    bench.worker(queues=[shelf(), shelf("there@shelf")], faults=Arms({"work:look:registered": lambda: bell(bench)}))
    assert bench.run("work").state == "done"
    assert [(row.step, row.wait) for row in seen] == [(2, None)]
    assert waits_left(bench) == []


def test_a_wait_in_the_last_step_is_forgotten_with_the_end(bench):
    bench.add("work", step("look", awaits()))
    bench.worker(faults=Arms({"work:look:registered": lambda: bell(bench)}))
    assert bench.run("work").wait is None
    assert waits_left(bench) == []


# ---------------------------------------------------------------- what waits holds nothing


def test_what_waits_holds_no_slot_and_its_key(bench):
    bench.add("work", step("look", awaits()))
    bench.add("other", step("do", lambda op: None))
    worker = bench.worker(queues=[shelf(concurrency=1)])
    first = bench.enqueue("work", "a")
    row = bench.until(first, "waiting")
    assert (row.owner, row.lease_until, row.attempt, row.wait["what"]) == (None, None, 0, "the bell")
    second = bench.enqueue("other", "a")
    bench.until(bench.enqueue("other", "b"), "done")
    wait_until(lambda: worker.held == [])
    assert bench.show(second).state == "queued"
    bell(bench)
    bench.until(second, "done")
    assert bench.show(first).state == "done"


def test_told_to_try_again_it_looks_and_waits_on(bench):
    bench.add("work", noting(bench, "look", awaits()))
    bench.worker()
    op_id = bench.enqueue("work")
    bench.until(op_id, "waiting")
    bell(bench, signals=False, is_so=False)
    with bench.db.write() as tx:
        assert steering.retry_now(tx, op_id)
    bench.diary.until("look", 3)
    assert bench.until(op_id, "waiting").wait["what"] == "the bell"
    bell(bench, signals=False)
    with bench.db.write() as tx:
        assert steering.retry_now(tx, op_id)
    bench.until(op_id, "done")


@pytest.mark.parametrize("point", ["before", "registered", "aside"])
def test_cancelled_at_any_moment_of_a_wait_it_ends(bench, point):
    bench.add("work", step("look", awaits(), undo=lambda op: bench.diary.note("undo")))
    op_id = bench.enqueue("work")

    def cancel():
        with bench.db.write() as tx:
            steering.request_cancel(tx, op_id)

    bench.worker(faults=Arms({f"work:look:{point}": cancel}))
    assert bench.until(op_id, *rows.ENDED).state == "cancelled"
    assert bench.diary.lines == ["undo", "work fails: Cancelled"]
    assert waits_left(bench) == []


# ---------------------------------------------------------------- deadlines


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_clock_that_is_set_back_delays_a_look_no_longer_than_that(bench):
    """The alarm comes before what waits for it is due, and slow looks are minutes away."""
    back_s = [0.0]
    bench.add("work", step("look", awaits(look_again_s=1.0)))
    bench.worker(db=bench.place.open(clock=lambda: time.time() - back_s[0]))
    op_id = bench.enqueue("work")
    bench.until(op_id, "waiting")
    back_s[0] = 0.5
    bell(bench, signals=False)
    bench.until(op_id, "done")


def test_what_waits_too_long_fails_and_is_undone(bench):
    bench.add("work", step("look", awaits(within_s=0.05), undo=lambda op: bench.diary.note("undo")))
    bench.worker()
    row = bench.run("work")
    assert (row.state, row.error_code) == ("failed", "WaitedTooLong")
    assert "the bell" in row.error_text
    assert bench.diary.lines == ["undo", "work fails: WaitedTooLong"]


def test_a_wait_says_as_what_it_fails(bench):
    bench.add("work", step("look", awaits(within_s=0.05, error=errors.Conflict("no bell"))))
    bench.worker()
    assert bench.run("work").error_text == "no bell"


def test_past_the_pivot_the_deadline_is_shown_and_it_goes_on(bench):
    bench.add("work", kinds.Pivot(lambda op: None), noting(bench, "look", awaits(within_s=0.05)))
    bench.worker()
    op_id = bench.enqueue("work")
    bench.until(op_id, "waiting", and_so=lambda row: row.error_code == "WaitedTooLong")
    bell(bench, signals=False)
    bench.until(op_id, "done")


def test_an_undo_that_waits_too_long_keeps_nobody_from_the_end(bench):
    bench.add("work", step("do", fails(Final(reason="no")), undo=awaits(within_s=0.05)))
    bench.worker()
    row = bench.run("work")
    assert (row.state, row.error_code) == ("failed", "Final")
    assert waits_left(bench) == []


# ---------------------------------------------------------------- pausing


def test_what_waits_can_pause_and_resumed_it_looks(bench):
    bench.add("patient", step("listen", awaits()), pausable=True)
    bench.worker()
    op_id = bench.enqueue("patient")
    bench.until(op_id, "waiting", and_so=aside)
    with bench.db.write() as tx:
        assert steering.request_pause(tx, op_id)
    bench.until(op_id, "paused")
    bell(bench)
    assert bench.show(op_id).state == "paused"
    with bench.db.write() as tx:
        assert steering.resume(tx, op_id)
    bench.until(op_id, "done")
    assert waits_left(bench) == []


# ---------------------------------------------------------------- what a driver says is under way


def is_under_way(bench, *, within_s=60.0):
    """A step or its undo, whose driver is at it until the bell has rung."""

    def look(op):
        bench.diary.note("look")
        with op.db.read() as tx:
            if not is_fact(tx, "bell"):
                raise contract.UnderWay(reason="at it", look_again_s=0.01, within_s=within_s)

    return look


def test_what_a_driver_has_begun_is_waited_for_without_a_slot_or_a_try(bench):
    bench.add("work", step("make", is_under_way(bench)))
    bench.add("other", step("end", lambda op: None))
    bench.worker(queues=[shelf(concurrency=1)])
    begun = [bench.enqueue("work", f"thing {number}") for number in range(5)]
    bench.diary.until("look", 30)
    assert bench.run("other", "another").state == "done"
    row = bench.until(begun[0], "waiting")
    assert (row.attempt, row.error_code, row.wait["what"]) == (0, None, "The back end works on it: at it")
    bell(bench)
    assert {bench.until(op_id, *rows.ENDED).state for op_id in begun} == {"done"}


def test_what_a_driver_waits_for_after_something_longer_has_its_own_time(bench):
    """Or the second would have failed at once where the first has taken longer than the second may."""

    def look(op):
        with op.db.read() as tx:
            is_first_over, is_over = is_fact(tx, "first"), is_fact(tx, "second")
        if not is_over:
            what, within_s = ("the second", 60.0) if is_first_over else ("the first", 6000.0)
            raise contract.UnderWay(reason=what, look_again_s=0.01, within_s=within_s)

    bench.add("work", step("make", look))
    bench.worker()
    op_id = bench.enqueue("work")
    first = bench.until(op_id, "waiting").wait
    bell(bench, "first", signals=False)
    second = bench.until(op_id, "waiting", and_so=lambda row: "the second" in row.wait["what"]).wait
    assert second["since_s"] > first["since_s"]
    assert (first["until_s"], second["until_s"]) == (first["since_s"] + 6000, second["since_s"] + 60)
    bell(bench, "second", signals=False)
    bench.until(op_id, "done")


def test_what_a_driver_does_not_end_in_time_fails(bench):
    bench.add("work", step("make", is_under_way(bench, within_s=0.1)))
    bench.worker()
    row = bench.run("work")
    assert (row.state, row.error_code) == ("failed", "WaitedTooLong")


def test_taking_back_waits_for_a_driver_too(bench):
    bench.add("work", step("make", fails(Final(reason="no")), undo=is_under_way(bench)))
    bench.worker()
    op_id = bench.enqueue("work")
    bench.diary.until("look", 10)
    bell(bench)
    row = bench.until(op_id, *rows.ENDED)
    assert (row.state, row.error_code) == ("failed", "Final")
