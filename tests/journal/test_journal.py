# SPDX-License-Identifier: Apache-2.0
"""How one operation runs: steps, checkpoints, tries, undo, and the one transaction that ends it."""

import itertools

import msgspec
import pytest
import sqlalchemy as sa

from abaca.db.journal import operations as rows
from abaca.db.journal import steering
from abaca.db.tables.catalog import availability_zones
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from tests.conftest import wait_until
from tests.operations.bench import TIMING, Args, Final, Gate, fails, fails_first, operation, record, step


def zone(op, tx):
    """Some row that belongs to the end of an operation."""
    tx.execute(
        sa.insert(availability_zones).values(id=op.id, name=op.keys[0], created_at=tx.now),
    )


def zones(bench):
    with bench.db.read() as tx:
        return [row.name for row in tx.rows(sa.select(availability_zones.c.name))]


# ---------------------------------------------------------------- queueing


def test_an_operation_commits_with_the_callers_transaction(bench):
    bench.add("work", step("do", lambda op: bench.diary.note("done")))
    bench.worker()
    with bench.db.write() as tx:
        op_id = bench.enqueue("work", tx=tx)
        with bench.db.read() as other:
            assert rows.show(other, op_id) is None
    assert bench.until(op_id, "done").finished_at is not None
    assert bench.diary.lines == ["done", "work succeeds"]


def test_a_rollback_leaves_nothing_and_wakes_nobody(bench):
    bench.add("work", step("do", lambda op: bench.diary.note("done")))
    woken = []
    listener = bench.place.listener("ear")
    listener.start(woken.append)
    wait_until(lambda: woken == [""] or bench.place.is_sqlite)  # PostgreSQL tells only those who listen already

    def refused():
        with bench.db.write() as tx:
            bench.enqueue("work", tx=tx)
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        refused()
    op_id = bench.enqueue("work", "another", queue="another@queue")
    wait_until(lambda: "another@queue" in woken)
    listener.stop()
    assert set(woken) <= {"", "another@queue"}
    with bench.db.read() as tx:
        assert [row.id for row in rows.find(tx)] == [op_id]


def test_what_who_asked_for_is_on_the_row(bench):
    class Caller:
        project_id, user_id, request_id = "p", "u", "req-1"

    what = bench.add("work", step("do", lambda op: None))
    target = queueing.Target(queue="q", keys=["k"], resource_id="r")
    with bench.db.write() as tx:
        op_id = queueing.enqueue(tx, what, Args(word="ä"), target, Caller())
    row = bench.show(op_id)
    assert (row.project_id, row.user_id, row.request_id, row.resource_type) == ("p", "u", "req-1", "thing")
    assert (row.args, row.data, row.state, row.cancel) == ({"word": "ä"}, {}, "queued", False)


# ---------------------------------------------------------------- declaring


def test_a_step_before_the_pivot_without_an_undo_is_refused():
    with pytest.raises(ValueError, match="stands before the pivot and has no undo"):
        operation("work", kinds.Step(lambda op: None), kinds.Pivot(lambda op: None))


def test_two_pivots_are_refused():
    with pytest.raises(ValueError, match="more than one pivot"):
        operation("work", kinds.Pivot(lambda op: None), kinds.Pivot(lambda op: None))


# ---------------------------------------------------------------- steps


def test_steps_run_in_order_and_hand_on_what_they_learn(bench):
    bench.add(
        "work",
        step("first", lambda op: op.record(word=op.args.word, export=contract.Export(path="a:/b"))),
        record("second", lambda op, tx: op.record(length=len(op.data["word"]))),
        step(
            "third", lambda op: bench.diary.note(f"{op.data['word']} {op.data['length']} {op.data['export']['path']}")
        ),
    )
    bench.worker()
    row = bench.run("work", word="rope")
    assert bench.diary.lines == ["rope 4 a:/b", "work succeeds"]
    assert row.data["length"] == 4
    assert row.state == "done"


def test_what_a_part_of_a_step_learnt_is_kept_when_the_next_part_fails(bench):
    tries = []

    def count(op):
        for number in range(op.data.get("counted", 0), 3):
            with op.part() as tx:
                assert op.attempt == (1 if tries and number == 1 else 0)
                op.record(counted=number + 1)
                if number == 1:
                    zone(op, tx)
                if number == 1 and not tries:
                    tries.append(number)
                    raise contract.Busy(reason="once")
            op.between_parts()

    bench.add("work", step("count", count))
    bench.worker()
    row = bench.run("work")
    assert (row.state, row.data) == ("done", {"counted": 3})
    assert tries == [1]
    assert len(zones(bench)) == 1


def test_a_step_that_ended_is_recorded_before_the_next_begins(bench):
    seen = []
    bench.add(
        "work",
        step("first", lambda op: op.record(x=1)),
        step("second", lambda op: seen.append(bench.show(op.id))),
    )
    bench.worker()
    bench.run("work")
    assert [(row.step, row.data, row.state) for row in seen] == [(1, {"x": 1}, "running")]


def test_a_step_that_ended_is_on_record_with_the_one_that_follows(bench):
    seen = []
    bench.add(
        "work",
        step("first", lambda op: op.record(x=1)),
        record("second", lambda op, tx: seen.append(bench.show(op.id).step)),
        step("third", lambda op: seen.append(bench.show(op.id).step)),
    )
    bench.worker()
    assert bench.run("work").data == {"x": 1}
    assert seen == [0, 2]


def test_what_does_not_apply_is_passed_over(bench):
    def note(word):
        return lambda op: bench.diary.note(word)

    bench.add(
        "work",
        step("first", note("first"), note("first back")),
        step("never", note("never"), note("never back"), applies=lambda op: op.args.word == "rope"),
        step("last", fails(Final(reason="no")), note("last back")),
    )
    bench.worker()
    assert bench.run("work").state == "failed"
    assert bench.diary.lines == ["first", "last back", "never back", "first back", "work fails: Final"]


def test_a_record_is_all_or_nothing(bench):
    def write(op, tx):
        zone(op, tx)
        op.record(half=True)
        if op.attempt == 0:
            raise contract.Busy(reason="later")

    bench.add("work", record("write", write), step("look", lambda op: bench.diary.note(str(zones(bench)))))
    bench.worker()
    row = bench.run("work", "a zone")
    assert row.state == "done"
    assert bench.diary.lines[0] == "['a zone']"


def test_what_a_failed_record_learnt_is_forgotten(bench):
    def write(op, tx):
        op.record(half=True)
        raise Final(reason="no")

    bench.add("work", record("write", write))
    bench.worker()
    row = bench.run("work")
    assert (row.state, row.data) == ("failed", {})


def test_a_guarded_transaction_of_a_step_commits(bench):
    def do(op):
        with op.write() as tx:
            zone(op, tx)

    bench.add("work", step("do", do))
    bench.worker()
    bench.run("work", "a zone")
    assert zones(bench) == ["a zone"]


def test_progress_is_seen_while_the_step_runs(bench):
    gate = Gate()

    def do(op):
        op.progress(3, 10)
        gate.wait()

    bench.add("work", step("do", do))
    bench.worker()
    op_id = bench.enqueue("work")
    assert gate.arrived.wait(60)
    row = bench.show(op_id)
    assert (row.progress_done, row.progress_total) == (3, 10)
    assert kinds.waiting_for(row, bench.known) == "do"
    gate.opened.set()
    bench.until(op_id, "done")


# ---------------------------------------------------------------- tries


def test_an_error_that_can_pass_is_tried_again(bench):
    bench.add(
        "work",
        step("first", lambda op: bench.diary.note("first")),
        step("second", fails_first(2, bench.diary, "second")),
    )
    bench.worker()
    assert bench.run("work").state == "done"
    assert bench.diary.lines == ["first", "second stumbles", "second stumbles", "second", "work succeeds"]


def test_a_waiting_operation_says_why_and_for_how_long(bench):
    bench.add("work", step("do", fails(contract.Unreachable(reason="cable out"))))
    slow = kinds.Retry(delays_s=(50.0, 100.0))
    bench.worker(timing=msgspec.structs.replace(TIMING, retry=slow))
    op_id = bench.enqueue("work")
    row = bench.until(op_id, "waiting", and_so=lambda row: row.attempt == 1)
    assert (row.error_code, row.error_text) == ("Unreachable", "The back end cannot be reached: cable out")
    assert 40 < row.not_before - bench.db.time() < 60
    assert (row.owner, row.lease_until) == (None, None)
    with bench.db.write() as tx:
        assert steering.retry_now(tx, op_id)
    row = bench.until(op_id, "waiting", and_so=lambda row: row.attempt == 2)
    assert 90 < row.not_before - bench.db.time() < 110


def test_tries_have_an_end_before_the_pivot(bench):
    bench.add("work", step("do", fails_first(99, bench.diary, "do")))
    bench.worker()
    row = bench.run("work")
    assert (row.state, row.error_code) == ("failed", "Busy")
    assert bench.diary.lines == ["do stumbles"] * 4 + ["work fails: Busy"]


def test_a_step_that_ends_gives_the_next_its_own_tries(bench):
    bench.add(
        "work",
        step("first", fails_first(3, bench.diary, "first")),
        step("second", fails_first(3, bench.diary, "second")),
    )
    bench.worker()
    assert bench.run("work").state == "done"


def test_a_strangers_error_is_final_and_told_without_its_inside(bench):
    bench.add("work", step("do", fails(KeyError("secret"))))
    bench.worker()
    row = bench.run("work")
    assert row.state == "failed"
    assert "KeyError" in row.error_text
    assert "secret" not in row.error_text


# ---------------------------------------------------------------- undo


def undone(bench, name):
    return lambda op: bench.diary.note(f"un{name}")


def test_undo_goes_back_in_reverse_beginning_with_the_step_that_failed(bench):
    bench.add(
        "work",
        step("a", lambda op: bench.diary.note("a"), undo=undone(bench, "a")),
        record("b", lambda op, tx: bench.diary.note("b"), undo=lambda op, tx: bench.diary.note("unb")),
        step("c", fails(Final(reason="no")), undo=undone(bench, "c")),
        step("d", lambda op: bench.diary.note("d"), undo=undone(bench, "d")),
    )
    bench.worker()
    row = bench.run("work")
    assert bench.diary.lines == ["a", "b", "unc", "unb", "una", "work fails: Final"]
    assert (row.state, row.error_code, row.error_text) == ("failed", "Final", "It will never work: no")


def test_undo_is_tried_again(bench):
    undo = fails_first(2, bench.diary, "undone")
    bench.add("work", step("do", fails(Final(reason="no")), undo=undo))
    bench.worker()
    row = bench.run("work")
    assert bench.diary.lines == ["undone stumbles", "undone stumbles", "undone", "work fails: Final"]
    assert row.error_code == "Final", "what the user reads is why it failed, not why undoing was hard"


def test_an_undo_that_never_works_does_not_keep_the_others_from_it(bench):
    """The step that cannot be undone is left; every other is undone once, and the end comes."""
    bench.add(
        "work",
        step("a", lambda op: None, undo=fails_first(1, bench.diary, "una")),
        step("b", lambda op: None, undo=fails(Final(reason="stuck"))),
        step("c", fails(Final(reason="no")), undo=undone(bench, "c")),
    )
    bench.worker()
    row = bench.run("work")
    assert row.state == "failed"
    assert bench.diary.lines == ["unc", "una stumbles", "una", "work fails: Final"]


# ---------------------------------------------------------------- the pivot


def test_after_the_pivot_it_goes_forward_until_it_succeeds(bench):
    bench.add(
        "work",
        step("a", lambda op: bench.diary.note("a"), undo=undone(bench, "a")),
        kinds.Pivot(lambda op: bench.diary.note("pivot")),
        kinds.Step(fails_first(5, bench.diary, "c", error=Final(reason="not yet"))),
    )
    bench.worker()
    assert bench.run("work").state == "done"
    assert bench.diary.lines == ["a", "pivot", *["c stumbles"] * 5, "c", "work succeeds"]


# ---------------------------------------------------------------- the end


def test_the_end_is_one_transaction(bench):
    bench.add("work", step("do", lambda op: None), succeed=zone)
    bench.worker()
    row = bench.run("work", "a zone")
    assert (row.owner, row.lease_until) == (None, None)
    assert zones(bench) == ["a zone"]


def test_an_end_that_raises_waits_in_sight_and_repeats_no_step(bench):
    tries = []

    def succeed(op, tx):
        zone(op, tx)
        tries.append(bench.db.time())
        if len(tries) < 4:
            raise KeyError("a bug")

    bench.add("work", step("do", lambda op: bench.diary.note("do")), succeed=succeed)
    bench.worker()
    op_id = bench.enqueue("work", "a zone")
    seen = bench.until(op_id, "waiting", "running", and_so=lambda row: row.attempt >= 2)
    assert "KeyError" in seen.error_text
    assert bench.until(op_id, "done")
    assert bench.diary.lines == ["do"]
    assert zones(bench) == ["a zone"]
    pauses = [after - before for before, after in itertools.pairwise(tries)]
    assert pauses[0] >= 0.02
    assert pauses[1] >= 0.04, "the pauses grow"
    assert pauses[2] >= 0.06


def test_a_failing_end_that_raises_comes_again_too(bench):
    tries = []

    def fail(op, tx, error):
        tries.append(error.code)
        if len(tries) < 3:
            raise KeyError("a bug")

    bench.add("work", step("do", fails(Final(reason="no")), undo=undone(bench, "do")), fail=fail)
    bench.worker()
    row = bench.run("work")
    assert (row.state, row.error_code) == ("failed", "Final")
    assert tries == ["Final"] * 3
    assert bench.diary.lines == ["undo"]


# ---------------------------------------------------------------- cancelling


def cancel(bench, op_id):
    with bench.db.write() as tx:
        return steering.request_cancel(tx, op_id)


def test_cancelled_before_it_starts_it_does_nothing(bench):
    bench.add("work", step("do", lambda op: bench.diary.note("do")))
    op_id = bench.enqueue("work")
    assert cancel(bench, op_id)
    bench.worker()
    assert bench.until(op_id, *rows.ENDED).state == "cancelled"
    assert bench.diary.lines == ["work fails: Cancelled"]


def test_cancelled_between_steps_it_is_undone(bench):
    gate = Gate()
    bench.add(
        "work",
        step("a", lambda op: gate.wait(), undo=undone(bench, "a")),
        step("b", lambda op: bench.diary.note("b"), undo=undone(bench, "b")),
    )
    bench.worker()
    op_id = bench.enqueue("work")
    assert gate.arrived.wait(60)
    assert cancel(bench, op_id)
    gate.opened.set()
    row = bench.until(op_id, *rows.ENDED)
    assert (row.state, row.error_code) == ("cancelled", "Cancelled")
    assert bench.diary.lines == ["unb", "una", "work fails: Cancelled"]


def test_cancelled_before_a_record_nothing_is_recorded(bench):
    gate = Gate()
    bench.add(
        "work",
        step("a", lambda op: gate.wait(), undo=undone(bench, "a")),
        record("b", zone, undo=lambda op, tx: bench.diary.note("unb")),
    )
    bench.worker()
    op_id = bench.enqueue("work")
    assert gate.arrived.wait(60)
    assert cancel(bench, op_id)
    gate.opened.set()
    assert bench.until(op_id, *rows.ENDED).state == "cancelled"
    assert bench.diary.lines == ["unb", "una", "work fails: Cancelled"]
    assert zones(bench) == []


def test_cancelled_while_it_waits_it_ends_at_once(bench):
    bench.add("work", step("do", fails(contract.Busy(reason="long")), undo=undone(bench, "do")))
    slow = kinds.Retry(delays_s=(500.0,))
    bench.worker(timing=msgspec.structs.replace(TIMING, retry=slow))
    op_id = bench.enqueue("work")
    bench.until(op_id, "waiting", and_so=lambda row: row.attempt == 1)
    assert cancel(bench, op_id)
    assert bench.until(op_id, *rows.ENDED).state == "cancelled"


def test_a_long_step_can_stop_where_it_shows_its_progress(bench):
    gate = Gate()

    def do(op):
        for page in range(100):
            op.progress(page, 100)
            if page == 1:
                gate.wait()

    bench.add("work", step("do", do, undo=undone(bench, "do")))
    bench.worker()
    op_id = bench.enqueue("work")
    assert gate.arrived.wait(60)
    assert cancel(bench, op_id)
    gate.opened.set()
    row = bench.until(op_id, *rows.ENDED)
    assert (row.state, row.progress_done) == ("cancelled", 2)


def test_after_the_pivot_cancelling_changes_nothing(bench):
    gate = Gate()
    bench.add("work", kinds.Pivot(lambda op: gate.wait()), kinds.Step(lambda op: bench.diary.note("b")))
    bench.worker()
    op_id = bench.enqueue("work")
    assert gate.arrived.wait(60)
    assert cancel(bench, op_id)
    gate.opened.set()
    assert bench.until(op_id, *rows.ENDED).state == "done"
    assert bench.diary.lines == ["b", "work succeeds"]


def test_what_was_accepted_for_good_is_not_cancelled(bench):
    bench.add("work", step("do", lambda op: bench.diary.note("do")), cancellable=False)
    op_id = bench.enqueue("work")
    cancel(bench, op_id)
    bench.worker()
    assert bench.until(op_id, *rows.ENDED).state == "done"


def test_what_has_ended_cannot_be_cancelled(bench):
    bench.add("work", step("do", lambda op: None))
    bench.worker()
    row = bench.run("work")
    assert not cancel(bench, row.id)
    with bench.db.write() as tx:
        assert not steering.retry_now(tx, row.id)
