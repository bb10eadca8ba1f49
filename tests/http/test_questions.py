# SPDX-License-Identifier: Apache-2.0
"""A request that asks a worker holds no thread while it waits, gets the answer soon, and is told when there is none.

Through a door that only these tests have, on the real server with two threads, with a real worker.
"""

import contextlib
import http.client
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from abaca import errors, settings
from abaca.cli import answering, ports, serving
from abaca.http import health, pipeline, waiting
from abaca.http.doors import Door
from abaca.http.routing import Resource, Table
from abaca.http.wire import Plain
from abaca.journal import questions
from abaca.journal.leases import Leases
from abaca.journal.op import Op
from abaca.journal.queues import WorkQueue
from abaca.journal.worker import Timing, Worker
from tests.conftest import wait_until
from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.http.clusters import ANYONE, negotiate

QUEUE = "questions@here"


class Word(msgspec.Struct, frozen=True):
    """What is asked about."""

    word: str


class Oracle:
    """Knows how long words are, but none that begins with x; is silent until `speaks`."""

    def __init__(self):
        self.speaks = threading.Event()
        self.asked = 0


def find_out(op: Op[Oracle]):
    op.parts.asked += 1
    while not op.parts.speaks.wait(0.02):
        op.between_parts()
    if op.args.word.startswith("x"):
        raise errors.Invalid("nobody knows words with x")
    questions.answer(op, len(op.args.word))


LENGTH = questions.kind("word-length", Word, Oracle, find_out)
RESOURCE = Resource("word", "/words")


@RESOURCE.get("/{id}", policy=ANYONE, view=Plain("length", int))
def show(call, id):
    """How long it is."""
    future = call.parts.extras["questions"].ask(LENGTH, Word(id), QUEUE, call.caller)
    return waiting.Later(future, 0.5 if id.startswith("late") else 20.0, lambda found: found)


class Place:
    """The server, and workers that come and go."""

    def __init__(self, opened, on, directory):
        self._opened = opened
        self._on = on
        self.db = on.open()
        self.oracle = Oracle()
        asked = questions.Questions(self.db, lambda: on.listener("api"))
        opened.callback(asked.close)
        told = settings.Settings(auth_strategy="none", config_dir=directory)
        door = Door("/toy", Table([RESOURCE]), negotiate, lambda base: base)
        self.application = pipeline.make_app(told, self.db, [door], questions=asked)
        front = health.front(self.application, health.Health(self.db), None)
        listening = ports.listen("127.0.0.1", 0, 1024)
        self.port = listening.getsockname()[1]
        answers = answering.Answering(front, answering.Bounds(2, 1000, 10.0))
        self.server = serving.Server(listening, answers, serving.Limits(1024, 1000, 30.0, 30.0))
        thread = threading.Thread(target=self.server.serve, args=(lambda: None,))
        opened.callback(thread.join, 20)
        opened.callback(self.server.stop)
        thread.start()

    def enter(self, name="here", lease_s=30.0):
        """A worker; called, what is returned stops it."""
        timing = Timing(lease_s=lease_s, poll_s=600.0 if lease_s > 1 else 0.1, grace_s=5.0)
        queue = WorkQueue(QUEUE, self.oracle, 200)
        listener = self._on.listener(name)
        worker = Worker(name, self.db, [queue], {LENGTH.kind: LENGTH}, timing=timing, listener=listener)
        thread = threading.Thread(target=worker.run)
        thread.start()

        def leave():
            worker.stop()
            thread.join(60)

        self._opened.callback(leave)
        self._opened.callback(self.oracle.speaks.set)
        wait_until(lambda: queue.is_started)
        return worker

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=25)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())


@pytest.fixture
def here(database, tmp_path):  # noqa: F811
    with contextlib.ExitStack() as opened:
        yield Place(opened, database, tmp_path)


def test_a_hundred_requests_that_wait_for_a_worker_hold_no_thread(here):
    here.enter()
    with ThreadPoolExecutor(100) as clients:
        asking = [clients.submit(here.get, f"/toy/words/{'w' * n}") for n in range(1, 101)]
        wait_until(lambda: here.oracle.asked == 100)
        took_s = []
        for _ in range(20):
            began_s = time.monotonic()
            assert here.get("/toy/nothing")[0] == 404
            assert here.get("/healthcheck")[0] == 200
            took_s.append(time.monotonic() - began_s)
        assert sorted(took_s)[10] < 2
        here.oracle.speaks.set()
        began_s = time.monotonic()
        assert [one.result() for one in asking] == [(200, {"length": n}) for n in range(1, 101)]
    assert here.get("/toy/words/soon") == (200, {"length": 4})
    assert time.monotonic() - began_s < 60


def test_what_a_worker_cannot_find_out_is_told_with_its_reason(here):
    here.enter()
    here.oracle.speaks.set()
    status, body = here.get("/toy/words/xylophone")
    assert (status, body["conflictingRequest"]["message"]) == (
        409,
        "It could not be found out: nobody knows words with x",
    )


def test_without_a_worker_the_request_is_told_so_within_its_bound(here):
    began_s = time.monotonic()
    status, body = here.get("/toy/words/late")
    assert (status, time.monotonic() - began_s < 15) == (503, True)
    assert "Nobody has answered within 0.5 s" in body["serviceUnavailable"]["message"]


def test_another_worker_answers_when_one_is_gone(here):
    first = here.enter("first")
    with ThreadPoolExecutor(1) as clients:
        asking = clients.submit(here.get, "/toy/words/word")
        wait_until(lambda: here.oracle.asked == 1)
        here.enter("second")
        first.stop()
        wait_until(lambda: here.oracle.asked == 2)
        here.oracle.speaks.set()
        assert asking.result() == (200, {"length": 4})


def test_another_worker_answers_when_one_died_meanwhile(here):
    dead = Leases("dead", "dead#1", here.db, 0.3)
    here.oracle.speaks.set()
    with ThreadPoolExecutor(1) as clients:
        asking = clients.submit(here.get, "/toy/words/word")
        wait_until(lambda: dead.claim(QUEUE, [LENGTH.kind], 1)[0])
        here.enter(lease_s=0.6)
        assert asking.result() == (200, {"length": 4})
