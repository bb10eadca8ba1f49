# SPDX-License-Identifier: Apache-2.0
"""How commands ask the API: a service by HTTP, or beside its database one inside of the command's own process.

Both are the same routes, so a command says the same and may do the same wherever it is given.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from abaca import errors

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

Answer = Mapping[str, Any]

OWN = "/abaca/v1"
PAGE = 500
# Where a name or the beginning of an id means several things, so many of them are told.
MOST_MEANT = 5
AN_ID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_PART_OF_AN_ID = re.compile(r"[0-9a-f-]{4,35}")


class Said(NamedTuple):
    """What a request was answered."""

    status: int
    body: bytes


class Carrier(Protocol):
    """Takes a request to an API: `path` with its query, and a body of JSON or nothing. Raises `Unavailable`."""

    def __call__(self, method: str, path: str, body: bytes) -> Said: ...


class Client:
    """The routes of one API. `sees_all` says whether lists are of all projects."""

    def __init__(self, carry: Carrier, *, sees_all: bool) -> None:
        self._carry = carry
        self.sees_all = sees_all

    def get(self, path: str, **query: object) -> Answer:
        """What a route answers. `path` begins with a door, or is one of our own. Raises AbacaError."""
        return self._ask("GET", path, query)

    def post(self, path: str, body: object = None, **query: object) -> Answer:
        """The same by POST, with a body of JSON."""
        return self._ask("POST", path, query, body)

    def patch(self, path: str, body: object) -> Answer:
        """The same by PATCH."""
        return self._ask("PATCH", path, {}, body)

    def put(self, path: str, body: object) -> Answer:
        """The same by PUT."""
        return self._ask("PUT", path, {}, body)

    def delete(self, path: str, **query: object) -> Answer:
        """The same by DELETE."""
        return self._ask("DELETE", path, query)

    def each(self, path: str, limit: int | None = None, **query: object) -> Iterator[Answer]:
        """The things of a list, page after page, at most `limit`; each page is asked for when it is needed."""
        left = limit
        follows: dict[str, object] = {}
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            page = {**query, **follows, "limit": size, "all_projects": self.sees_all or None}
            answer = self.get(path, **page)
            links = next((value for name, value in answer.items() if name.endswith("_links")), None)
            found = next(value for name, value in answer.items() if value is not links and isinstance(value, list))
            yield from found
            if not links or not found:
                return
            # where the marker has gone meanwhile, the offset counts
            asked = dict(parse_qsl(urlsplit(links[0]["href"]).query))
            follows = {name: asked[name] for name in ("marker", "offset") if name in asked}
            left = None if left is None else left - len(found)

    def id_of(self, path: str, what: str, said: str, *, named: bool = True, project_id: str | None = None) -> str:
        """The id of the one thing of a list that is meant: by its id, its beginning, or its name if things are `named`.

        A whole id is taken as it is. Raises `NotFound`, and `Conflict` where several are meant.
        """
        if AN_ID.fullmatch(said):
            return said
        meanings = [{"name": said}] if named else []
        if _PART_OF_AN_ID.fullmatch(said):
            meanings.append({"id_prefix": said})
        for asked in meanings:
            ids = [str(one["id"]) for one in self.each(path, MOST_MEANT, **asked, project_id=project_id)]
            if len(ids) == 1:
                return ids[0]
            if ids:
                raise errors.Conflict(f"{what} {said} could be any of {', '.join(ids)}; say which one by its id.")
        raise errors.NotFound(resource=what, id=said)

    def _ask(self, method: str, path: str, query: Mapping[str, object], body: object = None) -> Answer:
        where = path if path.startswith(("/v2/", "/compute/", OWN)) else OWN + path
        asked = urlencode({name: _worded(value) for name, value in query.items() if value is not None})
        said = self._carry(method, f"{where}?{asked}" if asked else where, b"" if body is None else _JSON.encode(body))
        if said.status >= 400:
            raise _refused(said)
        found: Answer = msgspec.json.decode(said.body) if said.body else {}
        return found


class InProcess:
    """Carries requests to a WSGI application (PEP 3333) by calling it."""

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, method: str, path: str, body: bytes) -> Said:
        from urllib.parse import unquote
        from wsgiref.util import setup_testing_defaults

        place, _, query = path.partition("?")
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "PATH_INFO": unquote(place, "latin-1"),
            "QUERY_STRING": query,
            "CONTENT_TYPE": "application/json" if body else "",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
            "HTTP_HOST": "localhost",
        }
        setup_testing_defaults(environ)
        statuses = []

        def start(status: str, *_: object) -> Any:
            statuses.append(int(status[:3]))

        content = b"".join(self._app(environ, start))
        return Said(statuses[-1], content)


_JSON = msgspec.json.Encoder()


def _worded(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _refused(said: Said) -> errors.AbacaError:
    """The error that the API answered, in its own words."""
    try:
        body = msgspec.json.decode(said.body)
    except ValueError:
        body = None
    whole = body if isinstance(body, dict) else {}
    inner = next((value for value in whole.values() if isinstance(value, dict)), whole)
    error = errors.AbacaError(str(inner.get("message") or f"The API answered {said.status}."))
    error.status = said.status
    return error
