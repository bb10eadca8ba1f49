# SPDX-License-Identifier: Apache-2.0
"""Attaching a share to servers through the API, with the clock running."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks import usage
from lab import caller

LOOK_EVERY_S = 0.02
_DOOR = "//abaca/v1/attachments"
_LIMIT_S = 300.0


class Took(NamedTuple):
    """Seconds from the request until the last is mounted, and CPU seconds of all that worked on it, by name."""

    wall_s: float
    cpu_s: dict[str, float]


def attached(user: caller.Caller, servers: Sequence[str], roots: dict[str, int]) -> Took:
    """A new share attached to all in one request, looked at until all are active, then detached and deleted."""
    share_id = user.post("/shares", "share", share_proto="NFS", size=1)["id"]
    user.wait(f"/shares/{share_id}", "available")
    spent, begun_s = usage.Spent(roots), time.perf_counter()
    wish = {"attachment": {"share_id": share_id, "server_ids": list(servers)}}
    made = user.call("POST", _DOOR, wish).body
    if made["refused"]:
        raise RuntimeError(f"not attached: {made['refused']}")

    def states() -> list[str]:
        found = user.get(f"{_DOOR}?share_id={share_id}&limit=1000")
        failed = [one["error"] for one in found if one["state"] == "error"]
        if failed:
            raise RuntimeError(f"attached with an error: {failed}")
        return [one["state"] for one in found]

    until(lambda: states() == ["active"] * len(servers), begun_s)
    took = Took(time.perf_counter() - begun_s, spent.so_far())
    for one in made["attachments"]:
        user.call("DELETE", f"{_DOOR}/{one['id']}")
    until(lambda: states() == [], time.perf_counter())
    user.call("DELETE", f"/shares/{share_id}")
    return took


def until(ready: Callable[[], bool], begun_s: float) -> None:
    while not ready():
        if time.perf_counter() - begun_s > _LIMIT_S:
            raise RuntimeError(f"not all of them within {_LIMIT_S:g} s")
        time.sleep(LOOK_EVERY_S)
