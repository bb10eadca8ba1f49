# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL goes away and comes back: workers go on by themselves, and what was done is not done again."""

import gc
import random
import threading

import msgspec
import pytest
import sqlalchemy as sa

from abaca.db.journal import operations as rows
from abaca.db.tables.catalog import availability_zones
from abaca.drivers import contract
from abaca.journal import kinds
from tests.conftest import wait_until
from tests.databases import Place, place
from tests.operations.bench import TIMING, Bench, Gate, record, shelf, step
from tests.operations.cable import Cable, Silence

pytestmark = pytest.mark.system

SHORT = msgspec.structs.replace(TIMING, lease_s=3.0)


@pytest.fixture
def bench(request, tmp_path):
    database = place("postgresql", tmp_path, request)
    made = Bench(database)
    yield made
    made.stop()
    database.close()


def test_an_outage_that_is_longer_than_every_lease(bench):
    """One operation in a step, one between two steps, one waiting for its next try, one queued, and an idle worker."""
    gate, between = Gate(), Gate()
    tries = []

    def stumble(op):
        tries.append(op.id)
        if len(tries) == 1:
            raise contract.Busy(reason="wait")

    def note(word):
        return lambda op: bench.diary.note(f"{word} {op.keys[0]}")

    bench.add("in-step", step("one", lambda op: gate.wait()), step("two", note("two")))
    bench.add("between", step("one", note("one")), step("two", note("two")))
    bench.add("waiting", step("one", stumble), step("two", note("two")))
    bench.add("behind", step("one", note("one")))

    def hold(point):
        if point == "between:one:after":
            between.wait()

    worker = bench.worker(timing=SHORT, faults=hold)
    idle = bench.worker("idle", queues=[shelf("h@idle")], timing=SHORT)
    ids = {kind: bench.enqueue(kind, kind) for kind in ("in-step", "between", "waiting")}
    ids["behind"] = bench.enqueue("behind", "in-step")
    assert gate.arrived.wait(60)
    assert between.arrived.wait(60)
    wait_until(lambda: tries)
    leased_until = max(bench.show(ids[kind]).lease_until for kind in ("in-step", "between")) + 2 * SHORT.lease_s
    server = bench.place.server
    server.stop("immediate")
    with Silence(server.port) as silence:
        gate.opened.set()
        between.opened.set()
        wait_until(lambda: silence.calls > 20 and bench.db.time() > leased_until)
    assert sorted(worker.held), "it keeps what it was doing"
    server.start()
    for op_id in ids.values():
        assert bench.until(op_id, *rows.ENDED).state == "done"
    assert bench.diary.lines.count("one between") == 1
    assert bench.diary.lines.count("two in-step") == 1
    assert bench.diary.lines.count("two between") == 1
    assert len(tries) <= 3
    bench.until(bench.enqueue("behind", "later", queue="h@idle"), "done")
    wait_until(lambda: idle.held == [])


@pytest.mark.parametrize("moment", ["one:before", "one:inside", "one:after", "two:inside", "end:before", "end:inside"])
def test_a_restart_at_any_moment_repeats_no_step_that_was_done(bench, moment):
    is_due = [True]

    def restart(point):
        if point == f"work:{moment}" and is_due[0]:
            is_due[0] = False
            bench.place.server.restart("immediate")

    bench.add(
        "work",
        step("one", lambda op: bench.diary.note("one")),
        step("two", lambda op: bench.diary.note("two")),
    )
    bench.worker(timing=SHORT, faults=restart)
    assert bench.run("work").state == "done"
    assert bench.diary.lines[:2] == ["one", "two"]
    assert bench.diary.lines.count("one") == bench.diary.lines.count("two") == 1


def test_a_worker_that_starts_before_its_database_waits_for_it(bench):
    bench.add("work", step("do", lambda op: None))
    op_id = bench.enqueue("work")
    server = bench.place.server
    server.stop("immediate")
    thread = threading.Thread(target=bench.worker)
    with Silence(server.port) as silence:
        thread.start()
        wait_until(lambda: silence.calls > 2)
    server.start()
    thread.join(60)
    bench.until(op_id, "done")


def test_a_worker_is_told_to_stop_while_its_database_is_away(bench):
    gate = Gate()
    bench.add("work", step("one", lambda op: gate.wait()), step("two", lambda op: bench.diary.note("two")))
    worker = bench.worker(timing=SHORT)
    op_id = bench.enqueue("work")
    assert gate.arrived.wait(60)
    bench.place.server.stop("immediate")
    with Silence(bench.place.server.port) as silence:
        gate.opened.set()
        wait_until(lambda: silence.calls > 2)
        bench.stop(worker)
    bench.place.server.start()
    bench.worker(timing=SHORT)
    bench.until(op_id, "done")


def test_a_listener_whose_connection_is_ended_listens_again(bench):
    bench.add("work", step("do", lambda op: None))
    bench.worker()
    bench.run("work", "before")
    for number in range(3):
        with bench.db.write() as tx:
            them = "FROM pg_stat_activity WHERE application_name = 'abaca listener'"
            tx.execute(sa.text(f"SELECT count(pg_terminate_backend(pid)) {them}"))
        assert bench.run("work", f"after {number}").state == "done"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cable_that_is_cut_again_and_again_loses_and_doubles_nothing(bench):
    """Whether a commit whose answer was lost has happened nobody knows: each end is written once all the same."""
    written = availability_zones

    def succeed(op, tx):
        tx.execute(sa.insert(written).values(id=op.id, name=op.keys[0], created_at=tx.now))

    bench.add(
        "work",
        step("one", lambda op: bench.diary.note(f"one {op.keys[0]}")),
        record("two", lambda op, tx: op.record(two=True)),
        step("three", lambda op: bench.diary.note(f"three {op.data['two']}")),
        succeed=succeed,
    )
    cable = Cable(bench.place.server.port)
    url = bench.place.url.replace(str(bench.place.server.port), str(cable.port))
    loose = Place(url, bench.place.directory, "elsewhere")
    patient = kinds.Retry(delays_s=(0.02,) * 40)
    bench.worker(db=loose.open(), timing=msgspec.structs.replace(SHORT, poll_s=0.5, retry=patient), listens=False)
    ids = [bench.enqueue("work", str(number)) for number in range(150)]
    for _ in range(40):
        cable.cut()
        cable.carry(random.randint(1, 40))
    for op_id in ids:
        assert bench.until(op_id, *rows.ENDED).state == "done"
    bench.stop()
    cable.close()
    loose.close()
    with bench.db.read() as tx:
        assert sorted(tx.connection.execute(sa.select(written.c.name)).scalars()) == sorted(map(str, range(150)))
    gc.collect()  # connections that died while they were made are closed, and complained of, here
