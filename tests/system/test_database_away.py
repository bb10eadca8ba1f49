# SPDX-License-Identifier: Apache-2.0
"""An API and a worker on PostgreSQL, and PostgreSQL goes away for ten seconds while shares are being made."""

import concurrent.futures
import http.client
import json
import threading
import time

import pytest

from lab import caller, postgres
from tests.conftest import wait_until
from tests.system.world import World


@pytest.fixture(scope="module")
def database(run):
    return postgres.Postgres(run).start()


@pytest.fixture(scope="module")
def world(run, database):
    sections = {
        "database": {"connection": database.create_database("abaca")},
        "quota": {"shares": -1, "gigabytes": -1},
        "DEFAULT": {"report_interval": 1},
    }
    world = World(run, sections)
    world.abaca.upgrade_database()
    world.abaca.spawn("worker")
    world.abaca.spawn("api")
    wait_until(world.abaca.is_healthy)
    return world.ready()


class Asking(threading.Thread):
    """Somebody who asks for a share after the other, each with a name of its own, until told to stop."""

    def __init__(self, world, name):
        super().__init__(name=name)
        self.world = world
        self.accepted = {}
        self.statuses = {}
        self.is_over = threading.Event()
        self.start()

    def run(self):
        number = 0
        while not self.is_over.is_set():
            number += 1
            name = f"{self.name}-{number}"
            try:
                self.accepted[name] = self.world.post_share(name=name)
            except caller.Refused as refused:
                self.statuses[name] = refused.status
                if self.is_over.wait(0.2):
                    return

    def stop(self):
        self.is_over.set()
        self.join()


def answer(world):
    """Status and Retry-After of a plain request, and how long it took."""
    connection = http.client.HTTPConnection("127.0.0.1", world.abaca.port, timeout=20)
    begun = time.monotonic()
    connection.request("GET", "/v2/shares")
    response = connection.getresponse()
    fault = json.loads(response.read())
    connection.close()
    return response.status, response.headers.get("retry-after"), fault, time.monotonic() - begun


@pytest.mark.parametrize(("mode", "times"), [("fast", 50), ("immediate", 10)], ids=["stopped", "cut"])
def test_what_was_accepted_is_finished_and_nothing_is_doubled_or_lost(world, database, mode, times, figure):
    asking = [Asking(world, f"{mode}{number}") for number in range(3)]
    wait_until(lambda: all(len(one.accepted) >= 3 for one in asking))
    database.stop(mode)
    refused, longest_s = 0, 0.0

    def is_refused():
        nonlocal refused, longest_s
        status, retry_after, fault, took_s = answer(world)
        longest_s = max(longest_s, took_s)
        assert (status, retry_after) == (503, "5")
        assert "database does not answer" in fault["serviceUnavailable"]["message"]
        refused += 1
        return refused >= times

    wait_until(is_refused, every_s=0.2)
    database.start()
    begun = time.monotonic()
    wait_until(world.abaca.is_healthy)
    wait_until(lambda: answer(world)[0] == 200)
    for one in asking:
        one.stop()
    assert {status for one in asking for status in one.statuses.values()} == {503}
    accepted = {name: share_id for one in asking for name, share_id in one.accepted.items()}
    known = {row["name"]: row["id"] for row in world.user.get("/shares?limit=1000")}
    assert len(known) == len(world.user.get("/shares?limit=1000"))
    assert accepted.items() <= known.items()
    # a commit whose answer got lost: at most what each of them was asking for when the database went
    assert len(known) - len(accepted) <= len(asking)
    assert {world.settled(share_id, 120)["status"] for share_id in known.values()} == {"available"}
    figure("from the database's return to the last of its shares", time.monotonic() - begun, "s")
    figure("longest wait for an answer while it was away", longest_s, "s")
    wait_until(world.is_idle, every_s=0.5)
    world.compare()
    assert world.used() == (len(known), len(known))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(world.post_delete, known.values()))
    wait_until(lambda: world.user.get("/shares") == [], 120, 0.2)
    world.compare()
    assert world.used() == (0, 0)
