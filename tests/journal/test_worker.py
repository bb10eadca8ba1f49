# SPDX-License-Identifier: Apache-2.0
"""Workers together: order, limits, leases, wake-ups, other releases, and a database that goes away."""

import threading

import msgspec
import pytest

from abaca import errors
from abaca.db.engine.database import Database
from abaca.db.journal import claims, steering
from abaca.journal import kinds, queueing
from abaca.journal.interruptions import Wait
from abaca.journal.periodic_tasks import PeriodicTask
from abaca.journal.worker import Worker
from abaca.operations.parts import queue_of
from tests.conftest import wait_until
from tests.operations.bench import QUEUE, TIMING, Args, Gate, Shelf, operation, shelf, step

SHORT = msgspec.structs.replace(TIMING, lease_s=0.3)
# For leases that must not be lost, whatever else the machine does.
KEPT = msgspec.structs.replace(TIMING, lease_s=1.0)


def until_kept(bench, op_id):
    """The keeper of leases has made its round twice, in which something must not have happened."""
    for _ in range(2):
        before_s = bench.show(op_id).lease_until
        wait_until(lambda since_s=before_s: bench.show(op_id).lease_until > since_s)


# ---------------------------------------------------------------- order and limits


def test_operations_of_one_key_run_one_after_another_in_order(bench):
    running, most = {}, {}

    def do(op):
        running[op.keys[0]] = running.get(op.keys[0], 0) + 1
        most[op.keys[0]] = max(most.get(op.keys[0], 0), running[op.keys[0]])
        bench.diary.note(op.args.word)
        running[op.keys[0]] -= 1

    bench.add("work", step("do", do))
    workers = [bench.worker(name) for name in ("one", "two")]
    words = {key: [f"{key}{number}" for number in range(12)] for key in "abc"}
    for number in range(12):
        for key in "abc":
            bench.enqueue("work", key, word=words[key][number])
    wait_until(lambda: bench.diary.lines.count("work succeeds") == 36)
    for key in "abc":
        assert [line for line in bench.diary.lines if line.startswith(key)] == words[key]
    assert set(most.values()) == {1}
    assert len(workers) == 2


def test_a_waiting_operation_holds_up_its_own_key_and_no_other(bench):
    bench.add("work", step("do", lambda op: bench.diary.note(op.args.word)))
    first = bench.enqueue("work", "a", word="first")
    bench.update(first, state="waiting", not_before=bench.db.time() + 500)
    bench.enqueue("work", "a", word="second")
    other = bench.enqueue("work", "b", word="other")
    bench.worker()
    bench.until(other, "done")
    with bench.db.write() as tx:
        steering.retry_now(tx, first)
    bench.diary.until("second")
    assert [line for line in bench.diary.lines if "succeeds" not in line] == ["other", "first", "second"]


def test_a_back_end_does_no_more_at_once_than_it_may(bench):
    gates = [Gate() for _ in range(6)]
    bench.add("work", step("do", lambda op: gates[int(op.keys[0])].wait()))
    worker = bench.worker(queues=[shelf(concurrency=2)])
    ids = [bench.enqueue("work", str(number)) for number in range(6)]
    assert gates[1].arrived.wait(60)
    assert sorted(bench.show(op_id).state for op_id in ids) == ["queued"] * 4 + ["running"] * 2
    assert len(worker.held) == 2
    for number, gate in enumerate(gates):
        assert gate.arrived.wait(60)
        assert not any(later.arrived.is_set() for later in gates[number + 2 :])
        gate.opened.set()
    for op_id in ids:
        bench.until(op_id, "done")


def test_what_is_taken_over_keeps_the_limit_too(bench):
    gate, running, most, lock = Gate(), [0], [0], threading.Lock()

    def do(op):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        gate.wait()
        with lock:
            running[0] -= 1

    bench.add("work", step("do", do))
    ids = [bench.enqueue("work", str(number)) for number in range(7)]
    for op_id in ids[:5]:
        bench.update(op_id, state="running", holds=True, owner="gone#1", token=1, lease_until=1.0)
    bench.worker(queues=[shelf(concurrency=2)])
    wait_until(lambda: running[0] == 2)
    gate.opened.set()
    for op_id in ids:
        bench.until(op_id, "done")
    assert most == [2]
    assert [bench.show(op_id).token for op_id in ids] == [2] * 5 + [1] * 2


def test_a_full_back_end_holds_up_no_other(bench):
    gate = Gate()
    bench.add("wait", step("do", lambda op: gate.wait()))
    bench.add("work", step("do", lambda op: None))
    bench.worker(queues=[shelf("h@full", concurrency=1), shelf("h@free", concurrency=1)])
    bench.enqueue("wait", "a", queue="h@full")
    bench.enqueue("wait", "b", queue="h@full")
    assert gate.arrived.wait(60)
    bench.until(bench.enqueue("work", "c", queue="h@free"), "done")
    gate.opened.set()


def test_a_back_end_that_cannot_start_holds_up_no_other_and_is_tried_again(bench):
    class Late(Shelf):
        tries = 0

        def start(self):
            Late.tries += 1
            if Late.tries < 3:
                raise (OSError("no device"), KeyError("a bug"))[Late.tries % 2]

    bench.add("work", step("do", lambda op: None))
    late = queue_of(Late(shelf("h@late").parts.backend, None))
    op_id = bench.enqueue("work", queue="h@late")
    bench.worker(queues=[late, shelf("h@free")])
    bench.until(op_id, "done")
    assert Late.tries == 3
    assert late.problem is None


# ---------------------------------------------------------------- leases


def test_a_step_that_outlives_the_lease_keeps_it(bench):
    gate = Gate()
    bench.add("work", step("do", lambda op: gate.wait()))
    workers = [bench.worker(name, timing=KEPT) for name in ("one", "two")]
    op_id = bench.enqueue("work")
    assert gate.arrived.wait(60)
    first = bench.show(op_id)
    bench.until(op_id, "running", and_so=lambda row: row.lease_until > first.lease_until + 2 * KEPT.lease_s)
    assert bench.show(op_id).token == 1
    assert sum(len(worker.held) for worker in workers) == 1
    gate.opened.set()
    bench.until(op_id, "done")


def test_another_process_of_the_same_name_takes_over_once_and_for_all(bench):
    """A mistake in the settings must not make two workers tear the same work from each other for ever."""
    gate = Gate()
    bench.add("work", step("do", lambda op: gate.wait()), step("end", lambda op: bench.diary.note("end")))
    bench.worker("same", timing=KEPT)
    op_id = bench.enqueue("work")
    assert gate.arrived.wait(60)
    bench.worker("same", timing=KEPT)
    second = bench.until(op_id, "running", and_so=lambda row: row.token == 2)
    bench.until(op_id, "running", and_so=lambda row: row.lease_until > second.lease_until + 2 * KEPT.lease_s)
    assert bench.show(op_id).token == 2
    gate.opened.set()
    bench.until(op_id, "done")
    assert bench.diary.lines == ["end", "work succeeds"]


def test_what_a_worker_had_to_let_go_of_it_finds_again(bench):
    """A claim whose commit was answered too late: the row says ours, and nobody works on it."""
    bench.add("work", step("do", lambda op: bench.diary.note("do")))
    worker = bench.worker(timing=SHORT)
    op_id = bench.enqueue("work", queue="h@elsewhere")
    values = {"state": "running", "holds": True, "owner": worker.owner, "token": 1, "queue": QUEUE, "home": QUEUE}
    bench.update(op_id, **values, lease_until=bench.db.time() + 1000)
    assert bench.until(op_id, "done").token == 2


def test_the_work_of_a_worker_with_a_longer_name_is_not_ours(bench):
    gate = Gate()
    bench.add("work", step("do", lambda op: bench.diary.note("do")))
    op_id = bench.enqueue("work")
    values = {"state": "running", "holds": True, "owner": "worker_2#1", "token": 1}
    bench.update(op_id, **values, lease_until=bench.db.time() + 1000)
    bench.add("wait", step("do", lambda op: gate.wait()))
    bench.worker("worker", timing=SHORT)
    other = bench.enqueue("wait", "other")
    assert gate.arrived.wait(60)
    until_kept(bench, other)
    gate.opened.set()
    assert bench.show(op_id).owner == "worker_2#1"


def test_work_that_ends_its_worker_again_and_again_is_paused(bench):
    bench.add("work", step("do", lambda op: bench.diary.note("do")))
    op_id = bench.enqueue("work")
    values = {"state": "running", "holds": True, "owner": "worker#1", "token": 9}
    bench.update(op_id, **values, attempt=3, error_code=claims.WORKER_LOST, lease_until=bench.db.time() + 1000)
    bench.worker()
    row = bench.until(op_id, "waiting")
    assert 20 < row.not_before - bench.db.time() < 40
    assert row.attempt == 4


def test_work_that_was_paused_goes_on_when_its_time_has_come(bench):
    """Nobody looks for minutes, but whoever has put it to rest."""
    bench.add("work", step("do", lambda op: bench.diary.note("do")))
    op_id = bench.enqueue("work")
    values = {"state": "running", "holds": True, "owner": "worker#1", "token": 9}
    bench.update(op_id, **values, attempt=3, error_code=claims.WORKER_LOST, lease_until=bench.db.time() + 1000)
    bench.worker(timing=msgspec.structs.replace(TIMING, pause_s=0.2))
    bench.until(op_id, "done")


def test_what_is_to_be_looked_at_a_while_after_a_take_over_is(bench):
    """Nobody looks for minutes, but whoever has taken over."""
    later = []

    def take(tx, _left, after_s):
        target = queueing.Target(queue=QUEUE, keys=("later",), resource_id="late")
        wait = Wait("what may come late has come", look_again_s=after_s)
        later.append(queueing.enqueue(tx, bench.known["late"], Args(), target, None, wait=wait))

    bench.add("work", step("do", lambda op: bench.diary.note("do")))
    bench.add("late", step("do", lambda op: bench.diary.note("late")))
    op_id = bench.enqueue("work")
    values = {"state": "running", "holds": True, "owner": "another#1", "token": 1}
    bench.update(op_id, **values, lease_until=bench.db.time() + 1000)
    worker = bench.worker(timing=SHORT)
    worker._leases.on_taken = take
    bench.update(op_id, lease_until=bench.db.time() - 1)
    wait_until(lambda: later)
    bench.until(later[0], "done")


def test_a_lease_that_may_be_lost_is_looked_at_before_the_world_is_touched(bench):
    """A process that slept between taking its work and beginning: the step must not begin beside its successor's."""
    bench.add("work", step("do", lambda op: bench.diary.note("do")))
    worker = bench.worker()

    def sleep_through(point):
        if point == "work:do:before":
            bench.update(op_id[0], token=7)
            for op in list(worker._held.values()):
                op.leased_until_s = bench.db.time() - 1

    worker.faults = sleep_through
    op_id = [None]
    with bench.db.write() as tx:
        op_id[0] = bench.enqueue("work", tx=tx)
    wait_until(lambda: bench.show(op_id[0]).token == 7 and not worker.held)
    assert "do" not in bench.diary.lines


def test_a_lease_that_is_lost_is_not_taken_for_renewed(bench):
    """A process that slept longer than that, and whose keeper of leases is the first to wake up."""
    bench.add("work", step("do", lambda op: bench.diary.note("do")))
    gate = Gate()
    bench.add("wait", step("do", lambda op: gate.wait()))
    worker = bench.worker(timing=SHORT)
    op_id = [None]
    other = bench.enqueue("wait", "other")
    assert gate.arrived.wait(60)

    def sleep_through(point):
        if point == "work:do:before":
            ends_s = bench.show(op_id[0]).lease_until
            bench.update(op_id[0], owner="other#1", token=7, lease_until=bench.db.time() + 1000)
            # another one's lease is renewed at a time at which ours is over
            wait_until(lambda: bench.show(other).lease_until > ends_s + SHORT.lease_s)
            gate.opened.set()

    worker.faults = sleep_through
    with bench.db.write() as tx:
        op_id[0] = bench.enqueue("work", tx=tx)
    wait_until(lambda: bench.show(op_id[0]).token == 7 and not worker.held)
    assert "do" not in bench.diary.lines
    assert bench.show(op_id[0]).state == "running"


# ---------------------------------------------------------------- waking


def test_work_starts_at_once_though_nobody_looks_for_minutes(bench):
    begun = {}
    bench.add("work", step("do", lambda op: begun.setdefault(op.id, bench.db.time())))
    bench.worker()
    delays = []
    for number in range(20):
        at_s = bench.db.time()
        op_id = bench.enqueue("work", str(number))
        bench.until(op_id, "done")
        delays.append(begun[op_id] - at_s)
    assert sorted(delays)[10] < 0.1, delays


def test_what_was_queued_while_nobody_was_there_starts_with_the_worker(bench):
    bench.add("work", step("do", lambda op: None))
    ids = [bench.enqueue("work", str(number)) for number in range(5)]
    bench.worker()
    for op_id in ids:
        bench.until(op_id, "done")


def test_the_next_of_a_key_starts_when_the_one_before_ends(bench):
    gate = Gate()
    bench.add("wait", step("do", lambda op: gate.wait()))
    bench.add("work", step("do", lambda op: None))
    bench.worker()
    bench.enqueue("wait")
    assert gate.arrived.wait(60)
    ids = [bench.enqueue("work") for _ in range(3)]
    gate.opened.set()
    for op_id in ids:
        bench.until(op_id, "done")


def test_a_successor_that_comes_while_the_end_is_written_is_not_forgotten(bench):
    """Its wake-up comes too early, since the end is not committed yet, and the end has not seen it."""
    bench.add("work", step("do", lambda op: None))
    bench.add("after", step("do", lambda op: None))
    bench.add("other", step("do", lambda op: None))
    ids = []

    def follow(point):
        if point == "work:end:inside":
            thread = threading.Thread(target=lambda: ids.append(bench.enqueue("after")))
            thread.start()
            if not bench.place.is_sqlite:  # there it can only commit after the end has
                thread.join(60)
                bench.until(bench.enqueue("other", "other"), "done")  # so the worker has looked since

    bench.worker(faults=follow)
    bench.enqueue("work")
    wait_until(lambda: ids)
    bench.until(ids[0], "done")


def test_a_burst_of_wake_ups_drowns_no_other_queue(bench):
    bench.add("work", step("do", lambda op: None))
    bench.worker(queues=[shelf("h@busy"), shelf("h@quiet")])
    for round_ in range(8):
        threads = [
            threading.Thread(target=lambda n=n, r=round_: bench.enqueue("work", f"{r}-{n}", queue="h@busy"))
            for n in range(25)
        ]
        for thread in threads:
            thread.start()
        quiet = bench.enqueue("work", f"quiet {round_}", queue="h@quiet")
        for thread in threads:
            thread.join()
        bench.until(quiet, "done")


def test_the_slow_look_comes_however_often_others_wake_the_worker(bench):
    """Work that waits since another worker's life has no alarm here; only looking finds it."""
    bench.add("work", step("do", lambda op: None))
    left = bench.enqueue("work", "left", queue="h@other")
    bench.worker(
        queues=[shelf("h@noisy"), shelf("h@other")], timing=msgspec.structs.replace(TIMING, poll_s=0.2), listens=False
    )
    bench.until(left, "done")
    again = bench.enqueue("work", "again", queue="h@other")
    bench.update(again, not_before=bench.db.time() + 0.3)
    is_over = threading.Event()

    def noise():
        while not is_over.wait(0.05):
            worker.wake("h@noisy")

    worker = bench._running[-1][0]
    thread = threading.Thread(target=noise)
    thread.start()
    try:
        bench.until(again, "done")
    finally:
        is_over.set()
        thread.join()


def test_without_any_wake_up_the_slow_look_finds_the_work(bench):
    bench.add("work", step("do", lambda op: None))
    bench.worker(timing=msgspec.structs.replace(TIMING, poll_s=0.1), listens=False)
    bench.run("work")


# ---------------------------------------------------------------- other releases


def test_an_unknown_kind_waits_for_a_worker_that_knows_it(bench):
    bench.add("old", step("do", lambda op: None))
    bench.worker("old")
    new = bench.enqueue("new", "a")
    bench.until(bench.enqueue("old", "b"), "done")
    assert bench.show(new).state == "queued"
    assert kinds.waiting_for(bench.show(new), bench.known) == "a worker that knows this kind"
    bench.worker("new", known={"new": operation("new", step("do", lambda op: None))})
    bench.until(new, "done")


def test_an_unknown_kind_left_by_a_newer_worker_goes_on_there(bench):
    bench.add("old", step("do", lambda op: None))
    op_id = bench.enqueue("new")
    bench.update(op_id, state="running", holds=True, owner="worker#1", token=1, lease_until=1.0)
    bench.worker("worker")
    bench.until(op_id, "queued")
    bench.worker("new", known={"new": operation("new", step("do", lambda op: None))})
    bench.until(op_id, "done")


@pytest.mark.parametrize("values", [{"args": {"word": ["a", "list"]}}, {"step": 5}], ids=["args", "step"])
def test_what_another_release_wrote_waits_in_sight(bench, values):
    bench.add("work", step("do", lambda op: bench.diary.note("do")))
    bench.add("other", step("do", lambda op: None))
    op_id = bench.enqueue("work", "a")
    bench.update(op_id, **values)
    bench.worker(timing=msgspec.structs.replace(TIMING, retry=kinds.Retry(delays_s=(500.0,))))
    row = bench.until(op_id, "waiting", and_so=lambda row: row.attempt == 1)
    assert row.error_code == "NotUnderstood"
    assert row.not_before > bench.db.time() + 400
    bench.until(bench.enqueue("other", "b"), "done")
    assert "do" not in bench.diary.lines


# ---------------------------------------------------------------- periodic_tasks and counting


def test_chores_are_done_at_the_start_and_again_and_a_broken_one_harms_no_other(bench):
    def broken():
        bench.diary.note("broken")
        raise (KeyError("a bug"), errors.Unavailable(part="It"))[bench.diary.lines.count("broken") % 2]

    worker = Worker("periodic_tasks", bench.place.open(), [shelf()], bench.known, timing=TIMING)
    worker.periodic_tasks = [
        PeriodicTask("broken", 0.01, broken),
        PeriodicTask("fine", 0.01, lambda: bench.diary.note("fine")),
    ]
    thread = threading.Thread(target=worker.run)
    thread.start()
    bench.diary.until("fine", 3)
    bench.diary.until("broken", 3)
    worker.stop()
    thread.join(60)
    assert not thread.is_alive()


def test_every_run_is_counted_with_how_it_ended(bench):
    counted = []

    def count(op, outcome, seconds):
        counted.append((op.what.kind, outcome, seconds < 10))
        raise KeyError("a bug in whoever counts")

    bench.add("work", step("do", lambda op: None))
    worker = bench.worker()
    worker.on_ended = count
    bench.run("work")
    bench.run("work", "another")
    wait_until(lambda: counted == [("work", "done", True)] * 2)


def test_a_worker_stops_while_its_database_cannot_be_reached(tmp_path):
    db = Database(f"sqlite:///{tmp_path / 'missing' / 'abaca.sqlite'}")
    worker = Worker("worker", db, [shelf()], {}, timing=TIMING)
    thread = threading.Thread(target=worker.run)
    thread.start()
    worker.stop()
    thread.join(60)
    assert not thread.is_alive()
    db.close()
