# SPDX-License-Identifier: Apache-2.0
"""One page of a list: limit, offset, order, and the link to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from abaca import errors
from abaca.db.engine.lists import Page

# What any list may be told beside its filters.
NAMES = ("limit", "offset", "marker", "sort_key", "sort_dir", "with_count", "all_tenants", "all_projects")
TRUE = ("1", "true", "t", "yes", "y", "on")
FALSE = ("0", "false", "f", "no", "n", "off")
_MOST = 2**63 - 1
# No list has so many rows. Clients that end with an empty page ask for one behind them, and nothing is read for it.
_BEYOND = 10**15


@dataclass(frozen=True)
class Count:
    """How many there are without paging; with `most` that many where there are more, which is said."""

    number: int
    most: int | None = None

    def said(self) -> dict[str, object]:
        """As the answer says it."""
        if self.most is None:
            return {"count": self.number}
        return {"count": min(self.number, self.most), "count_is_limited": self.number > self.most}


@dataclass(frozen=True)
class Listed:
    """Rows, and how many there are without paging (None: not asked for).

    A list that `is_marked` goes on by marker alone; `next_marker` is where, None at its end.
    """

    rows: Sequence[Any]
    count: Count | None = None
    is_marked: bool = False
    next_marker: str | None = None


def read(query: Mapping[str, str], max_limit: int) -> Page:
    """The page that is asked for. Raises Invalid."""
    sort_dir = query.get("sort_dir", "desc")
    if sort_dir not in ("asc", "desc"):
        raise errors.Invalid("'sort_dir' must be asc or desc.")
    limit, offset = _number(query, "limit"), _number(query, "offset") or 0
    marker = query.get("marker")
    if offset > _BEYOND and marker is None:
        limit, offset = 0, 0
    return Page(
        limit=min(limit, max_limit) if limit is not None else max_limit,
        offset=offset,
        marker=marker,
        sort_key=query.get("sort_key", "created_at"),
        descending=sort_dir == "desc",
    )


def count(query: Mapping[str, str], of: Callable[[int | None], int], most: int | None) -> Count | None:
    """What `of(most)` says where `with_count` is on; it need not look at more than one beyond. Raises Invalid."""
    said = query.get("with_count", "false").lower()
    if said not in (*TRUE, *FALSE):
        raise errors.Invalid("'with_count' must be a boolean.")
    return Count(of(most), most) if said in TRUE else None


def next_link(url: str, query: Mapping[str, str], page: Page, last_id: str) -> list[dict[str, str]]:
    """The link to the next page: `marker` for lists that know it, and the offset for the others."""
    following = {**query, "offset": str(page.offset + page.limit), "marker": last_id}
    return [{"rel": "next", "href": f"{url}?{urlencode(following)}"}]


def link_after(url: str, query: Mapping[str, str], marker: str) -> list[dict[str, str]]:
    """The link to the page after a marker."""
    return [{"rel": "next", "href": f"{url}?{urlencode({**query, 'marker': marker})}"}]


def _number(query: Mapping[str, str], name: str) -> int | None:
    said = query.get(name)
    if said is None or said == "":
        return None
    if not said.isascii() or not said.isdigit() or len(said) > 19 or int(said) > _MOST:
        raise errors.Invalid(f"'{name}' must be a whole number from 0 to {_MOST}.")
    return int(said)
