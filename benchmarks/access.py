# SPDX-License-Identifier: Apache-2.0
"""How soon a rule that a client posts is in force."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks import clients, reads, usage
from benchmarks.figures import Figure
from benchmarks.stand import Stand

RULES = 200
CLIENTS = 8
LOOK_EVERY_S = 0.002


def run(stand: Stand) -> Iterator[Figure]:
    """One client alone, then several, each rule on a share of its own."""
    shares = reads.ids(stand, RULES)
    alone_s: list[float] = []
    clients.drive(stand.door, [_allow(stand, shares, "10.0.0.1", alone_s)])
    spent = usage.Spent(stand.roots)
    took_s: list[float] = []
    parts = [shares[at::CLIENTS] for at in range(CLIENTS)]
    clients.drive(stand.door, [_allow(stand, part, "10.0.0.2", took_s) for part in parts])
    cpu_s = spent.so_far()
    yield Figure("allow to active: p50, one client", clients.middle(alone_s) * 1000, "ms")
    yield Figure(f"allow to active: p50, {CLIENTS} clients", clients.middle(took_s) * 1000, "ms")
    yield Figure("allow to active: CPU with its polls, all in", sum(cpu_s.values()) / len(took_s) * 1000, "ms")


def _allow(stand: Stand, shares: list[str], client: str, took_s: list[float]) -> clients.Client:
    body = {"allow_access": {"access_type": "ip", "access_level": "rw", "access_to": client}}
    for share in shares:
        begun_s = time.perf_counter()
        answer = yield stand.door.request("POST", f"/v2/shares/{share}/action", body)
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {answer.body[:300]!r}")
        rule = answer.json()["access"]
        look = stand.door.request("GET", f"/v2/share-access-rules/{rule['id']}")
        while rule["state"] not in ("active", "error"):
            yield LOOK_EVERY_S
            rule = (yield look).json()["access"]
        if rule["state"] != "active":
            raise RuntimeError(f"a rule ended in {rule['state']}")
        took_s.append(time.perf_counter() - begun_s)
