# SPDX-License-Identifier: Apache-2.0
"""Hops: a step and its undo run where they belong, and get what was declared; where nobody serves, that is seen."""

import re

import pytest

from abaca.db.journal import operations as rows
from abaca.db.journal import steering
from abaca.journal import kinds
from abaca.journal.op import Op
from abaca.journal.queues import WorkQueue
from tests.journal import toys
from tests.operations.bench import QUEUE, Final, fails, operation, step


class Near:
    """What steps get to work with at home."""

    place = "near"


class Far:
    """What they get elsewhere."""

    place = "far"


class Farthest(Far):
    place = "farthest"


FAR = "h@far"


def far(op):
    return FAR


def both(far_parts=Far):
    return [WorkQueue(QUEUE, Near()), WorkQueue(FAR, far_parts())]


def noting(bench, name, **more):
    def do(op):
        bench.diary.note(f"{name} {op.parts.place}")

    return step(name, do, undo=lambda op: bench.diary.note(f"un{name} {op.parts.place}"), **more)


def test_each_step_and_each_undo_runs_in_its_place(bench):
    elsewhere = {"queue": far, "parts": Far}
    broken = step("d", fails(Final(reason="no")), undo=lambda op: bench.diary.note(f"und {op.parts.place}"))
    first, second, third = noting(bench, "a"), noting(bench, "b", **elsewhere), noting(bench, "c", **elsewhere)
    bench.add("work", first, second, third, broken, parts=Near)
    bench.worker(queues=both(Farthest))
    row = bench.run("work")
    there = ["a near", "b farthest", "c farthest"]
    assert bench.diary.lines == [*there, "und near", "unc farthest", "unb farthest", "una near", "work fails: Final"]
    assert (row.queue, row.home, row.error_code) == (QUEUE, QUEUE, "Final")


def test_a_hop_goes_to_whoever_serves_that_queue(bench):
    bench.add("work", noting(bench, "a"), noting(bench, "b", queue=far, parts=Far), noting(bench, "c"), parts=Near)
    bench.worker("near", queues=both()[:1])
    bench.worker("far", queues=both()[1:])
    assert bench.run("work").state == "done"
    assert bench.diary.lines == ["a near", "b far", "c near", "work succeeds"]


def test_where_nobody_serves_it_waits_in_sight_and_holds_up_only_its_keys(bench):
    bench.add("work", noting(bench, "a"), noting(bench, "b", queue=far, parts=Far), parts=Near)
    bench.add("other", noting(bench, "other"), parts=Near)
    bench.worker("near", queues=both()[:1])
    op_id = bench.enqueue("work", "x")
    row = bench.until(op_id, "queued", and_so=lambda row: row.queue == FAR)
    assert (row.step, row.owner, row.home) == (1, None, QUEUE)
    assert kinds.waiting_for(row, bench.known) == "b"
    behind = bench.enqueue("other", "x")
    bench.until(bench.enqueue("other", "y"), "done")
    assert bench.show(behind).state == "queued"
    bench.worker("far", queues=both()[1:])
    bench.until(behind, "done")
    assert bench.show(op_id).state == "done"


def test_cancelled_where_nobody_serves_it_is_undone_when_somebody_does(bench):
    bench.add("work", noting(bench, "a"), noting(bench, "b", queue=far, parts=Far), parts=Near)
    bench.worker("near", queues=both()[:1])
    op_id = bench.enqueue("work")
    bench.until(op_id, "queued", and_so=lambda row: row.queue == FAR)
    with bench.db.write() as tx:
        assert steering.request_cancel(tx, op_id)
    bench.worker("far", queues=both()[1:])
    assert bench.until(op_id, *rows.ENDED).state == "cancelled"
    assert bench.diary.lines == ["a near", "unb far", "una near", "work fails: Cancelled"]


def test_the_queue_of_a_step_may_depend_on_what_was_learnt(bench):
    bench.add(
        "work",
        step("choose", lambda op: op.record(where=FAR)),
        noting(bench, "go", queue=lambda op: op.data["where"], parts=Far),
        parts=Near,
    )
    bench.worker(queues=both())
    assert bench.run("work").state == "done"
    assert bench.diary.lines == ["go far", "work succeeds"]


# ---------------------------------------------------------------- registration


def asks_for_near(op: Op[Near]):
    """Its annotation is an object here, since this module's annotations are."""


def asks_for_far(op: Op[Far]):
    """The same."""


def asks_in_words(op: "Op[Far]"):
    """Its annotation is text."""


def asks_in_words_through_a_module(op: "Op[toys.Source]"):
    """The text names a module, too."""


def asks_for_a_stranger(op: "Op[Stranger]"):  # noqa: F821 - nobody knows it
    """What it asks for cannot be told."""


def asks_for_nothing(op):
    """It takes whatever there is."""


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (kinds.Step(asks_for_far, kinds.nothing), "work: asks_for_far asks for Far, and gets Near"),
        (kinds.Step(asks_in_words, kinds.nothing), "work: asks_in_words asks for Far, and gets Near"),
        (kinds.Step(asks_for_nothing, asks_for_far), "work: asks_for_far asks for Far, and gets Near"),
        (kinds.Step(asks_for_near, kinds.nothing, queue=far, parts=Far), "asks_for_near asks for Near, and gets Far"),
        (kinds.Step(asks_in_words_through_a_module, kinds.nothing), "asks for Source, and gets Near"),
        (kinds.Step(asks_for_a_stranger, kinds.nothing), "asks for Stranger, unknown at run time"),
    ],
    ids=["object", "text", "undo", "hop", "module", "unknown"],
)
def test_a_step_that_would_get_other_parts_than_it_asks_for_is_refused(wrong, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        operation("work", wrong, parts=Near)


def test_what_is_a_kind_of_what_is_asked_for_will_do():
    made = operation("work", kinds.Step(asks_for_far, kinds.nothing, queue=far, parts=Farthest), parts=Near)
    assert made.parts_of(made.steps[0]) is Farthest
