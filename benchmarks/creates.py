# SPDX-License-Identifier: Apache-2.0
"""What making a share costs, from the POST until it is available, and how soon a single client has it."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks import clients, reads, usage
from benchmarks.figures import Figure
from benchmarks.stand import Stand

SHARES = 1500
CLIENTS = 8
ONE_BY_ONE = 100
LOOK_EVERY_S = 0.002
BODY = {"share": {"share_proto": "NFS", "size": 1}}


def run(stand: Stand) -> Iterator[Figure]:
    """Many at once, then one after another."""
    clients.drive(stand.door, [_posts(stand, 40, []) for _ in range(CLIENTS)])
    _wait_until_settled(stand)
    spent = usage.Spent(stand.roots)
    begun_s = time.perf_counter()
    took_s: list[float] = []
    clients.drive(stand.door, [_posts(stand, SHARES // CLIENTS, took_s) for _ in range(CLIENTS)])
    posted_s = time.perf_counter() - begun_s
    _wait_until_settled(stand)
    wall_s, cpu_s = time.perf_counter() - begun_s, spent.so_far()
    made = len(took_s)
    yield Figure("create to available: CPU of Abaca", cpu_s["Abaca"] / made * 1000, "ms")
    yield Figure("create to available: CPU of the database", cpu_s["database"] / made * 1000, "ms")
    all_ms = sum(cpu_s.values()) / made * 1000
    yield Figure("create to available: CPU, all in", all_ms, "ms")
    bare = reads.bare_cost(stand, [f"/shares/{one}" for one in reads.ids(stand, 200)])
    yield Figure("create to available: CPU, times a bare GET", all_ms / bare.both_ms, "x", 12)
    yield Figure("create to available: shares a second", made / wall_s, "1/s")
    yield Figure("create: POSTs a second", made / posted_s, "1/s")
    alone_s: list[float] = []
    clients.drive(stand.door, [_one_by_one(stand, ONE_BY_ONE, alone_s)])
    yield Figure("create to available: p50, one client", clients.middle(alone_s) * 1000, "ms")


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
