# SPDX-License-Identifier: Apache-2.0
"""Worker processes that are stopped, killed and told to end: somebody goes on, and nothing counts twice."""

import contextlib
import signal
import sqlite3

import msgspec
import pytest
import sqlalchemy as sa

from abaca.db.journal import operations as rows
from lab import processes
from tests.conftest import wait_until
from tests.operations.bench import TIMING, Bench
from tests.operations.nursery import Nursery
from tests.operations.paper import Paper, known

IN_TRANSACTION = sa.text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
)
LONG = msgspec.structs.replace(TIMING, lease_s=600.0)
SHORT = msgspec.structs.replace(TIMING, lease_s=0.6)


@pytest.fixture(scope="module")
def nursery(tmp_path_factory):
    made = Nursery(
        tmp_path_factory.mktemp("nursery"), "tests.operations.paper", "sqlalchemy.dialects.postgresql.psycopg"
    )
    yield made
    made.close()


class Yard:
    """A bench whose workers are processes."""

    def __init__(self, database, directory, nursery):
        self.place = database
        self.bench = Bench(database)
        self.paper = Paper(directory)
        self.bench.known = known(self.paper, "nobody")
        self.nursery = nursery
        self.children = []

    def worker(self, name, who, timing):
        place = (self.place.url, str(self.place.directory), self.place.is_sqlite)
        child = self.nursery.start(
            "tests.operations.paper:work",
            place=place,
            directory=str(self.paper.directory),
            name=name,
            who=who,
            timing=msgspec.to_builtins(timing),
        )
        self.children.append(child)
        return child

    def begin(self, key, name, who, timing):
        """A worker that is held in the middle of the second of three steps; its operation and the process."""
        self.paper.gate(key)
        op_id = self.bench.enqueue("walk", key)
        child = self.worker(name, who, timing)
        self.paper.until(f"{who} begins two of {key}")
        return op_id, child

    def freeze(self, child):
        """Stop a worker between two transactions: with one open it would keep the others waiting for as long.

        SQLite has one writer; PostgreSQL waits until it has given up the connection (`abandoned_s`).
        """

        def is_frozen():
            processes.freeze(child.pid)
            if not self.is_anybody_writing():
                return True
            processes.thaw(child.pid)
            return False

        wait_until(is_frozen)

    def is_anybody_writing(self):
        if not self.place.is_sqlite:
            with self.bench.db.read() as tx:
                return tx.scalar(IN_TRANSACTION) > 0
        with contextlib.closing(sqlite3.connect(self.bench.db.url.database, timeout=0.2)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
        return False

    def count(self, text):
        return sum(line.endswith(text) or f"{text} of" in line for line in self.paper.lines)


@pytest.fixture
def yard(database, tmp_path, nursery):
    made = Yard(database, tmp_path, nursery)
    yield made
    for child in made.children:
        child.kill()


def test_killed_it_goes_on_at_once_under_the_same_name(yard):
    op_id, first = yard.begin("x", "worker", "first", LONG)
    first.kill()
    assert yard.bench.show(op_id).state == "running"
    (yard.paper.directory / "x.gate").unlink()
    yard.worker("worker", "second", LONG)
    yard.bench.until(op_id, "done")
    assert yard.paper.lines == [
        "first begins one of x",
        "first ends one of x",
        "first begins two of x",
        "second begins two of x",
        "second ends two of x",
        "second begins three of x",
        "second ends three of x",
        "second succeeds with x",
    ]


def test_killed_it_goes_on_elsewhere_when_the_lease_has_ended(yard):
    op_id, first = yard.begin("x", "one", "first", SHORT)
    yard.worker("two", "second", SHORT)
    first.kill()
    (yard.paper.directory / "x.gate").unlink()
    yard.bench.until(op_id, "done")
    assert yard.count("ends one") == 1
    assert yard.count("first ends two") == 0
    assert yard.paper.lines[-1] == "second succeeds with x"


def test_a_worker_that_slept_through_its_lease_changes_nothing(yard):
    op_id, first = yard.begin("x", "one", "first", SHORT)
    yard.freeze(first)
    yard.worker("two", "second", SHORT)
    yard.paper.until("second begins two of x")  # it waits at the gate, too
    row = yard.bench.show(op_id)
    assert (row.state, row.token, row.step) == ("running", 2, 1)
    processes.thaw(first.pid)
    yard.paper.open("x")
    yard.bench.until(op_id, "done")
    row = yard.bench.show(op_id)
    assert row.token == 2
    assert yard.count("first begins three") == 0
    assert yard.count("succeeds with x") == 1


def test_told_to_stop_it_ends_its_step_and_hands_back_the_rest(yard):
    op_id, first = yard.begin("x", "one", "first", LONG)
    first.send(signal.SIGTERM)
    yard.paper.until("first stops")
    yard.paper.open("x")
    assert first.ends_within()
    row = yard.bench.show(op_id)
    assert (row.state, row.step, row.owner, row.not_before, row.attempt) == ("queued", 2, None, 0.0, 0)
    yard.worker("two", "second", LONG)
    yard.bench.until(op_id, "done")
    assert yard.count("begins two") == 1
    assert yard.count("second succeeds with x") == 1


def test_what_is_handed_back_wakes_who_is_there(yard):
    yard.paper.gate("x")
    op_id = yard.bench.enqueue("walk", "x")
    first = yard.worker("one", "first", LONG)
    yard.paper.until("first begins two of x")
    yard.worker("two", "second", LONG)
    other = yard.bench.enqueue("walk", "y")
    yard.bench.until(other, "done")
    first.send(signal.SIGTERM)
    yard.paper.until("first stops")
    yard.paper.open("x")
    assert yard.bench.until(op_id, "done")
    assert "second begins three of x" in yard.paper.lines


def test_a_step_that_does_not_end_keeps_no_process_from_ending(yard):
    hasty = msgspec.structs.replace(LONG, grace_s=0.2)
    op_id, first = yard.begin("x", "worker", "first", hasty)
    first.send(signal.SIGTERM)
    assert first.ends_within()
    assert yard.bench.show(op_id).state == "running"
    (yard.paper.directory / "x.gate").unlink()
    yard.worker("worker", "second", LONG)
    yard.bench.until(op_id, "done")


def test_many_at_once_survive_a_kill(yard):
    """What was done stays done, what was under way goes on, and what was queued is done once."""
    keys = [f"k{number}" for number in range(12)]
    for key in keys[:3]:
        yard.paper.gate(key)
    ids = [yard.bench.enqueue("walk", key) for key in keys]
    first = yard.worker("worker", "first", LONG)
    for key in keys[:3]:
        yard.paper.until(f"first begins two of {key}")
    for op_id in ids[3:]:
        yard.bench.until(op_id, "done")
    more = [yard.bench.enqueue("walk", "k1"), yard.bench.enqueue("walk", "k20")]
    first.kill()
    for key in keys[:3]:
        (yard.paper.directory / f"{key}.gate").unlink()
    yard.worker("worker", "second", LONG)
    for op_id in [*ids, *more]:
        yard.bench.until(op_id, "done")
    for key in keys:
        assert yard.count(f"ends one of {key}") == yard.count(f"succeeds with {key}") == (2 if key == "k1" else 1)
    with yard.bench.db.read() as tx:
        assert rows.find(tx, live=True) == []
