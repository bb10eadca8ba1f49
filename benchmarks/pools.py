# SPDX-License-Identifier: Apache-2.0
"""What a POST of a share costs the API among a thousand storage pools, beside its cost with one."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import clients, usage
from benchmarks.figures import Figure
from benchmarks.stand import HOST, Stand
from lab import caller, processes, service

MANY = 1000
SHARES, WARM = 300, 20
ROUNDS = 3
DAY_S = 86400
BODY = {"share": {"share_proto": "NFS", "size": 1}}


def run(stand: Stand) -> Iterator[Figure]:
    """The API alone, on SQLite: nobody makes the shares meanwhile."""
    costs_ms = {count: _cost_ms(stand, count) for count in (1, MANY)}
    for count, cost_ms in costs_ms.items():
        yield Figure(f"POST of a share, {count:,} pools: CPU of the API", cost_ms, "ms")
    yield Figure(f"POST of a share, {MANY:,} pools: times one pool", costs_ms[MANY] / costs_ms[1], "x", 1.5)


def _cost_ms(stand: Stand, count: int) -> float:
    sections: dict[str, dict[str, object]] = {
        "DEFAULT": {
            "host": "bench",
            "enabled_share_backends": "dummy",
            "default_share_type": "default",
            # the worker has told of its pools, and is stopped
            "service_down_time": DAY_S,
        },
        "quota": {"shares": -1, "gigabytes": -1},
        "dummy": {"driver": "dummy", "pool_count": count, "pool_size_gib": 100_000},
    }
    made = service.Service(stand.run, sections, directory=stand.run.path(f"pools-{count}"))
    user = caller.Caller(made.url, {})
    made.start()
    caller.ensure_type(user)
    caller.wait_for_pools(user)
    made.stop()
    api = made.spawn("api")
    processes.wait_until(made.is_healthy, 60, "the API", api)
    door = clients.Door(HOST, made.port, "X-OpenStack-Manila-API-Version: 2.86\r\n")
    clients.drive(door, [_posts(door, WARM)])
    found_ms = []
    for _ in range(ROUNDS):
        spent = usage.Spent({"API": api.pid})
        clients.drive(door, [_posts(door, SHARES)])
        found_ms.append(spent.so_far()["API"] / SHARES * 1000)
    made.stop()
    return min(found_ms)


def _posts(door: clients.Door, count: int) -> clients.Client:
    raw = door.request("POST", "/v2/shares", BODY)
    for _ in range(count):
        answer = yield raw
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {answer.body[:300]!r}")
