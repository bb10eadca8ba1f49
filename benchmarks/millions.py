# SPDX-License-Identifier: Apache-2.0
"""Whether a page of 50 costs the same in a project of a million shares as in one of a thousand."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import reads
from benchmarks.figures import Figure
from benchmarks.stand import Stand

SHARES = 1_000_000
PAGES = (
    ("first page", "limit=50", 1.2),
    ("page at offset 10,000", "limit=50&offset=10000", None),
    ("page at offset 900,000", "limit=50&offset=900000", None),
)


def run(stand: Stand) -> Iterator[Figure]:
    """The first page, then deep ones."""
    few = _cost(stand, "limit=50", 3)
    stand.populate(reads.SHARES + 1, SHARES)
    yield Figure("page of 50 among 1,000 shares: CPU, all in", few.both_ms, "ms")
    for name, query, most in PAGES:
        many = _cost(stand, query, 3)
        yield Figure(f"{name} among 1,000,000 shares: CPU, all in", many.both_ms, "ms")
        yield Figure(f"{name}: times its cost among 1,000", many.both_ms / few.both_ms, "x", most)
    marker = reads.ids(stand, 1000)[-1]
    after = _cost(stand, f"limit=50&offset=1000&marker={marker}", 2)
    yield Figure("page after a marker: times the first page among 1,000", after.both_ms / few.both_ms, "x")


def _cost(stand: Stand, query: str, seconds: float) -> reads.Cost:
    raw = stand.door.request("GET", f"/v2/shares/detail?{query}")
    return reads.cost(stand, reads.Question(stand.abaca.pid, stand.door, [raw]), seconds)
