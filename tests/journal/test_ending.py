# SPDX-License-Identifier: Apache-2.0
"""A worker that is told to stop lets go of everything, whatever hangs or breaks on the way, and soon."""

import threading

import msgspec
import pytest

from abaca.db.administration import services
from abaca.db.catalog import availability_zones
from abaca.journal import interruptions
from abaca.operations.parts import queue_of
from abaca.reconcile.backends import Backends
from tests.conftest import wait_until
from tests.operations.bench import QUEUE, TIMING, Gate, Shelf, shelf, step

HASTY = msgspec.structs.replace(TIMING, grace_s=0.2)
# it is 3 s on a machine with nothing else to do
SOON_S = 9.0


@pytest.fixture
def gate(bench):
    made = Gate()
    yield made
    made.opened.set()


def driven_by(kind, queue):
    return queue_of(kind(shelf(queue).parts.backend, None))


class Broken(Shelf):
    def stop(self):
        raise KeyError("a bug")


class Noting(Shelf):
    is_stopped = False

    def stop(self):
        self.is_stopped = True


def test_a_driver_that_cannot_stop_keeps_no_other_from_it(bench):
    noting = driven_by(Noting, "h@noting")
    worker = bench.worker(queues=[driven_by(Broken, "h@broken"), noting])
    bench.stop(worker)
    assert noting.parts.driver.is_stopped


def test_a_driver_whose_stop_hangs_keeps_no_worker_from_ending(bench, gate):

    class Hung(Shelf):
        def stop(self):
            gate.wait()

    noting = driven_by(Noting, "h@noting")
    worker = bench.worker(queues=[driven_by(Hung, "h@hung"), noting], timing=HASTY)
    worker.stop()
    wait_until(lambda: bench.has_ended(worker), SOON_S)
    assert noting.parts.driver.is_stopped


@pytest.fixture
def backends(bench):
    made = Backends(bench.db, [shelf()])
    with bench.db.write() as tx:
        availability_zones.ensure(tx, "nova")
    made.announce(made.served[0])
    made.served[0].is_started = True
    return made


def state(bench):
    with bench.db.read() as tx:
        row = tx.row(services.t.select().where(services.t.c.host == QUEUE))
    return "stopped" if row.stopped else "up"


def test_a_late_heartbeat_does_not_call_a_worker_up_that_has_left(bench, backends):
    backends.beat()
    backends.leave()
    assert state(bench) == "stopped"
    backends.beat()
    assert state(bench) == "stopped"


def test_a_back_end_that_starts_while_its_worker_leaves_is_not_called_up(bench, backends):
    backends.leave()
    backends.announce(backends.served[0])
    assert state(bench) == "stopped"


def test_who_cannot_be_told_of_the_end_keeps_nobody_else_from_being_told(bench, gate):
    told = []
    worker = bench.worker(timing=HASTY)
    worker.on_stopped = [lambda: told.append(1 / 0), gate.wait, lambda: told.append("the last")]
    worker.stop()
    wait_until(lambda: bench.has_ended(worker), SOON_S)
    assert told == ["the last"]


def test_what_is_cut_off_at_the_end_is_handed_back_before_it(bench):
    """So that nobody has to wait for its lease; as a mount on a slow machine is, when the connection is closed."""
    begun, cut = threading.Event(), threading.Event()
    cutting = []

    class Line(Shelf):
        def stop(self):
            cutting.append(threading.current_thread())
            cut.set()

    def mount(op):
        begun.set()
        assert cut.wait(60)
        cutting[0].join(60)  # it notices when all others are through with stopping
        raise interruptions.Interrupted

    bench.add("work", step("mount", mount))
    worker = bench.worker(queues=[driven_by(Line, QUEUE)], timing=HASTY)
    op_id = bench.enqueue("work")
    assert begun.wait(60)
    bench.stop(worker)
    assert bench.show(op_id).state == "queued"
