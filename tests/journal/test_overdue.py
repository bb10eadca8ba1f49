# SPDX-License-Identifier: Apache-2.0
"""Steps that take longer than they may: that is seen, others go on, nobody runs them again, and they do end."""

import msgspec

from abaca.db.journal import operations as rows
from abaca.db.journal import steering
from tests.conftest import wait_until
from tests.operations.bench import TIMING, Gate, shelf, step

# Renewed every third of it: long enough that a crowded machine does not lose it in truth.
SHORT = msgspec.structs.replace(TIMING, lease_s=1.0)


def hang(bench, *, undo=lambda op: None):
    """A step that may take 50 ms, and hangs until its gate is opened."""
    gate = Gate()

    def do(op):
        bench.diary.note("begins")
        gate.wait()

    bench.add("hang", step("do", do, undo=undo, within_s=0.05), step("after", lambda op: bench.diary.note("after")))
    bench.add("work", step("do", lambda op: None))
    return gate


def until_overdue(bench, op_id):
    return bench.until(op_id, "running", and_so=lambda row: row.overdue_since is not None)


def test_it_is_shown_and_gives_its_slot_to_others(bench):
    gate = hang(bench)
    worker = bench.worker(queues=[shelf(concurrency=1)])
    op_id = bench.enqueue("hang", "a")
    behind = bench.enqueue("work", "a")
    begun_s = bench.db.time()
    row = until_overdue(bench, op_id)
    assert begun_s - 5 < row.overdue_since <= bench.db.time()
    for key in "bcd":
        bench.until(bench.enqueue("work", key), "done")
    assert worker.held == [op_id]
    assert bench.show(behind).state == "queued", "its key is still held"
    gate.opened.set()
    row = bench.until(op_id, "done")
    assert (row.overdue_since, row.token) == (None, 1)
    bench.until(behind, "done")
    assert bench.diary.lines.count("begins") == 1
    wait_until(lambda: [one.free for one in worker.queues.values()] == [1])


def test_it_is_never_run_twice_though_another_worker_waits_for_its_lease(bench):
    gate = hang(bench)
    workers = [bench.worker(name, timing=SHORT) for name in ("one", "two")]
    op_id = bench.enqueue("hang")
    first = until_overdue(bench, op_id)
    row = bench.until(op_id, "running", and_so=lambda row: row.lease_until > first.lease_until + 2 * SHORT.lease_s)
    assert (row.token, row.owner) == (1, first.owner)
    with bench.db.write() as tx:
        assert not steering.retry_now(tx, op_id)
    gate.opened.set()
    assert bench.until(op_id, "done").token == 1
    assert bench.diary.lines == ["begins", "after", "hang succeeds"]
    wait_until(lambda: not any(worker.held for worker in workers))


def test_no_more_hang_than_there_are_slots_twice_over(bench):
    """What hangs for good must not collect threads without end: then the queue is full."""
    gate = hang(bench)
    worker = bench.worker(queues=[shelf(concurrency=2)])
    ids = [bench.enqueue("hang", str(number)) for number in range(6)]
    for op_id in ids[:4]:
        until_overdue(bench, op_id)
    queue = next(iter(worker.queues.values()))
    wait_until(lambda: (queue.running, len(queue.overdue)) == (2, 2))
    assert [bench.show(op_id).state for op_id in ids[4:]] == ["queued"] * 2
    gate.opened.set()
    for op_id in ids:
        bench.until(op_id, "done")
    wait_until(lambda: (queue.running, queue.overdue) == (0, set()))


def test_cancelled_it_is_undone_once_it_comes_back(bench):
    gate = hang(bench, undo=lambda op: bench.diary.note("undo"))
    bench.worker()
    op_id = bench.enqueue("hang")
    until_overdue(bench, op_id)
    with bench.db.write() as tx:
        assert steering.request_cancel(tx, op_id)
    assert bench.show(op_id).state == "running"
    gate.opened.set()
    row = bench.until(op_id, *rows.ENDED)
    assert (row.state, row.overdue_since) == ("cancelled", None)
    assert bench.diary.lines == ["begins", "undo", "hang fails: Cancelled"]


def test_a_quick_step_is_never_overdue(bench):
    bench.add("work", step("do", lambda op: None, within_s=60.0))
    worker = bench.worker()
    for number in range(5):
        assert bench.run("work", str(number)).overdue_since is None
    assert [one.overdue for one in worker.queues.values()] == [set()]


def test_each_part_of_a_long_step_may_take_that_long(bench):
    """One whose part hung goes on in a slot of its own again, and is not overdue any more."""
    hung, last = Gate(), Gate()

    def do(op):
        for gate in (hung, last):
            gate.wait()
            with op.part():
                pass

    bench.add("hang", step("do", do, within_s=0.05))
    worker = bench.worker(queues=[shelf(concurrency=1)])
    queue = next(iter(worker.queues.values()))
    op_id = bench.enqueue("hang", "a")
    first = until_overdue(bench, op_id).overdue_since
    wait_until(lambda: (queue.running, len(queue.overdue)) == (0, 1))
    hung.opened.set()
    bench.until(op_id, "running", and_so=lambda row: row.overdue_since is not None and row.overdue_since > first)
    last.opened.set()
    assert bench.until(op_id, "done").overdue_since is None
    wait_until(lambda: (queue.running, queue.overdue) == (0, set()))
