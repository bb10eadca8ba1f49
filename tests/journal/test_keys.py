# SPDX-License-Identifier: Apache-2.0
"""Several keys: whatever order they cross in, all run, in the order in which they came, and never two of a key."""

import random
import threading

import pytest

from abaca.db.journal import keys
from tests.conftest import wait_until
from tests.journal.scenes import SEED
from tests.operations.bench import QUEUE, Gate, shelf, step

ALL = "abcdef"


class Holders:
    """Who is at work on which key, in this process."""

    def __init__(self):
        self.lock = threading.Lock()
        self.now = {}
        self.begun = {key: [] for key in ALL}
        self.complaints = []

    def begin(self, op):
        with self.lock:
            for key in op.keys:
                if (other := self.now.setdefault(key, op.id)) != op.id:
                    self.complaints.append(f"{op.id} and {other} have {key}")
                self.begun[key].append(op.args.word)

    def look(self, op):
        with self.lock:
            self.complaints += [f"{op.id} lost {key}" for key in op.keys if self.now.get(key) != op.id]

    def end(self, op):
        with self.lock:
            for key in op.keys:
                self.now.pop(key, None)


def crossing(seed, number):
    """So many sets of one to four keys, in any order."""
    chance = random.Random(f"{SEED} {seed}")
    return [chance.sample(ALL, chance.randint(1, 4)) for _ in range(number)]


@pytest.fixture
def holders(bench):
    made = Holders()
    bench.add("work", step("begin", made.begin), step("look", made.look), step("end", made.end))
    return made


@pytest.mark.parametrize("seed", range(2))
def test_crossing_keys_are_served_in_the_order_in_which_they_came(bench, holders, seed):
    print(f"TOYS_SEED={SEED}")  # noqa: T201 - shown when it fails
    wanted = crossing(seed, 40)
    for name in ("one", "two", "three"):
        bench.worker(name, queues=[shelf(concurrency=3)])
    ids = [bench.enqueue("work", held, word=str(number)) for number, held in enumerate(wanted)]
    for op_id in ids:
        bench.until(op_id, "done")
    assert holders.complaints == []
    for key in ALL:
        assert holders.begun[key] == [str(number) for number, held in enumerate(wanted) if key in held]


def test_crossing_keys_of_many_who_ask_at_once_never_block_each_other(bench, holders):
    print(f"TOYS_SEED={SEED}")  # noqa: T201 - shown when it fails
    for name in ("one", "two"):
        bench.worker(name, queues=[shelf(concurrency=4)])
    ids = []

    def ask(seed):
        ids.extend([bench.enqueue("work", held) for held in crossing(seed, 12)])

    threads = [threading.Thread(target=ask, args=(f"many {number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 48
    for op_id in ids:
        bench.until(op_id, "done")
    assert holders.complaints == []
    assert holders.now == {}


def test_who_waits_for_one_key_keeps_its_place_on_the_others(bench):
    gate = Gate()
    bench.add("hold", step("do", lambda op: gate.wait()))
    bench.add("work", step("do", lambda op: bench.diary.note(op.args.word)))
    bench.worker()
    bench.enqueue("hold", "a")
    assert gate.arrived.wait(60)
    both = bench.enqueue("work", ["a", "b"], word="both")
    behind = bench.enqueue("work", "b", word="behind")
    free = bench.enqueue("work", "c", word="free")
    bench.until(free, "done")
    with bench.db.read() as tx:
        ahead = [(row.kind, row.state) for row in keys.ahead_of(tx, behind)]
    assert ahead == [("work", "queued")]
    gate.opened.set()
    bench.until(both, "done")
    bench.until(behind, "done")
    assert [line for line in bench.diary.lines if "succeeds" not in line] == ["free", "both", "behind"]


def test_keys_are_held_from_the_first_claim_to_the_end_whatever_comes_between(bench):
    """A retry, a hop and a wait let go of nothing; and what comes on the same key meanwhile waits."""
    seen = []
    gate = Gate()

    def look(op):
        gate.wait()
        with op.db.read() as tx:
            seen.append([row.id for row in keys.holders(tx, "a")])

    bench.add("work", step("first", lambda op: None), step("away", look, queue=lambda op: "h@away"))
    bench.worker(queues=[shelf(), shelf("h@away")])
    first = bench.enqueue("work", ["a", "b"])
    assert gate.arrived.wait(60)
    others = [bench.enqueue("work", "b"), bench.enqueue("work", "a")]
    assert bench.show(first).queue == "h@away"
    assert [bench.show(op_id).state for op_id in others] == ["queued", "queued"]
    gate.opened.set()
    for op_id in others:
        bench.until(op_id, "done")
    assert seen[0] == [first, others[1]]
    with bench.db.read() as tx:
        assert keys.holders(tx, "a") == []


def test_two_workers_that_claim_at_once_never_take_two_of_a_key(bench):
    """The database keeps it so: the unique `held_key` refuses the second."""
    holders = Holders()
    bench.add("work", step("begin", holders.begin), step("end", holders.end))
    ids = [bench.enqueue("work", "a") for _ in range(10)]
    workers = [bench.worker(f"worker {number}") for number in range(4)]
    for op_id in ids:
        for worker in workers:
            worker.wake(QUEUE)
        bench.until(op_id, "done")
    assert holders.complaints == []
    wait_until(lambda: not any(worker.held for worker in workers))
