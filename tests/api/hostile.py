# SPDX-License-Identifier: Apache-2.0
"""Requests of somebody who means harm, made up from the tables of routes: each is a number's, so each can be repeated.

A case is a route of any door at any version, or no route at all; in its path, query, headers and body some things are
as they should be and others are what a stranger would try. `judge` says what is wrong with an answer.
"""

import functools
import json
import random
from typing import Any, NamedTuple
from urllib.parse import quote

from abaca.api import versions
from abaca.api.compute import versions as compute_versions
from abaca.api.data_processing import versions as data_versions
from abaca.http import bodies, openapi
from tests.api import seeds
from tests.api.test_surface import ALL, COMPUTE, DATA, OWN, data_path, sample
from tests.api.world import PROJECT, call

HUGE = 10**30
TEXTS = (
    "", " ", "x", "null", "\U0001f4be" * 64, "a" * 255, "b" * 256, "c" * 1023, "d" * 4000, "e" * 70_000, "%", "_",
    "\\", "'", '"', "'; DROP TABLE shares; --", "' OR '1'='1", "$(reboot)", "`id`", "../../etc/passwd", "/mnt/x", "/",
    "<script>alert(1)</script>", "%s%n{0.__class__}", "${jndi:ldap://x}", "\u202etxt", "Z\u0336\u0361",
    "a\r\nset-cookie: b", "\t\n", "-1", "0", "1e3", "0x10", "NaN", "True", "10.0.0.1", "10.0.0.0/8", "0.0.0.0/0",
    "::1", "2001:db8::/32", "::ffff:1.2.3.4", "fe80::1%eth0", "999.1.1.1", "NFS", "rw", "ip", "available", "error",
    "default", "testhost@alpha", "testhost@alpha#alpha", "a@b#c@d#e", "2026-08-21T09:00:00",
    "9999-12-31T23:59:59-14:00", "{'a': 'b'}", "{'a': {'b': 'c'}}", "[1, 2]", "{'__affinity_same_host': 'x'}",
    "((a?){100}){100}b", "(a+)+$", "[", "(?i)x", "file:/etc/passwd",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 1.5, 2**31, 2**63, -(2**63), HUGE, -HUGE, 1e308, [], {}, [[]], [None], [1], ["x"],
    [{}], {"a": None}, {"a": "b"}, {"": ""}, {"a": {"b": ["c"]}}, {"k" * 300: "v"}, {"k": "v" * 2000},
    {"ip": "10.0.0.1"}, [{"ip": "10.0.0.1"}], [{"ip": None}], ["10.0.0.1", 5], {"__affinity_same_host": "x"},
    {str(number): "v" for number in range(300)},
)  # fmt: skip
METHODS = (
    "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "M" * 300,
)  # fmt: skip
RAW = (
    b"", b" ", b"{", b"[]", b"null", b"1", b"true", b'"x"', b"{}", b'{"a": 1}{"b": 2}', b'{"a": NaN}',
    b'{"a": "\xff"}', b'{"a": "\\ud800"}', b'{"a": "\\u0000"}', b"\x00", b"[" * 500,
    b"[" * 600 + b'"\\u0001"' + b"]" * 600, b'{"a":' * 400 + b"1" + b"}" * 400, b"[" * 90_000, b"1" * 5000,
    b'{"a": 1, "a": 2}', b"<x/>", b"a=b&c=d", b" " * 114_689, b"\xef\xbb\xbf{}",
)  # fmt: skip
PATHS = (
    "/", "//", "/v1/", "/v2", "/v2/", "/v3/", "/v2//", "/v2/shares/", "/v2/../etc/passwd", "/v2/%2e%2e/x",
    "/v2/shares/%00", "/v2/shares/%ff", "/v2/shares/" + "x" * 5000, "/abaca", "/abaca/v1", "/abaca/v1/",
    "/abaca/v1/nosuch", "/abaca/v1/openapi/", "/abaca/v1/openapi/2.99.json", "/abaca/v1/openapi/2.1000.json",
    "/abaca/v1/openapi.json", "/docs", "/docs/", "/docs/../x", "/docs/page.js", "/compute", "/compute/",
    "/compute/v2.1", "/compute/v2.1/", "/compute/v2", "/compute/v2.1/servers/detail/", "/healthcheck", "/metrics",
    "/favicon.ico", "/%", "/v2/" + PROJECT + "/shares", "/v2/" + "b2" * 16 + "/shares", "/v2/nosuch/shares",
    "/v2/shares.json", "/v2/shares.json.json", "*", "/v2;x/shares",
)  # fmt: skip
QUERIES = (
    "limit", "offset", "marker", "sort_key", "sort_dir", "with_count", "all_tenants", "all_projects", "force",
    "nosuch", "limit[]", "", "metadata", "extra_specs", "share_group_id", "fields", "is_public",
)  # fmt: skip
NUMBERS = ("0", "1", "-1", "1.5", "x", "", str(HUGE), "999999999999999999", "%D9%A3", "+1", "1e9")
HEADERS: tuple[tuple[str, str], ...] = (
    ("content-type", "text/plain"), ("content-type", "application/json; charset=utf-16"),
    ("content-type", "x" * 5000), ("content-type", "\xff"), ("content-length", "x"), ("content-length", "-1"),
    ("content-length", "9" * 30), ("content-length", "3"), ("transfer-encoding", "chunked"), ("accept", "text/html"),
    ("accept", "x/y;q=z"), ("accept-encoding", "\xff"), ("authorization", ""), ("authorization", "Basic"),
    ("authorization", "Basic !!!"), ("authorization", "Basic " + "QQ" * 2000), ("authorization", "Bearer x"),
    ("x-auth-token", "x" * 9000), ("x-openstack-request-id", "req-x\r\nset-cookie: a"),
    ("x-openstack-request-id", "y" * 9000), ("x-forwarded-host", "evil.example"), ("x-forwarded-proto", "javascript"),
    ("forwarded", 'host="\\'), ("host", "evil.example"), ("host", ""), ("host", "[::1"), ("host", "a:b:c"),
    ("cookie", "a" * 9000), ("range", "bytes=0-"), ("if-match", "*"), ("if-none-match", '"x'),
    ("expect", "100-continue"), ("te", "\x7f"), ("x-openstack-manila-api-version", "2.0"),
    ("x-openstack-manila-api-version", "latest"), ("x-openstack-manila-api-version", "2." + "9" * 5000),
    ("x-openstack-manila-api-version", "\u0662.\u0663"), ("x-openstack-manila-api-version", ""),
    ("openstack-api-version", "compute latest"), ("openstack-api-version", "compute 2.x"),
    ("openstack-api-version", ",,compute"), ("openstack-api-version", "shared-file-system 2.60"),
    ("x-openstack-nova-api-version", "3.1"), ("x-openstack-manila-api-experimental", "maybe"),
    ("x-http-method-override", "DELETE"),
)  # fmt: skip
PEOPLE = (*["admin"] * 12, *["member"] * 5, "reader", "service", "other", "none")
MANILA, NOVA = "x-openstack-manila-api-version", "openstack-api-version"


class Case(NamedTuple):
    """A request, as `tests.api.world.call` sends it. `route` is None where it is meant to miss them all."""

    who: str
    method: str
    url: str
    raw: bytes
    headers: dict[str, str]
    route: Any
    version: int


class Maker:
    """Cases with the things of a world in their paths."""

    def __init__(self, things: dict[str, str]) -> None:
        self._things = things
        self._samples: dict[Any, Any] = {}

    def case(self, number: int) -> Case:
        """The case of a number."""
        draw = random.Random(number)
        who = draw.choice(PEOPLE)
        if draw.random() < 0.07:
            url = draw.choice(PATHS) + self._query(draw, None, 0)
            return Case(who, draw.choice(METHODS), url, draw.choice(RAW), self._headers(draw, None, 0), None, 0)
        route = draw.choice(ALL)
        version = self._version(draw, route)
        method = draw.choice(METHODS) if draw.random() < 0.04 else route.method
        url = self._prefix(draw, route, version) + self._path(draw, route) + self._query(draw, route, version)
        return Case(
            who, method, url, self._body(draw, route, version), self._headers(draw, route, version), route, version
        )

    def _version(self, draw: random.Random, route: Any) -> int:
        if route in DATA:
            return draw.randint(max(route.since, data_versions.FIRST), min(route.until, data_versions.SECOND))
        newest = compute_versions.MAXIMUM if route in COMPUTE else versions.MAXIMUM
        least = max(route.since, 1 if route in COMPUTE else 0)
        return draw.randint(least, min(route.until, newest)) if draw.random() < 0.9 else draw.randint(0, newest)

    def _prefix(self, draw: random.Random, route: Any, version: int) -> str:
        if route in OWN:
            return "/abaca/v1"
        data = f"{data_versions.ROOT}/{data_path(version)}"
        door = data if route in DATA else "/compute/v2.1" if route in COMPUTE else "/v2"
        return f"{door}/{PROJECT}" if draw.random() < 0.3 else door

    def _path(self, draw: random.Random, route: Any) -> str:
        things = dict(self._things)
        for place in seeds.places(route.path):
            # what is there goes with the first request that takes it away, and then nothing is reached any more
            if place not in things or draw.random() < (0.97 if route.method == "DELETE" else 0.3):
                things[place] = quote(draw.choice(TEXTS)[:3000], safe="") or "x"
        return seeds.filled(route.path, things)

    def _query(self, draw: random.Random, route: Any, version: int) -> str:
        if draw.random() < 0.4:
            return ""
        names = list(QUERIES)
        if route is not None and route.filters is not None:
            names += [name for name, _, _ in openapi._fields(route.filters, version)] * 3
        pairs = []
        for _ in range(draw.choice((1, 1, 2, 3, 8))):
            name = draw.choice(names)
            value = draw.choice(NUMBERS) if draw.random() < 0.3 else quote(draw.choice(TEXTS)[:6000])
            pairs.append(f"{quote(name)}={value}")
        if "share_id" in names and draw.random() < 0.7:
            pairs.append(f"share_id={self._things['/shares/{id}']}")
        if draw.random() < 0.02:
            pairs.append(draw.choice(("&" * 500, "a=%00", "%ff=%ff", "=", "a=%1b", "a" * 20_000)))
        return "?" + "&".join(pairs)

    def _headers(self, draw: random.Random, route: Any, version: int) -> dict[str, str]:
        headers = {"content-type": "application/json"}
        if route in COMPUTE:
            headers[NOVA] = f"compute 2.{version}"
        elif route is not None and route not in DATA:
            headers |= {MANILA: f"2.{version}", "x-openstack-manila-api-experimental": "true"}
        if draw.random() < 0.15:
            name, value = draw.choice(HEADERS)
            headers[name] = value
        return headers

    def _body(self, draw: random.Random, route: Any, version: int) -> bytes:
        if route.body is None and not route.action:
            return draw.choice(RAW) if draw.random() < 0.05 else b""
        if draw.random() < 0.06:
            return draw.choice(RAW)
        key = route.action or (route.body.KEYS[0] if route.body.KEYS else None)
        whole: Any = self._fields(draw, route, version) if route.body is not None else draw.choice(VALUES)
        if key is not None:
            whole = {key: draw.choice(VALUES) if draw.random() < 0.04 else whole}
            if draw.random() < 0.04:
                whole[draw.choice(TEXTS)] = draw.choice(VALUES)
        return json.dumps(whole, ensure_ascii=draw.random() < 0.5).encode(errors="replace")

    def _fields(self, draw: random.Random, route: Any, version: int) -> Any:
        if route.body is bodies.Anything:
            return {draw.choice(TEXTS): draw.choice((*VALUES, *TEXTS)) for _ in range(draw.randint(0, 3))}
        at = route.body, version
        if at not in self._samples:
            self._samples[at] = openapi.body_schema(route.body, version)
        schema = self._samples[at]
        fields = sample(schema)
        known = list(schema.get("properties", {}))
        for name in known:
            if name in seeds.POSSIBLE and draw.random() < 0.6:
                fields[name] = draw.choice(seeds.POSSIBLE[name])
        for _ in range(draw.choice((0, 1, 1, 2, 3))):
            name = draw.choice([*known, "nosuch"]) if known else "nosuch"
            if draw.random() < 0.2:
                fields.pop(name, None)
            elif draw.random() < 0.6 and name in known:
                fields[name] = draw.choice(seeds.POSSIBLE.get(name, [sample(schema["properties"][name])]))
            else:
                fields[name] = draw.choice((*VALUES, *TEXTS))
        for name, place in (
            ("share_id", "/shares/{id}"),
            ("server_id", "/servers/{server_id}"),
            ("access_id", "/share-access-rules/{id}"),
        ):
            if name in fields and draw.random() < 0.6:
                fields[name] = self._things[place]
        return fields


def send(world: Any, case: Case) -> Any:
    """The answer to a case."""
    headers = dict(case.headers)
    if case.who != "none":
        headers.setdefault("authorization", world.passwords[case.who])
    return call(world.application, case.method, case.url, case.raw, headers)


def judge(case: Case, answer: Any) -> str | None:
    """What is wrong with an answer, or None: only what is declared is answered, and every refusal in its form."""
    if answer.status >= 500:
        return f"5xx: {answer.status}"
    if case.method == "HEAD" and answer.body is None:
        return None
    if answer.status >= 400:
        return None if is_fault(answer) else f"undeclared: a {answer.status} without a sentence"
    if case.route is None or case.method != case.route.method:
        return (
            None
            if answer.status in (200, 300, 302) or case.method in ("POST", "PUT", "DELETE")
            else f"undeclared: {answer.status}"
        )
    return None if answer.status in declared(case.route.path, case.method) else f"undeclared: {answer.status}"


@functools.cache
def declared(path: str, method: str) -> set[int]:
    """With which statuses a request there is answered when it is carried out."""
    return {route.status for route in ALL if (route.path, route.method) == (path, method)}


def is_fault(answer: Any) -> bool:
    """Whether a refusal says what went wrong, in a form that clients know."""
    if not isinstance(answer.body, dict) or not answer.body:
        return False
    if "error_name" in answer.body:
        return answer.body["error_code"] == answer.status and "\nError ID: " in answer.body["error_message"]
    said = answer.body if "title" in answer.body and "code" in answer.body else next(iter(answer.body.values()))
    return isinstance(said, dict) and int(str(said["code"])[:3]) == answer.status and bool(said["message"])
