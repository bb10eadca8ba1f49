# SPDX-License-Identifier: Apache-2.0
"""Every page that lists offer (offers.py), asked for on a database of very many rows, and what the database did for it.

PostgreSQL says for each statement how it went, with the pages that it read (auto_explain); SQLite counts its steps.
"""

import contextlib
import itertools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from abaca.db.engine import limits
from abaca.db.engine.lists import Page
from tests.db.large import GROWING
from tests.db.offers import NOTHING, Offer
from tests.db.watched import explain
from tests.db.words import LARGE

# Rows of a page, and how much may be done for each: pages that PostgreSQL reads, steps of SQLite.
LIMIT, BUFFERS_EACH, STEPS_EACH = 10, 60, 2000
# Rows that may be sorted for each of the page.
SORTED_EACH = 5
# Of two filters, of so few rows, it is as cheap to sort what one leads to as to go by the order: so many times as much.
CROSSED = 2
# Of what has no way of its own: how much may be done for each share of the database.
BUFFERS_A_ROW, STEPS_A_ROW = 8, 200


class Wanted(NamedTuple):
    """A page of a list: who asks, by which filter and how many meet it, in which order, and which page it is."""

    who: str
    filter: str | None
    kind: str
    sort: str
    asked: dict[str, Any]
    part: str
    descending: bool = True

    def __str__(self) -> str:
        direction = "" if self.descending else " ascending"
        return f"{self.who}: {self.filter or 'no filter'} {self.kind}, by {self.sort}{direction}, {self.part}"


class Taken(limits.Turns):
    """Turns, and how many were taken."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def one(self) -> contextlib.AbstractContextManager[None]:
        self.number += 1
        return super().one()


class Done(NamedTuple):
    """What a database did for a page: how much, and what it should not have."""

    number: int
    wrong: list[str]


def of(offer: Offer) -> Iterator[Wanted]:
    """Every page of a list: each order without filter, and each filter by the usual order and by one other."""
    asking = {"administrator": {}}
    if offer.of_project is not None:
        asking["member"] = {offer.of_project: LARGE}
    sorts = sorted(offer.listing.sorts)
    for who, own in asking.items():
        same = {**offer.always, **offer.of_one, **own}
        for sort in sorts:
            yield Wanted(who, None, "all", sort, same, "first")
            yield Wanted(who, None, "all", sort, same, "first", descending=False)
            yield Wanted(who, None, "all", sort, same, "next")
        for at, (name, values) in enumerate(offer.values.items()):
            if name in own or name in offer.of_one:
                continue
            for kind, value in values._asdict().items():
                if value is not NOTHING:
                    asked = {**same, name: value}
                    yield Wanted(who, name, kind, offer.sort, asked, "first")
                    yield Wanted(who, name, kind, offer.sort, asked, "next")
                    yield Wanted(who, name, kind, sorts[at % len(sorts)], asked, "first")


def crossed(offer: Offer) -> Iterator[Wanted]:
    """Each filter in each order, and each two filters in the usual one; who asks is a member, if members may."""
    own = {} if offer.of_project is None else {offer.of_project: LARGE}
    who, same = "member" if own else "administrator", {**offer.always, **offer.of_one, **own}
    values = {
        name: {kind: value for kind, value in found._asdict().items() if value is not NOTHING}
        for name, found in offer.values.items()
        if name not in own and name not in offer.of_one
    }
    for name, found in values.items():
        for (kind, value), sort in itertools.product(found.items(), sorted(offer.listing.sorts)):
            yield Wanted(who, name, kind, sort, {**same, name: value}, "first")
    for one, other in itertools.combinations(values, 2):
        for kinds in itertools.product(values[one], values[other]):
            asked = {**same, one: values[one][kinds[0]], other: values[other][kinds[1]]}
            yield Wanted(who, f"{one} and {other}", " and ".join(kinds), offer.sort, asked, "first")


def pages(tx: Any, offer: Offer) -> Iterator[tuple[Wanted, Page]]:
    """The same, each with its page; those that there are not are left out."""
    for wanted in of(offer):
        first = Page(LIMIT, sort_key=wanted.sort, descending=wanted.descending)
        if wanted.part == "first":
            yield wanted, first
            continue
        rows = offer.listing.rows(tx, ("id",), wanted.asked, first)
        if len(rows) == LIMIT:
            yield wanted, first._replace(marker=rows[-1].id, offset=LIMIT)


class OnPostgresql:
    """A connection whose statements are explained; `times` as much as for a page of one filter is no harm."""

    def __init__(self, tx: Any, times: int = 1) -> None:
        self._told: list[str] = []
        self._times = times
        explain(tx.connection.connection.dbapi_connection, self._told.append)

    @contextlib.contextmanager
    def looking(self) -> Iterator[Any]:
        """`done()` says what was done in the block."""
        self._told.clear()
        yield self._done

    def _done(self) -> Done:
        plans = [json.loads(said[said.index("{") :])["Plan"] for said in self._told if " plan:\n" in said]
        buffers = sum(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in plans)
        wrong = [why for plan in plans for node in _nodes(plan) for why in _wrong(node, self._times)]
        return Done(buffers, [f"{buffers} pages", *wrong] if buffers > self._times * LIMIT * BUFFERS_EACH else wrong)

    def most(self, shares: int) -> int:
        """Of what has no way of its own."""
        return shares * BUFFERS_A_ROW


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for one in node.get("Plans", ()):
        yield from _nodes(one)


def _wrong(node: dict[str, Any], times: int) -> Iterator[str]:
    kind = node["Node Type"]
    if kind == "Seq Scan" and node["Relation Name"] in GROWING:
        yield f"reads all {node['Relation Name']}"
    if "Sort" in kind:
        sorted_rows = node["Plans"][0]["Actual Rows"] * node["Plans"][0]["Actual Loops"]
        if sorted_rows > times * SORTED_EACH * LIMIT:
            yield f"sorts {sorted_rows}"
    if kind.startswith("Gather"):
        yield "takes several processes"


class OnSqlite:
    """A connection whose steps are counted."""

    def __init__(self, tx: Any) -> None:
        self._connection = tx.connection.connection.dbapi_connection

    @contextlib.contextmanager
    def looking(self) -> Iterator[Any]:
        """`done()` says what was done in the block."""
        steps = [0]

        def count() -> int:
            steps[0] += 100
            return 0

        self._connection.set_progress_handler(count, 100)
        yield lambda: Done(steps[0], [f"{steps[0]} steps"] if steps[0] > LIMIT * STEPS_EACH else [])
        self._connection.set_progress_handler(None, 0)

    def most(self, shares: int) -> int:
        """Of what has no way of its own."""
        return shares * STEPS_A_ROW
