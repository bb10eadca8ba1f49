# SPDX-License-Identifier: Apache-2.0
"""What looking costs: one share, and pages of shares, beside the bare stack's answers to the same questions."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks import clients, usage
from benchmarks.figures import Figure
from benchmarks.stand import Stand

SHARES = 1000
CLIENTS = 8
WARM_S = 1.0
ROUNDS, ROUND_S = 7, 0.8


class Cost(NamedTuple):
    """CPU milliseconds a request of the service and of the database, requests a second, and the median milliseconds."""

    service_ms: float
    database_ms: float
    per_s: float
    p50_ms: float

    @property
    def both_ms(self) -> float:
        return self.service_ms + self.database_ms


class Question(NamedTuple):
    """What is asked over and over, and the process whose tree answers it."""

    pid: int
    door: clients.Door
    raws: Sequence[bytes]


def in_turn(stand: Stand, questions: Sequence[Question]) -> list[list[Cost]]:
    """What a request of each costs in each of `ROUNDS` rounds, `CLIENTS` clients asking at once.

    A machine's clock and what else runs on it change within seconds: only neighbours in time compare.
    """
    for question in questions:
        cost(stand, question, WARM_S)
    return [[cost(stand, question, ROUND_S) for question in questions] for _ in range(ROUNDS)]


def cost(stand: Stand, question: Question, seconds: float) -> Cost:
    """What one of its requests costs, `CLIENTS` clients asking at once for so many seconds."""
    spent = usage.Spent({"service": question.pid, "database": stand.postgres.process.pid})
    took_s: list[float] = []
    begun_s = time.perf_counter()
    clients.drive(question.door, _crowd(question.raws, seconds, took_s))
    wall_s, cpu_s = time.perf_counter() - begun_s, spent.so_far()
    each = 1000 / len(took_s)
    return Cost(cpu_s["service"] * each, cpu_s["database"] * each, len(took_s) / wall_s, clients.middle(took_s) * 1000)


def _crowd(raws: Sequence[bytes], seconds: float, took_s: list[float]) -> list[clients.Client]:
    until_s = time.perf_counter() + seconds
    turned = [raws[at * len(raws) // CLIENTS :] + raws[: at * len(raws) // CLIENTS] for at in range(CLIENTS)]
    return [clients.repeated(mine, until_s, took_s) for mine in turned]


def ids(stand: Stand, most: int) -> list[str]:
    """Shares of the project, the newest first."""
    return [share["id"] for share in stand.door.ask("GET", f"/v2/shares?limit={most}").json()["shares"]]


def bare(stand: Stand, paths: Sequence[str]) -> Question:
    """The same of the bare stack: the measure of this machine, in this run."""
    return Question(stand.bare.pid, stand.bare_door, [stand.bare_door.request("GET", path) for path in paths])


def bare_get_ms(stand: Stand) -> float:
    """CPU milliseconds of a bare GET of one share, the database's included, in one round of now."""
    return cost(stand, bare(stand, [f"/shares/{one}" for one in ids(stand, 200)]), ROUND_S).both_ms


def run(stand: Stand) -> Iterator[Figure]:
    """One share; pages of 50 and of 1,000."""
    stand.populate(1, SHARES)
    some = ids(stand, 200)
    project = f"project={stand.project_id}"
    asked = (
        ("GET one share", [f"/v2/shares/{one}" for one in some], [f"/shares/{one}" for one in some], 1.0),
        ("GET 50 shares", ["/v2/shares/detail?limit=50"], [f"/shares/detail?limit=50&{project}"], 0.8),
        ("GET 1000 shares", ["/v2/shares/detail?limit=1000"], [f"/shares/detail?limit=1000&{project}"], 0.7),
    )
    for name, paths, bare_paths, most_times in asked:
        question = Question(stand.abaca.pid, stand.door, [stand.door.request("GET", path) for path in paths])
        rounds = in_turn(stand, [question, bare(stand, bare_paths)])
        mine, others = (Cost(*map(clients.middle, zip(*costs, strict=True))) for costs in zip(*rounds, strict=True))
        yield Figure(f"{name}: CPU of Abaca", mine.service_ms, "ms")
        yield Figure(f"{name}: CPU of the database", mine.database_ms, "ms")
        yield Figure(f"{name}: CPU of the bare stack", others.service_ms, "ms")
        yield Figure(f"{name}: CPU of its database", others.database_ms, "ms")
        times = clients.middle([ours.both_ms / beside.both_ms for ours, beside in rounds])
        yield Figure(f"{name}: times the bare stack", times, "x", most_times)
        yield Figure(f"{name}: requests a second", mine.per_s, "1/s")
        yield Figure(f"{name}: p50 of {CLIENTS} clients", mine.p50_ms, "ms")
