# SPDX-License-Identifier: Apache-2.0
"""What is done at each size: starting, periodic work, a share's whole life, and posting shares beside all of it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from abaca import app, settings
from abaca.journal.periodic_tasks import PeriodicTask
from benchmarks import clients, usage
from benchmarks.scale.place import Databases, Place
from benchmarks.scale.questions import MEMBER
from benchmarks.scale.rows import Cost, Row, bound_of
from lab import processes

STARTS = 3
LIVES = 40
IDLE_S = 60.0
RATE = 10
"""Shares posted a second, whether the ones before are answered or not."""
SENDERS = 20
LOOK_EVERY_S = 0.02
TASK_S = 1.0
MOST_TIMES, MOST_TIMES_LONGEST = 2, 3


def measured(places: Mapping[int, Place], databases: Databases, seconds: float) -> Iterator[Row]:
    """Rows of all of it; what is not CPU is printed."""
    yield from _periodic(places, databases)
    waits: dict[int, list[float]] = {}
    work: dict[str, dict[int, Cost]] = {}
    for size, place in places.items():
        work.setdefault("start to the first answer", {})[size] = _start(place)
        program = place.service.process
        work.setdefault("a whole life: create, allow, extend, deny, delete", {})[size] = _lives(place, program)
        work.setdefault("a second of doing nothing", {})[size] = _idle(place, program)
        waits[size] = _posts(place, seconds)
        place.service.stop()
    yield from (Row(name, costs, bound_of(name)) for name, costs in work.items())
    _tell(waits)


# ---------------------------------------------------------------- periodic tasks


def _periodic(places: Mapping[int, Place], databases: Databases) -> Iterator[Row]:
    costs: dict[str, dict[int, Cost]] = {}
    for size, place in places.items():
        with _tasks(place) as tasks:
            for task in tasks:
                costs.setdefault(f"periodic: {task.name}", {})[size] = _task(task, place, databases)
    yield from (Row(name, found, bound_of(name)) for name, found in costs.items())


@contextlib.contextmanager
def _tasks(place: Place) -> Iterator[Sequence[PeriodicTask]]:
    """The periodic tasks of a worker that serves in this process and does nothing by itself."""
    place.service.configure("worker", poll_s=3600)
    worker = app.worker(settings.read([place.service.configuration]).settings)
    place.service.configure("worker", poll_s=None)
    tasks, worker.periodic_tasks = worker.periodic_tasks, []
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        processes.wait_until(lambda: all(one.is_started for one in worker.queues.values()), 60, "the back ends")
        yield tasks
    finally:
        worker.stop()
        thread.join()
        worker.db.close()


def _task(task: PeriodicTask, place: Place, databases: Databases) -> Cost:
    task.do()
    roots = {"database": databases.server.process.pid}
    pages = place.pages()
    spent, own_s, begun_s = usage.Spent(roots), time.thread_time(), time.perf_counter()
    took_s: list[float] = []
    while len(took_s) < 50 and time.perf_counter() - begun_s < TASK_S:
        at_s = time.perf_counter()
        task.do()
        took_s.append(time.perf_counter() - at_s)
    each = 1000 / len(took_s)
    database_ms, own_ms = spent.so_far()["database"] * each, (time.thread_time() - own_s) * each
    return Cost(own_ms, database_ms, clients.middle(took_s) * 1000, (place.pages() - pages) / len(took_s))


# ---------------------------------------------------------------- starting, idling


def _start(place: Place) -> Cost:
    found = []
    for _ in range(STARTS):
        place.service.stop()
        pages, before = place.pages(), place.database_spent()
        place.service.start()
        api_s = usage.cpu_s(place.service.process.pid)
        database_s, pages = before.so_far()["database"], place.pages() - pages
        found.append(Cost(api_s * 1000, database_s * 1000, place.service.started_in_s * 1000, pages))
    return min(found, key=lambda cost: cost.both_ms)


def _idle(place: Place, program: processes.Process) -> Cost:
    processes.wait_until(place.is_quiet, 60, "the end of what was asked for before", program)
    pages, spent, begun_s = place.pages(), place.spent(program), time.perf_counter()
    time.sleep(IDLE_S)
    wall_s, cpu_s = time.perf_counter() - begun_s, spent.so_far()
    api_ms, database_ms = (cpu_s[name] / wall_s * 1000 for name in ("API", "database"))
    return Cost(api_ms, database_ms, 1000, (place.pages() - pages) / wall_s)


# ---------------------------------------------------------------- a whole life


def _lives(place: Place, program: processes.Process) -> Cost:
    door = place.door(MEMBER)
    clients.drive(door, [_life(door, [])])
    pages, spent = place.pages(), place.spent(program)
    took_s: list[float] = []
    for _ in range(LIVES):
        clients.drive(door, [_life(door, took_s)])
    cpu_s = {name: found / LIVES * 1000 for name, found in spent.so_far().items()}
    return Cost(cpu_s["API"], cpu_s["database"], clients.middle(took_s) * 1000, (place.pages() - pages) / LIVES)


def _life(door: clients.Door, took_s: list[float]) -> clients.Client:
    begun_s = time.perf_counter()
    body = {"share": {"share_proto": "NFS", "size": 1, "name": "a life"}}
    path = f"/v2/shares/{(yield door.request('POST', '/v2/shares', body)).json()['share']['id']}"
    yield from _until(door, path, lambda share: share["status"] == "available")
    allow = {"allow_access": {"access_type": "ip", "access_to": "10.9.0.1", "access_level": "rw"}}
    rule = (yield door.request("POST", f"{path}/action", allow)).json()["access"]["id"]
    yield from _until(door, path, lambda share: share["access_rules_status"] == "active")
    yield door.request("POST", f"{path}/action", {"extend": {"new_size": 2}})
    yield from _until(door, path, lambda share: share["status"] == "available" and share["size"] == 2)
    yield door.request("POST", f"{path}/action", {"deny_access": {"access_id": rule}})
    yield from _until(door, path, lambda share: share["access_rules_status"] == "active")
    yield door.request("DELETE", path)
    while (yield door.request("GET", path)).status == 200:
        yield LOOK_EVERY_S
    took_s.append(time.perf_counter() - begun_s)


def _until(door: clients.Door, path: str, is_so: Callable[[dict[str, object]], bool]) -> clients.Client:
    until_s = time.perf_counter() + 30
    while not is_so(share := (yield door.request("GET", path)).json()["share"]):
        if time.perf_counter() > until_s or "error" in share["status"]:
            raise RuntimeError(f"{path} is {share['status']}, its rules {share['access_rules_status']}")
        yield LOOK_EVERY_S


# ---------------------------------------------------------------- posting beside all of it


def _posts(place: Place, seconds: float) -> list[float]:
    """How many seconds each of the shares waited that were posted at a fixed rate, from when it was its turn."""
    door, waited_s = place.door(MEMBER), []
    raw = door.request("POST", "/v2/shares", {"share": {"share_proto": "NFS", "size": 1}})
    begun_s = time.perf_counter() + 0.1

    def sender(first: int) -> clients.Client:
        for number in range(first, int(seconds * RATE), SENDERS):
            turn_s = begun_s + number / RATE
            if (pause_s := turn_s - time.perf_counter()) > 0:
                yield pause_s
            answer = yield raw
            if answer.status != 200:
                raise RuntimeError(f"{answer.status}: {answer.body[:300]!r}")
            waited_s.append(time.perf_counter() - turn_s)

    clients.drive(door, [sender(first) for first in range(SENDERS)])
    return waited_s


def _tell(waits: Mapping[int, Sequence[float]]) -> None:
    few = sorted(waits[min(waits)])
    for size, waited_s in waits.items():
        found = sorted(waited_s)
        middle, late, longest = (1000 * found[int(part * (len(found) - 1))] for part in (0.5, 0.99, 1))
        times, longer = late / 1000 / few[int(0.99 * (len(few) - 1))], longest / 1000 / few[-1]
        missed = " MISSED" if times > MOST_TIMES or longer > MOST_TIMES_LONGEST else ""
        said = f"p50 {middle:.1f}, p99 {late:.1f} ({times:.1f} x), longest {longest:.0f} ms ({longer:.1f} x)"
        print(f"{len(found)} shares posted at {RATE} a second beside {size:,}: {said}{missed}")
