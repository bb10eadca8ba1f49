# SPDX-License-Identifier: Apache-2.0
"""What making a share costs, from the POST until it is available, and how soon a single client has it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks import clients, reads, usage
from benchmarks.figures import Figure
from benchmarks.stand import Stand

ROUNDS, SHARES = 5, 400
CLIENTS = 8
ONE_BY_ONE = 100
LOOK_EVERY_S = 0.002
BODY = {"share": {"share_proto": "NFS", "size": 1}}


def run(stand: Stand) -> Iterator[Figure]:
    """Many at once, then one after another."""
    clients.drive(stand.door, [_posts(stand, 40, []) for _ in range(CLIENTS)])
    _wait_until_settled(stand)
    rounds = [_round(stand) for _ in range(ROUNDS)]
    yield Figure("create to available: CPU of Abaca", clients.middle([one.service_ms for one in rounds]), "ms")
    yield Figure("create to available: CPU of the database", clients.middle([one.database_ms for one in rounds]), "ms")
    yield Figure("create to available: CPU, all in", clients.middle([one.all_ms for one in rounds]), "ms")
    yield Figure("create to available: CPU, times a bare GET", clients.middle([one.times for one in rounds]), "x", 12)
    yield Figure("create to available: shares a second", clients.middle([one.per_s for one in rounds]), "1/s")
    yield Figure("create: POSTs a second", clients.middle([one.posts_per_s for one in rounds]), "1/s")
    alone_s: list[float] = []
    clients.drive(stand.door, [_one_by_one(stand, ONE_BY_ONE, alone_s)])
    yield Figure("create to available: p50, one client", clients.middle(alone_s) * 1000, "ms")


class Round(NamedTuple):
    """CPU milliseconds a share, their times a bare GET's before and after, and a second's shares and POSTs."""

    service_ms: float
    database_ms: float
    all_ms: float
    times: float
    per_s: float
    posts_per_s: float


def _round(stand: Stand) -> Round:
    before_ms = reads.bare_get_ms(stand)
    spent = usage.Spent(stand.roots)
    begun_s = time.perf_counter()
    took_s: list[float] = []
    clients.drive(stand.door, [_posts(stand, SHARES // CLIENTS, took_s) for _ in range(CLIENTS)])
    posted_s = time.perf_counter() - begun_s
    _wait_until_settled(stand)
    wall_s, cpu_s = time.perf_counter() - begun_s, spent.so_far()
    made = len(took_s)
    all_ms = sum(cpu_s.values()) / made * 1000
    bare_ms = (before_ms + reads.bare_get_ms(stand)) / 2
    service_ms, database_ms = (cpu_s[name] / made * 1000 for name in ("Abaca", "database"))
    return Round(service_ms, database_ms, all_ms, all_ms / bare_ms, made / wall_s, made / posted_s)


def _posts(stand: Stand, count: int, took_s: list[float]) -> clients.Client:
    raw = stand.door.request("POST", "/v2/shares", BODY)
    for _ in range(count):
        answer = yield raw
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {answer.body[:300]!r}")
        took_s.append(answer.took_s)


def _one_by_one(stand: Stand, count: int, took_s: list[float]) -> clients.Client:
    raw = stand.door.request("POST", "/v2/shares", BODY)
    for _ in range(count):
        begun_s = time.perf_counter()
        share = (yield raw).json()["share"]
        look = stand.door.request("GET", f"/v2/shares/{share['id']}")
        while share["status"] == "creating":
            yield LOOK_EVERY_S
            share = (yield look).json()["share"]
        if share["status"] != "available":
            raise RuntimeError(f"a share ended in {share['status']}")
        took_s.append(time.perf_counter() - begun_s)


def _wait_until_settled(stand: Stand) -> None:
    def settled() -> clients.Client:
        raw = stand.door.request("GET", "/v2/shares?status=creating&limit=1")
        while (yield raw).json()["shares"]:
            yield 0.02

    clients.drive(stand.door, [settled()])
