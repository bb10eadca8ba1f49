# SPDX-License-Identifier: Apache-2.0
"""Routes as data: each resource declares its own, one table holds them all.

The table is what serves requests, and what the surface test, the OpenAPI documents and the reference pages read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack

from falcon.routing import CompiledRouter

from abaca.http import bodies, wire
from abaca.policy import Rule

Handler = TypeVar("Handler", bound=Callable[..., Any])


class Options(TypedDict, total=False):
    """What a route says beside its path. `policy` is required: a route without one cannot be declared."""

    policy: Rule
    view: wire.Answer | None
    body: type[bodies.Body] | None
    filters: type[bodies.Filters] | None
    since: str
    until: str
    # versions at which the experimental header is needed; no end: still experimental
    experimental: tuple[str, str | None]
    status: int
    # the whole path (of an action: its name) up to and including a version
    formerly: tuple[str, str]
    # actions only: the path, where it is not /{id}/action
    at: str


@dataclass(frozen=True, eq=False)
class Route:
    """One line of the table."""

    resource: str
    method: str
    path: str
    handler: Callable[..., Any]
    policy: Rule
    status: int
    since: int = 0
    until: int = wire.NEVER
    experimental: tuple[int, int] | None = None
    action: str | None = None
    view: wire.Answer | None = None
    body: type[bodies.Body] | None = None
    filters: type[bodies.Filters] | None = None

    def serves(self, version: int, *, experimental: bool) -> bool:
        """Whether it exists for a request of this version."""
        if not self.since <= version <= self.until:
            return False
        if self.experimental is None or experimental:
            return True
        first, last = self.experimental
        return not first <= version <= last

    @property
    def changes(self) -> set[int]:
        """The versions at which it comes, goes, or looks different."""
        found = {self.since, self.until + 1}
        if self.experimental is not None:
            found |= {self.experimental[0], self.experimental[1] + 1}
        for view in wire.declared_in(self.view.kind) if self.view is not None else ():
            found.update(wire.changes_of(view))
        if isinstance(self.view, wire.Many) and self.view.counted:
            found.add(wire.minor(self.view.counted.since))
        for sent in (self.body, self.filters):
            found.update(wire.changes_of(sent) if sent else ())
        return {version for version in found if version < wire.NEVER}

    @property
    def name(self) -> str:
        """Method, path and action: unique at any one version."""
        return f"{self.method} {self.path}" + (f" {self.action}" if self.action else "")


class Resource:
    """The routes of one collection. `rules` are permissions that its handlers ask for beyond those of the routes.

    `formerly` names the collection's path up to and including a version. `since` and `experimental` hold for all routes
    that do not say otherwise.
    """

    def __init__(self, name: str, path: str, *, rules: Sequence[Rule] = (), **defaults: Unpack[Options]) -> None:
        self.name = name
        self.path = path
        self.rules = tuple(rules)
        self._formerly = defaults.pop("formerly", None)
        self._defaults = defaults
        self._routes: list[Route] = []

    @property
    def routes(self) -> tuple[Route, ...]:
        """Its lines, in the order of the file."""
        return tuple(self._routes)

    def get(self, path: str = "", **options: Unpack[Options]) -> Callable[[Handler], Handler]:
        """Declare what answers GET on `path` below the collection."""
        return self._declare("GET", path, options)

    def post(self, path: str = "", **options: Unpack[Options]) -> Callable[[Handler], Handler]:
        """The same for POST."""
        return self._declare("POST", path, options)

    def patch(self, path: str = "", **options: Unpack[Options]) -> Callable[[Handler], Handler]:
        """The same for PATCH."""
        return self._declare("PATCH", path, options)

    def put(self, path: str = "", **options: Unpack[Options]) -> Callable[[Handler], Handler]:
        """The same for PUT."""
        return self._declare("PUT", path, options)

    def delete(self, path: str = "", **options: Unpack[Options]) -> Callable[[Handler], Handler]:
        """The same for DELETE."""
        return self._declare("DELETE", path, options)

    def action(self, name: str, **options: Unpack[Options]) -> Callable[[Handler], Handler]:
        """Declare what `{name: body}` does when it is posted to a thing's /action."""
        return self._declare("POST", options.pop("at", "/{id}/action"), options, action=name)

    def _declare(
        self, method: str, path: str, options: Options, action: str | None = None
    ) -> Callable[[Handler], Handler]:
        said: Options = {**self._defaults, **options}
        rule = said["policy"]
        first, last = said.get("experimental", (None, None))

        def declare(handler: Handler) -> Handler:
            route = Route(
                self.name,
                method,
                self.path + path,
                handler,
                rule,
                said.get("status", 200),
                wire.minor(said.get("since", "2.0")),
                wire.minor(said["until"]) if "until" in said else wire.NEVER,
                (wire.minor(first), wire.minor(last) if last else wire.NEVER) if first else None,
                action,
                said.get("view"),
                said.get("body"),
                said.get("filters"),
            )
            self._routes.extend(self._with_former(route, path, said.get("formerly")))
            return handler

        return declare

    def _with_former(self, route: Route, path: str, formerly: tuple[str, str] | None) -> Iterator[Route]:
        """The route, and the one that it replaced: by its own former name, or by the collection's."""
        if formerly is None and self._formerly is None:
            yield route
            return
        name, until = formerly or self._formerly or ("", "")
        last = wire.minor(until)
        if route.since <= last:
            if formerly and route.action:
                yield replace(route, action=name, until=last)
            else:
                yield replace(route, path=name if formerly else name + path, until=last)
        if route.until > last:
            yield replace(route, since=max(route.since, last + 1))


class Entry:
    """All routes of one path template."""

    def __init__(self) -> None:
        self.methods: dict[str, list[Route]] = {}
        self.actions: dict[str, list[Route]] = {}


class Plan(NamedTuple):
    """A route made ready for one version and one kind of caller."""

    columns: tuple[str, ...]
    show: Callable[..., Any]


class Table:
    """Every route of a door."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        """Raises ValueError when two routes overlap or disagree about a path."""
        self.resources = tuple(resources)
        self.routes = tuple(route for resource in self.resources for route in resource.routes)
        self.collections = frozenset(route.path.split("/")[1] for route in self.routes)
        self.rules = tuple(
            {rule: None for res in self.resources for rule in (*res.rules, *(r.policy for r in res.routes))}
        )
        self._router = CompiledRouter()
        entries: dict[str, Entry] = {}
        for route in self.routes:
            entry = entries.get(route.path)
            if entry is None:
                entry = entries[route.path] = Entry()
                self._router.add_route(route.path, entry)
            among = (
                entry.actions.setdefault(route.action, [])
                if route.action
                else entry.methods.setdefault(route.method, [])
            )
            for other in among:
                if route.since <= other.until and other.since <= route.until:
                    raise ValueError(f"{route.name} is declared twice for version 2.{max(route.since, other.since)}")
            among.append(route)

    def find(self, path: str) -> tuple[Entry, dict[str, str]] | None:
        """The routes of a path, with what stands at its placeholders."""
        found: Any = self._router.find(path)
        return (found[0], found[2]) if found else None


@wire.once
def plan(route: Route, version: int, is_admin: bool) -> Plan:  # noqa: FBT001 (a cache key)
    """What the route's answer needs and how it is shown: of a list all rows at once."""
    answer = route.view
    if answer is None or isinstance(answer, wire.Plain):
        show = wire.showing(answer.type, version, is_admin=is_admin) if answer is not None else None
        return Plan((), show or (lambda _call, result: result))
    shape = wire.shape(answer.view, version, is_admin=is_admin)
    if isinstance(answer, wire.Many):
        return Plan(shape.columns, shape.show_all)
    return Plan(shape.columns, wire.showing(answer.view, version, is_admin=is_admin) or shape.show)
