# SPDX-License-Identifier: Apache-2.0
"""Pages of lists as data processing has them: they begin behind a marker, and name those of the pages beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from abaca import errors
from abaca.api.data_processing import plugins
from abaca.db.engine.lists import Page
from abaca.http.pipeline import Call

_PAGED = ("limit", "marker", "sort_by")


class HasId(Protocol):
    """A thing of a list."""

    @property
    def id(self) -> str: ...


Thing = TypeVar("Thing", bound=HasId)


class Asked(NamedTuple):
    """What a list is asked for: conditions, and the page; `is_none` where no thing of ours can meet them."""

    conditions: Mapping[str, object]
    page: Page
    is_paged: bool
    is_none: bool


def read(call: Call, filters: Mapping[str, object]) -> Asked:
    """What is asked for, of the caller's project. Raises Invalid."""
    most = call.settings.osapi_max_limit
    said = filters.get("limit")
    limit = most if said is None else min(int(str(said)), most)
    if limit < 1:
        raise errors.Invalid("'limit' must be a whole number, 1 or more.")
    sort_by = str(filters.get("sort_by", "created_at"))
    marker = filters.get("marker")
    page = Page(
        limit=limit,
        marker=None if marker is None else str(marker),
        sort_key=sort_by.removeprefix("-"),
        descending=sort_by.startswith("-"),
    )
    if page.sort_key != "created_at":
        raise errors.Invalid("'sort_by' must be created_at or -created_at.")
    conditions = {name: value for name, value in filters.items() if name == "name"}
    versions = {filters.get("hadoop_version", plugins.VERSION), filters.get("plugin_version", plugins.VERSION)}
    is_none = filters.get("plugin_name", plugins.NAME) != plugins.NAME or versions != {plugins.VERSION}
    is_paged = not filters.keys().isdisjoint(_PAGED)
    return Asked({**conditions, "project_id": call.caller.project_id}, page, is_paged, is_none)


def one(find: Callable[[Page], Sequence[Thing]], asked: Asked) -> tuple[Sequence[Thing], dict[str, object]]:
    """The things of a page, and under `markers` where the pages beside it begin, if any page was asked for."""
    page = asked.page
    if asked.is_none:
        return (), {}
    found = find(page._replace(limit=page.limit + 1))
    following = found[page.limit - 1].id if len(found) > page.limit else None
    if not asked.is_paged and following is None:
        return found, {}
    before = find(page._replace(descending=not page.descending)) if page.marker is not None else ()
    previous = before[-1].id if len(before) == page.limit else None
    return found[: page.limit], {"markers": {"prev": previous, "next": following}}
