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


class Cost(NamedTuple):
    """CPU milliseconds a request of the service and of the database, requests a second, and the median milliseconds."""

    service_ms: float
    database_ms: float
    per_s: float
    p50_ms: float

    @property
    def both_ms(self) -> float:
        return self.service_ms + self.database_ms


def cost(stand: Stand, service: int, door: clients.Door, raws: Sequence[bytes], seconds: float) -> Cost:
    """What one of the requests costs, `CLIENTS` clients asking at once."""
    clients.drive(door, _crowd(raws, WARM_S, []))
    spent = usage.Spent({"service": service, "database": stand.postgres.process.pid})
    took_s: list[float] = []
    begun_s = time.perf_counter()
    clients.drive(door, _crowd(raws, seconds, took_s))
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


def bare_cost(stand: Stand, paths: Sequence[str]) -> Cost:
    """What the bare stack takes for the same: the measure of this machine, in this run."""
    raws = [stand.bare_door.request("GET", path) for path in paths]
    return cost(stand, stand.bare.pid, stand.bare_door, raws, 2)


def run(stand: Stand) -> Iterator[Figure]:
    """One share; pages of 50 and of 1,000."""
    stand.populate(1, SHARES)
    some = ids(stand, 200)
    project = f"project={stand.project_id}"
    questions = (
        ("GET one share", [f"/v2/shares/{one}" for one in some], [f"/shares/{one}" for one in some], 1.0),
        ("GET 50 shares", ["/v2/shares/detail?limit=50"], [f"/shares/detail?limit=50&{project}"], 0.8),
        ("GET 1000 shares", ["/v2/shares/detail?limit=1000"], [f"/shares/detail?limit=1000&{project}"], 0.7),
    )
    for name, paths, bare_paths, most_times in questions:
        ours = cost(stand, stand.abaca.pid, stand.door, [stand.door.request("GET", path) for path in paths], 4)
        bare = bare_cost(stand, bare_paths)
        yield Figure(f"{name}: CPU of Abaca", ours.service_ms, "ms")
        yield Figure(f"{name}: CPU of the database", ours.database_ms, "ms")
        yield Figure(f"{name}: CPU of the bare stack", bare.service_ms, "ms")
        yield Figure(f"{name}: CPU of its database", bare.database_ms, "ms")
        yield Figure(f"{name}: times the bare stack", ours.both_ms / bare.both_ms, "x", most_times)
        yield Figure(f"{name}: requests a second", ours.per_s, "1/s")
        yield Figure(f"{name}: p50 of {CLIENTS} clients", ours.p50_ms, "ms")
