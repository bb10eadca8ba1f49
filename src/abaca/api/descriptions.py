# SPDX-License-Identifier: Apache-2.0
"""The API described: an OpenAPI document for each version of each door, their index, and a page that shows them.

Nobody need be known to read them. GET /abaca/v1/openapi lists them all, /docs shows them; `python -m abaca.api 2.99`
writes one of shared file systems without a service.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from abaca.api.own_door import INDEX
from abaca.http import openapi, routing
from abaca.http.doors import Page

OWN = openapi.Described("Abaca's own API", "/abaca/v1", None, "1", ("It has one version.",), (openapi.ERROR,))
# Each is some hundred kilobytes, and a twentieth of that as it is kept; which is less than there can be.
REMEMBERED = 256
# The page is all that a browser may load, and it asks nobody but the door.
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
}
_FILES = {
    "/docs": ("docs.html", "text/html; charset=utf-8"),
    "/docs/": ("docs.html", "text/html; charset=utf-8"),
    "/docs/docs.js": ("docs.js", "text/javascript; charset=utf-8"),
    "/docs/docs.css": ("docs.css", "text/css; charset=utf-8"),
}


class Series(NamedTuple):
    """The documents of one door: what stands before a version in their addresses, and the last version's number."""

    table: routing.Table
    of: openapi.Described
    path: str
    first: int
    last: int


def public(every: Iterable[Series]) -> Mapping[str, Callable[[str], object]]:
    """What is served to everybody, by its path."""
    series = tuple(every)
    found: dict[str, Callable[[str], object]] = {INDEX: functools.partial(_index, series)}
    for one in series:
        for version in range(one.first, one.last + 1):
            found[_path(one, version)] = functools.partial(_page, one, version)
    for path, (name, media_type) in _FILES.items():
        content = (Path(__file__).parent / "pages" / name).read_bytes()
        page = Page(content, media_type, _HEADERS)
        found[path] = functools.partial(_same, page)
    return found


def _path(series: Series, version: int) -> str:
    return f"{series.path}{series.of.number(version)}.json" if series.of.header is not None else f"{series.path}.json"


def _index(every: tuple[Series, ...], base: str) -> dict[str, object]:
    """Which documents there are, the newest version of each door first."""
    return {
        "documents": [
            {
                "title": series.of.title,
                "url": f"{base}{series.of.url}",
                "documents": [
                    {"version": series.of.number(version), "href": f"{base}{_path(series, version)}"}
                    for version in range(series.last, series.first - 1, -1)
                ],
            }
            for series in every
        ]
    }


def _page(series: Series, version: int, _base: str) -> Page:
    return Page(zlib.decompress(_packed(series, version)))


def _same(page: Page, _base: str) -> Page:
    return page


@functools.lru_cache(REMEMBERED)
def _packed(series: Series, version: int) -> bytes:
    return zlib.compress(msgspec.json.encode(openapi.document(series.table, version, series.of)))
