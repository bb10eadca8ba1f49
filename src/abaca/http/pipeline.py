# SPDX-License-Identifier: Apache-2.0
"""The way of a request through the API: `STEPS`, in that order, each a function of the call.

`make_app` gives the WSGI application. A step that returns True has answered; an error raised anywhere becomes a fault.
"""

from __future__ import annotations

import concurrent.futures
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import falcon
import msgspec

from abaca import errors, logs
from abaca.db.engine.database import Database
from abaca.db.engine.lists import Page
from abaca.domain import ids
from abaca.domain.callers import Caller
from abaca.http import auth, bodies, doors, faults, health, paging, reading, routing, waiting, wire
from abaca.policy import ADMIN_ONLY, Decides, Rule
from abaca.settings import Settings

Application = falcon.App[Any, Any]
_ENCODER = msgspec.json.Encoder()
MOST_PATH, MOST_QUERY, MOST_PARAMETERS = 2048, 16384, 128  # of an address, in characters as they are sent
_REQUEST_ID = re.compile(r"req-[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


@dataclass(frozen=True)
class Parts:
    """What all requests share. `extras` is what the composition root hands to handlers beyond that."""

    settings: Settings
    db: Database
    doors: tuple[doors.Door, ...]
    policy: Decides
    strategy: auth.Strategy
    project_id: re.Pattern[str]
    extras: Mapping[str, Any]


class Call:
    """One request, as its handler sees it."""

    def __init__(self, parts: Parts, request: falcon.Request, response: falcon.Response) -> None:
        self.parts = parts
        self.request = request
        self.response = response
        self.request_id = ""
        self.path: str = request.path
        self.project_in_url: str | None = None
        self.version = 0
        self.experimental = False
        self.query: Mapping[str, str] = {}
        self.door: doors.Door
        self.caller: Caller
        self.route: routing.Route
        self.plan: routing.Plan
        self.arguments: dict[str, Any]
        self.page: Page
        self.status = 200
        self.notes: dict[str, Any] = {}  # what a handler leaves for the computed fields of its view
        self._sent: Any = None
        self._asked: routing.Entry
        self._answer: Any = None
        self._steps = STEPS

    @property
    def db(self) -> Database:
        """The database."""
        return self.parts.db

    @property
    def settings(self) -> Settings:
        """The settings."""
        return self.parts.settings

    @property
    def most_bytes(self) -> int:
        """The size that the request's body may have, in bytes."""
        return self.settings.oslo_middleware.max_request_body_size

    @property
    def columns(self) -> tuple[str, ...]:
        """What the route's view needs of a row at this version for this caller; return rows in this order."""
        return self.plan.columns

    @functools.cached_property
    def root(self) -> str:
        """The address of the service, without a path."""
        configured = self.settings.osapi_share_base_url
        if configured:
            return configured.rstrip("/")
        request = self.request
        if self.settings.oslo_middleware.enable_proxy_headers_parsing:
            return f"{request.forwarded_scheme}://{request.forwarded_host}"
        return f"{request.scheme}://{request.netloc}"

    @functools.cached_property
    def base(self) -> str:
        """Where links start: the address of the API, with the project when the request's own path had it."""
        return f"{self.root}{self.door.prefix}{self._project_part}"

    @functools.cached_property
    def _project_part(self) -> str:
        return f"/{self.project_in_url}" if self.project_in_url else ""

    @functools.cached_property
    def _bookmark_base(self) -> str:
        return self.root + self.door.prefix.rpartition("/")[0] + self._project_part

    def links(self, collection: str, thing_id: str) -> list[wire.Link]:
        """The two links that a thing carries."""
        path = f"/{collection}/{thing_id}"
        return [_LINK("self", self.base + path), _LINK("bookmark", self._bookmark_base + path)]

    def has(self, feature: wire.Feature) -> bool:
        """Whether the asked version behaves so already."""
        return self.version >= wire.minor(feature.since)

    def allows(self, rule: Rule, *, project_id: str | None = None, user_id: str | None = None) -> bool:
        """Whether the caller may do this to a thing of that project and user; by default the caller's own."""
        return self.parts.policy.allows(rule.name, self.caller, project_id=project_id, user_id=user_id)

    def require(self, rule: Rule, *, project_id: str | None = None, user_id: str | None = None) -> None:
        """Raises Forbidden unless the caller may."""
        if not self.allows(rule, project_id=project_id, user_id=user_id):
            raise errors.Forbidden(f"Your roles do not allow {rule.name}.")

    def count(self, count: Callable[[int | None], int]) -> paging.Count | None:
        """What `count(most)` says of all there are, where that is asked for. Raises Invalid."""
        view = self.route.view
        counted = view.counted if isinstance(view, wire.Many) and view.is_counted(self.version) else None
        return None if counted is None else paging.count(self.query, count, counted.most)

    def shape(self, view: type[wire.View]) -> wire.Shape:
        """A view that stands inside the route's own: its columns and `show(call, row)` for this version and caller."""
        return wire.shape(view, self.version, is_admin=self.caller.is_admin)

    def visible(self, project_id: str, what: str, thing_id: str) -> None:
        """Raises NotFound when the thing's project is one in which the caller may not use this route."""
        if project_id != self.caller.project_id and not self.allows(self.route.policy, project_id=project_id):
            raise errors.NotFound(resource=what, id=thing_id)

    def project_filter(self, all_projects: Rule) -> dict[str, str]:
        """The condition on `project_id` for a list: none when all are asked for and allowed, else the caller's."""
        said = self.query.get("all_tenants", self.query.get("all_projects"))
        if said is not None and self.door.one_error_form:
            said = str(bodies.flag("all_projects", said))
        wanted = said is not None and said.lower() not in paging.FALSE
        return {} if wanted and self.allows(all_projects) else {"project_id": self.caller.project_id}


Step = Callable[[Call], bool | None]
_LINK = wire.Link  # looked up twice for each row of a list


def name_request(call: Call) -> None:
    """Every answer carries an id under which the logs speak of it."""
    call.request_id = f"req-{ids.random_id()}"
    call.response.set_header("x-openstack-request-id", call.request_id)
    logs.begin(request_id=call.request_id)


def find_door(call: Call) -> bool:
    """The list of versions needs no token, and what is behind no door is not here for anybody."""
    path = call.path
    for door in call.parts.doors:
        is_here = door.holds(path)
        if is_here:
            call.door = door
            door.greet(call.response)
        if path in door.public and call.request.method == "GET":
            if is_here:
                door.negotiate(call.request, call.response)
            return _finish(call, "200 OK", door.public[path](call.root))
        if is_here:
            return False
    if path == "/":
        return _finish(call, "300 Multiple Choices", call.parts.doors[0].document(call.root))
    raise faults.NoSuchRoute(faults.NoSuchRoute.__doc__)


def refuse_odd_addresses(call: Call) -> None:
    """No handler and no database ever sees control characters, or an address without end."""
    request = call.request
    if len(call.path) > MOST_PATH:
        raise errors.Invalid(f"The path of the address is longer than {MOST_PATH} characters.")
    if not call.path.isprintable() and reading.CONTROL_OR_BREAK.search(call.path):
        raise errors.Invalid("The address must not hold control characters.")
    if request.query_string:
        if len(request.query_string) > MOST_QUERY:
            raise errors.Invalid(f"The query of the address is longer than {MOST_QUERY} characters.")
        if request.query_string.count("&") >= MOST_PARAMETERS:
            raise errors.Invalid(f"The query of the address has more than {MOST_PARAMETERS} parameters.")
        call.query = {key: value[-1] if isinstance(value, list) else value for key, value in request.params.items()}
        if "%" in request.query_string and any(
            reading.CONTROL.search(text) for pair in call.query.items() for text in pair
        ):
            raise errors.Invalid("The query must not hold control characters.")


def authenticate(call: Call) -> None:
    """From here on it is known who asks."""
    environ = call.request.env
    parts = call.parts
    who = parts.strategy.identify(environ)
    said = environ.get("HTTP_X_OPENSTACK_REQUEST_ID")
    call.caller = Caller(
        who.user_id,
        who.project_id,
        who.roles,
        parts.policy.is_admin(who),
        call.request_id,
        said if said and _REQUEST_ID.fullmatch(said) else None,
        who.system_scope,
        who.has_file_service,
    )


def find_route(call: Call) -> bool:
    """Strip the prefix and the project from the path and look up the rest."""
    door = call.door
    rest = call.path[len(door.prefix) :].removesuffix(".json")
    if rest in ("", "/"):
        return _announce(call, rest)
    if door.names_projects:
        first, slash, following = rest[1:].partition("/")
        if first not in door.table.collections and slash and call.parts.project_id.fullmatch(first):
            call.project_in_url = first
            rest = "/" + following
    # An empty segment would be a thing without an id.
    found = None if "//" in rest or rest.endswith("/") else door.table.find(rest)
    if found is None or not (call.request.method in found[0].methods or _is_action(call, found[0])):
        _refuse_path(call, rest, found[0] if found else None)
    call.path = rest
    call._asked, call.arguments = found
    return False


def negotiate_version(call: Call) -> None:
    """Which version is asked for, and that it was understood."""
    call.version, call.experimental = call.door.negotiate(call.request, call.response)


def check_project(call: Call) -> None:
    """The project in the path, if any, is the caller's."""
    if call.project_in_url is not None and call.project_in_url != call.caller.project_id:
        raise errors.Invalid("The address names another project than the one that you are known in.")


def choose_route(call: Call) -> None:
    """Among the routes of the path, the one for the method or the action, at this version."""
    entry = call._asked
    if call.request.method == "POST" and entry.actions:
        action, call._sent = reading.action(call.request, call.most_bytes)
        among = entry.actions.get(action)
        if among is None:
            raise call.door.no_action(action)
    else:
        among = entry.methods[call.request.method]
    for route in among:
        if route.serves(call.version, experimental=call.experimental):
            call.route = route
            call.request.env[health.ROUTE] = call.door.prefix + route.path
            call.status = route.status
            call.plan = routing.plan(route, call.version, call.caller.is_admin)
            return
    raise faults.NoSuchMethod(faults.NoSuchMethod.__doc__)


def authorize(call: Call) -> None:
    """The route's policy, asked for the caller's own project; handlers ask again for things of others."""
    if not call.parts.policy.allows(call.route.policy.name, call.caller):
        raise errors.Forbidden
    if not call.caller.project_id:
        _check_without_project(call)


def _check_without_project(call: Call) -> None:
    """A token of the whole system is for administrators, who can make nothing that belongs to a project."""
    if not call.caller.is_admin:
        raise errors.Forbidden("Only administrators are known here without a project.")
    route = call.route
    if route.method == "POST" and "{" not in route.path and route.policy.check != ADMIN_ONLY:
        raise errors.Invalid("What this makes belongs to a project: come with a token of one.")


def parse(call: Call) -> None:
    """Filters, page and body, as the asked version knows them."""
    route, arguments = call.route, call.arguments
    is_admin = call.caller.is_admin
    if isinstance(route.view, wire.Many):
        call.page = paging.read(call.query, call.settings.osapi_max_limit)
    if route.filters is not None:
        arguments["filters"] = bodies.read_filters(route.filters, call.version, call.query, is_admin=is_admin)
    if route.body is None:
        return
    sent = call._sent if route.action else reading.entity(call.request, call.most_bytes, route.body)
    arguments["body"] = bodies.read_body(route.body, call.version, sent, is_admin=is_admin)


def handle(call: Call) -> None:
    """The resource's own code."""
    call._answer = call.route.handler(call, **call.arguments)


def await_answer(call: Call) -> None:
    """What the handler had to ask for."""
    later = call._answer
    if not isinstance(later, waiting.Later):
        return
    if not later.future.done():
        if waiting.KEY in call.request.env:
            raise waiting.NotHereYet(later)
        concurrent.futures.wait([later.future], later.within_s)
        if not later.future.done() and later.future.cancel():
            raise later.too_late()
    call._answer = later.show(later.future.result())


def render(call: Call) -> None:
    """What the handler returned, in the shape of the asked version."""
    route, result, response = call.route, call._answer, call.response
    response.status = falcon.code_to_http_status(call.status)
    view = route.view
    if view is None:
        return
    if isinstance(view, wire.Plain):
        shown = call.plan.show(call, result)
        body = shown if view.key is None else {view.key: shown}
    elif isinstance(view, wire.One):
        if result is None:
            raise errors.NotFound("What the request is about has just been deleted.")
        body = dict.fromkeys(view.keys, call.plan.show(call, result))
    else:
        body = _render_list(call, view, result)
    response.data = _ENCODER.encode(body)


STEPS: tuple[Step, ...] = (
    name_request,
    refuse_odd_addresses,
    find_door,
    authenticate,
    find_route,
    negotiate_version,
    check_project,
    choose_route,
    authorize,
    parse,
    handle,
    await_answer,
    render,
)


def make_policy(settings: Settings, all_doors: Sequence[doors.Door]) -> Decides:
    """The rules of all routes, as the operator has changed them. Raises ConfigError for files that cannot be used."""
    from abaca.policy.decisions import Policy  # oslo.policy takes longer to load than all of the API

    dirs = [settings.policy_file.parent / name for name in settings.oslo_policy.policy_dirs]
    return Policy([rule for door in all_doors for rule in door.table.rules], settings.policy_file, dirs)


def make_parts(
    settings: Settings,
    db: Database,
    all_doors: Sequence[doors.Door],
    *,
    strategy: auth.Strategy | None = None,
    policy: Decides | None = None,
    **extras: Any,
) -> Parts:
    """What the requests to these doors share; without `strategy` and `policy` the configured ones. Handlers find
    `extras` in `call.parts.extras`. Raises ConfigError for settings that cannot work.
    """
    policy = policy or make_policy(settings, all_doors)
    project_id = re.compile(settings.project_id_regex)
    return Parts(settings, db, tuple(all_doors), policy, strategy or auth.strategy(settings), project_id, extras)


def make_app(settings: Settings, db: Database, all_doors: Sequence[doors.Door], **others: Any) -> Application:
    """The application with the parts that `make_parts` makes of the same."""
    return application(make_parts(settings, db, all_doors, **others))


def application(parts: Parts) -> Application:
    """The WSGI application that serves what is behind the doors; the document of the first stands at `/` as well."""

    def serve(req: falcon.Request, resp: falcon.Response, **_: Any) -> None:
        resp.content_type = reading.JSON
        waits: waiting.Waits | None = req.env.get(waiting.KEY)
        begun = waits.call if waits is not None else None
        _go(_resumed(begun, req, resp) if isinstance(begun, Call) else Call(parts, req, resp))

    app: Application = falcon.App()
    app.add_sink(serve, re.compile(""))  # "*" is an address, too
    return app


def _go(call: Call) -> None:
    try:
        for step in call._steps:
            if step(call):
                return
    except waiting.NotHereYet as not_yet:
        waits: waiting.Waits = call.request.env[waiting.KEY]
        waits.wanted, waits.call = not_yet.wanted, call
        call._steps = STEPS[STEPS.index(step) :]
    except Exception as error:  # noqa: BLE001 (the one place that turns errors into answers)
        _fail(call, error)


def _resumed(call: Call, request: falcon.Request, response: falcon.Response) -> Call:
    """The call of a request that has waited, which goes on with the step that it could not do."""
    response.set_headers(call.response.headers)
    call.request, call.response = request, response
    logs.begin(request_id=call.request_id)
    waits: waiting.Waits = request.env[waiting.KEY]
    if waits.error is not None:
        call._steps = (_give_up,)
    return call


def _give_up(call: Call) -> bool:
    """What the request waited for has not come."""
    waits: waiting.Waits = call.request.env[waiting.KEY]
    raise waits.error or errors.Unavailable(part="What the request waits for")


def refusal(parts: Parts, path: str, error: BaseException, request_id: str) -> faults.Fault:
    """The answer for an error, in the form of the door behind which the path is."""
    form = next((door.form for door in parts.doors if door.holds(path)), None)
    if form is not None:
        return form(error, request_id, parts.strategy.challenge)
    if isinstance(error, errors.Unauthorized):
        return faults.unauthorized(error.message, parts.strategy.challenge)
    return faults.fault(error, request_id)


def _fail(call: Call, error: Exception) -> None:
    fault = refusal(call.parts, call.request.path, error, call.request_id)
    call.response.status = falcon.code_to_http_status(fault.status)
    call.response.data = fault.body
    call.response.set_headers(dict(fault.headers))


def _finish(call: Call, status: str, body: Any) -> bool:
    call.response.status = status
    if isinstance(body, doors.Page):
        call.response.content_type = body.media_type
        call.response.set_headers(dict(body.headers))
        call.response.data = body.content
    else:
        call.response.data = _ENCODER.encode(body)
    return True


def _announce(call: Call, rest: str) -> bool:
    """The door itself: clients that leave the last slash out are sent to where it is."""
    if not rest:
        call.response.set_header("location", f"{call.root}{call.door.prefix}/")
        return _finish(call, "302 Found", call.door.document(call.root))
    call.door.negotiate(call.request, call.response)
    return _finish(call, "200 OK", call.door.document(call.root))


def _refuse_path(call: Call, path: str, entry: routing.Entry | None) -> NoReturn:
    unserved = call.door.unserved(path)
    if unserved is not None:
        raise errors.NotFound(unserved)
    if entry is None or not call.door.one_error_form:
        raise faults.NoSuchRoute(faults.NoSuchRoute.__doc__)
    known = sorted(entry.methods.keys() | ({"POST"} if entry.actions else set()))
    call.response.set_header("allow", ", ".join(known))
    raise errors.NotAllowed(f"{call.request.method[:16]} is not what this address takes: {' or '.join(known)}.")


def _is_action(call: Call, entry: routing.Entry) -> bool:
    return bool(entry.actions) and call.request.method == "POST"


def _render_list(call: Call, view: wire.Many, result: Any) -> dict[str, Any]:
    listed = result if isinstance(result, paging.Listed) else paging.Listed(result)
    shown = call.plan.show(call, listed.rows)
    body: dict[str, Any] = dict.fromkeys(view.keys, shown)
    body |= {} if listed.count is None else listed.count.said()
    url = f"{call.base}{call.path}"
    if listed.next_marker is not None and view.links:
        body[view.links] = paging.link_after(url, call.query, listed.next_marker)
    elif view.links and shown and "limit" in call.query and len(shown) == call.page.limit and not listed.is_marked:
        body[view.links] = paging.next_link(url, call.query, call.page, shown[-1].id)
    return body
