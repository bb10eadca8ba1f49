# SPDX-License-Identifier: Apache-2.0
"""What was measured at each size, what is missed, and how it is shown."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from benchmarks.figures import shown

MOST_TIMES = 1.3
"""How much dearer something may be at the largest size than at the smallest."""
LEAST_MS = 0.05
"""What is less is lost in what the machine does besides."""
LEAST_PAGES = 10
"""What the depth of a few indexes adds."""


@dataclasses.dataclass(frozen=True)
class Cost:
    """CPU milliseconds of Abaca and of the database, the middle milliseconds of wall, and pages read, for one call."""

    api_ms: float
    database_ms: float
    wall_ms: float
    pages: float

    @property
    def both_ms(self) -> float:
        return self.api_ms + self.database_ms

    def __str__(self) -> str:
        return "/".join(map(shown, (self.api_ms, self.database_ms, self.wall_ms, self.pages)))


@dataclasses.dataclass(frozen=True)
class Row:
    """What one thing costs by the number of shares. `bound` says why it may grow, and how far."""

    name: str
    costs: Mapping[int, Cost]
    bound: str | None = None

    def at_least(self, costs: Mapping[int, Cost]) -> Row:
        """The same with what was found anew, where that is less: what the machine does besides only adds."""
        least = {
            size: min(self.costs.get(size, cost), cost, key=lambda one: one.both_ms) for size, cost in costs.items()
        }
        return dataclasses.replace(self, costs=least)

    @property
    def times(self) -> float:
        return self._few_and_many(lambda cost: cost.both_ms, 0.001)[2]

    @property
    def has_grown(self) -> bool:
        """Whether it takes more CPU and reads more: the one is noisy, the other grows with the depth of indexes."""
        few_ms, many_ms, times = self._few_and_many(lambda cost: cost.both_ms, 0.001)
        few_pages, many_pages, more_read = self._few_and_many(lambda cost: cost.pages, 1)
        is_dearer = many_ms - few_ms > LEAST_MS and times > MOST_TIMES
        return is_dearer and many_pages - few_pages > LEAST_PAGES and more_read > MOST_TIMES

    def _few_and_many(self, of: Callable[[Cost], float], least: float) -> tuple[float, float, float]:
        few, many = (max(least, of(self.costs[size])) for size in (min(self.costs), max(self.costs)))
        return few, many, many / few

    @property
    def missed(self) -> bool:
        return self.has_grown and self.bound is None

    def cells(self) -> list[str]:
        said = "MISSED" if self.missed else (f"inherent: {self.bound}" if self.has_grown and self.bound else "")
        return [self.name, *(str(self.costs[size]) for size in sorted(self.costs)), f"{self.times:.2f}", said]

    def __str__(self) -> str:
        name, *costs, times, said = self.cells()
        return f"{name:<64} {' '.join(f'{cost:>18}' for cost in costs)} {times:>7} {said}".rstrip()


# What may grow, by a pattern of its name, and how far.
_SORTED = "a sort of all that is seen by a column without an index"
_BY = {
    r"shares: \w+": "availability_zone share_type_id share_network_id snapshot_id",
    "shares: project": "status host",
    "snapshots: project": "status",
    r"locks: \w+": "updated_at lock_reason",
}
_FEW_NETWORKS = "name~?|description~?|network_type|segmentation_id|cidr|ip_version"
INHERENT: tuple[tuple[str, str], ...] = (
    ("offset in the middle", "whoever skips rows has them read; markers do not"),
    (", counted", "the number is exact, so all are counted"),
    *((rf"^{name}, by ({'|'.join(columns.split())}) ", _SORTED) for name, columns in _BY.items()),
    ("^snapshots: project, (after|.*all match)", "among 1,000 shares the project has 50: at most one page"),
    ("^snapshots: .*, (size|usage) ", "few look for them by this: those that are seen are looked through"),
    (
        "^(clusters|nodes of one cluster|share networks|security services|share servers): .*, after a marker",
        "among 1,000 shares there is less than a page behind it",
    ),
    (r"^shares: .*, description \(all match\)", "a fiftieth have it: among 1,000 shares less than a page"),
    (
        "^share transfers: ",
        "among 1,000 shares 16 are offered: less than a page; by name all offers are looked through",
    ),
    (rf"^share networks: .*, ({_FEW_NETWORKS}) ", "a site has some thousands of them: they are looked through"),
    ("^security services: .*, (type|name|user|server|dns_ip|domain|ou|default_ad_site) ", "the same of these"),
    ("^locks: .*, lock_reason~? ", "a text too long for an index: the locks that are seen are read"),
    ("^periodic: counts of nothing", "it looks at 200 counts at most, and among 1,000 shares there are fewer"),
    ("^servers as Nova lists them", "at 1,000 shares each server of the page has one attachment to show, else ten"),
)


def bound_of(name: str) -> str | None:
    return next((why for part, why in INHERENT if re.search(part, name)), None)


def table(rows: Iterable[Row], sizes: Sequence[int]) -> str:
    """As Markdown."""
    heads = ["call", *(f"{size:,}" for size in sorted(sizes)), "times", ""]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row.cells())} |" for row in rows)])


def summary(rows: Sequence[Row]) -> str:
    """How many there are, and what is missed."""
    missed = [row.name for row in rows if row.missed]
    inherent = sum(row.has_grown and not row.missed for row in rows)
    said = f"{len(rows)} calls: {len(rows) - len(missed) - inherent} within {MOST_TIMES}, {inherent} inherent, "
    return "\n".join([f"{said}{len(missed)} MISSED", *(f"  {name}" for name in missed)])
