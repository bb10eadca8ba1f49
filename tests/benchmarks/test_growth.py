# SPDX-License-Identifier: Apache-2.0
"""What is asked for, done again and again, or done to a share reads as much among 50,000 shares as among 1,000.

Counted is what a database does, not how long it takes: pages that PostgreSQL reads, and steps of SQLite's machine.
"""

import base64
import contextlib
import threading

import pytest

from abaca import app, settings
from abaca.api import doors
from abaca.http import pipeline
from abaca.journal.leases import Leases
from abaca.scheduler.known_pools import KnownPools
from benchmarks import population
from benchmarks.scale import questions
from tests.api.world import NEWEST, PASSWORD, World, hashed
from tests.conftest import ROOT, wait_until
from tests.databases import fast_directory, on_postgres, place
from tests.db.counted import Counted

FEW, MANY = 1_000, 50_000
# Among few it is cheaper to read all, among many a page of fifty goes down several indexes for each row.
TIMES, MORE = 2, {"sqlite": 200, "postgresql": 600}
VERSION = {"x-openstack-manila-api-version": NEWEST, "x-openstack-manila-api-experimental": "true"}
CONFIG = """
[DEFAULT]
host = {host}
state_path = {directory}
auth_strategy = http_basic
http_basic_auth_user_file = {directory}/users
default_share_type = default
enabled_share_backends = {backends}
message_ttl = 999999999
[worker]
poll_s = 3600
reconcile_percent = 0
keep_operations_s = 999999999
keep_export_locations_s = 999999999
[events]
keep_s = 999999999
[nodes]
plugin = rehearsal
[quota]
shares = -1
gigabytes = -1
[database]
connection = {url}
"""
LIVE = "SELECT count(*) FROM operations WHERE state IN ('queued', 'running', 'waiting')"
ALLOW = {"allow_access": {"access_type": "ip", "access_to": "10.9.0.1", "access_level": "rw"}}
# What grows, a line each, and what comes near to it: a plan may be another one the next time, or on another machine.
# Nothing is added; whoever mends something takes its line away (`--write-golden`).
NEAR = 0.8
GROWING = {kind: ROOT / f"tests/golden/growing_{kind}.txt" for kind in MORE}


def _world(directory, url):
    """The API and two people of the large project."""
    people = ((questions.ADMIN, "admin"), (questions.MEMBER, "member"))
    (directory / "users").write_text(
        "".join(f"{who}:{hashed(PASSWORD)}:{population.LARGE}:{role}\n" for who, role in people)
    )
    dummies = "".join(
        f"[{name}]\ndriver = dummy\npool_count = {population.POOLS}\npool_size_gib = 100000000\n"
        for name in population.BACKENDS
    )
    text = CONFIG.format(host=population.HOST, backends=",".join(population.BACKENDS), directory=directory, url=url)
    (directory / "abaca.conf").write_text(text + dummies)
    (directory / "metrics").touch()  # so that this process keeps none
    loaded = settings.read([directory / "abaca.conf"], environ={}).settings
    db = app.ready_database(loaded)
    application = pipeline.make_app(
        loaded, db, doors.every(), compute=app.compute(loaded, db), known_pools=KnownPools()
    )
    secrets = {who: base64.b64encode(f"{who}:{PASSWORD}".encode()).decode() for who, _ in people}
    return World(
        directory, application, db, loaded, passwords={who: f"Basic {secret}" for who, secret in secrets.items()}
    )


class Grown:
    """An installation with so many shares; what it does is counted."""

    def __init__(self, kind, shares, request, stack):
        directory = stack.enter_context(fast_directory())
        made = place(kind, directory, request, is_unused=True)
        stack.callback(made.close)
        population.fill(made.url, shares)
        self.shares = shares
        self._counted = stack.enter_context(Counted(is_sqlite=made.is_sqlite).on())
        self.world = _world(directory, made.url)
        stack.callback(self.world.db.close)
        self.tasks = stack.enter_context(self._working())
        self._leases = Leases("growth", "growth#1", self.world.db, 30.0)

    @contextlib.contextmanager
    def _working(self):
        """A worker in this process, whose periodic tasks are done when they are asked for."""
        worker = app.worker(self.world.settings)
        tasks, worker.periodic_tasks = worker.periodic_tasks, []
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            wait_until(lambda: all(one.is_started for one in worker.queues.values()))
            yield tasks
        finally:
            worker.stop()
            thread.join()
            worker.db.close()

    def cost(self, do):
        """How much the database does for it."""
        return self._counted.cost(self.world.db, do)

    def ask(self, who, path):
        answer = self.world.ask(who, "GET", f"/{path}", **VERSION)
        assert answer.status == 200, (path, answer.body)

    def act(self, method, path, body=None):
        answer = self.world.ask("member", method, f"//v2{path}", body, **VERSION)
        assert answer.status < 300, (method, path, answer.body)
        self._counted.apart(lambda: wait_until(lambda: self.world.number(LIVE) == 0))
        return answer.body

    def live(self):
        """All of a share's life."""
        path = f"/shares/{self.act('POST', '/shares', {'share': {'share_proto': 'NFS', 'size': 1}})['share']['id']}"
        rule = self.act("POST", f"{path}/action", ALLOW)["access"]["id"]
        self.act("POST", f"{path}/action", {"extend": {"new_size": 2}})
        self.act("POST", f"{path}/action", {"deny_access": {"access_id": rule}})
        self.act("DELETE", path)

    def costs(self):
        """By name."""
        for once in (*self.tasks, self.live):  # what is only done once is done
            getattr(once, "do", once)()
        asked = [one for one in questions.every(self.shares) if one.path != "/metrics"]
        found = {one.name: self.cost(lambda one=one: self.ask(one.who, one.path)) for one in asked}
        done = {f"periodic: {task.name}": self.cost(task.do) for task in self.tasks}
        queues = [f"{population.HOST}@{name}" for name in population.BACKENDS]
        done["periodic: leases"] = self.cost(lambda: self._leases.reclaim(queues))
        return found | done | {"a whole life": self.cost(self.live)}


def _grown(found, kind, part=1):
    """What does more among many than it may, or than a part of that, by name."""
    return {
        name: (few, found[MANY][name])
        for name, few in found[FEW].items()
        if found[MANY][name] > part * (TIMES * few + MORE[kind])
    }


@pytest.mark.system
@pytest.mark.parametrize("kind", ["sqlite", on_postgres])
def test_nothing_does_more_where_there_are_more_shares(kind, request, golden):
    found = {}
    for shares in (FEW, MANY):
        with contextlib.ExitStack() as stack:
            found[shares] = Grown(kind, shares, request, stack).costs()
    if request.config.getoption("--write-golden"):
        GROWING[kind].write_text("".join(f"{name}\n" for name in sorted(_grown(found, kind, NEAR))))
        return
    known = set(GROWING[kind].read_text().splitlines())
    assert {name: costs for name, costs in _grown(found, kind).items() if name not in known} == {}
    assert sorted(known - found[MANY].keys()) == []
