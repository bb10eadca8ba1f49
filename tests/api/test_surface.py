# SPDX-License-Identifier: Apache-2.0
"""Every route, asked by everybody: which roles may use it, and that nobody reaches into another project.

`tests/golden/surface.txt` shows the first. A route of a new collection needs a seed in `seeds.py`: a real thing that
others reach for in vain.
"""

import json
import re

import pytest

from abaca.api import routes, versions
from abaca.api.compute import versions as compute_versions
from abaca.api.data_processing import versions as data_versions
from abaca.http import openapi, routing
from tests.api import seeds
from tests.api.world import world

OWN = routing.Table(routes.OWN).routes
COMPUTE = routing.Table(routes.COMPUTE).routes
DATA = routing.Table(routes.DATA_PROCESSING).routes
ALL = (*routing.Table(routes.RESOURCES).routes, *OWN, *COMPUTE, *DATA)
NOTHING = "00000000-0000-4000-8000-000000000000"
ROLES = ("admin", "member", "reader", "none")


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with world(tmp_path_factory.mktemp("surface"), worker=True) as made:
        yield made


def start(route):
    """What comes before the route's path, for `World.ask`."""
    if route in DATA:
        return f"/{data_versions.ROOT}/{data_path(newest(route))}"
    return "//abaca/v1" if route in OWN else "//compute/v2.1" if route in COMPUTE else ""


def data_path(version):
    """What names a version of data processing in addresses."""
    return "v1.1" if version == data_versions.FIRST else "v2"


def newest(route):
    if route in DATA:
        return min(route.until, data_versions.SECOND)
    return min(route.until, compute_versions.MAXIMUM if route in COMPUTE else versions.MAXIMUM)


def is_newest(route):
    """Whether it is served at the newest version of its door."""
    last = (versions.MAXIMUM, compute_versions.MAXIMUM, data_versions.SECOND)
    return newest(route) in last and route.until > newest(route)


def asked(route):
    """What names the version, and allows what is experimental."""
    if route in COMPUTE:
        return {"openstack-api-version": f"compute 2.{newest(route)}"}
    if route in DATA:
        return {}
    return {
        "x-openstack-manila-api-version": f"2.{newest(route)}",
        "x-openstack-manila-api-experimental": "true",
    }


def sample(schema):
    """Something that a schema allows."""
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return sample(schema[several][0])
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("format") == "uuid":
        return "0" * 8 + "-0000-0000-0000-" + "0" * 12
    kind = schema.get("type")
    if kind == "object":
        required = schema.get("required", ())
        return {name: sample(kind) for name, kind in schema.get("properties", {}).items() if name in required}
    return {"integer": 1, "boolean": True, "array": []}.get(kind, "x")


def body(route):
    """A body that gets past reading, None where none is read."""
    if route.action and route.body is None:
        return {route.action: None}
    if route.body is None:
        return None
    inner = sample(openapi.body_schema(route.body, newest(route)))
    key = route.action or (route.body.KEYS[0] if route.body.KEYS else None)
    return inner if key is None else {key: inner}


def verdict(answer):
    if answer.status in (401, 403):
        return str(answer.status)
    assert answer.status < 500, answer.body
    return "may"


def test_what_each_role_may_use_is_as_the_golden_file_says(here, golden):
    """Nothing is there to be found, so that whoever may use a route is told just that."""
    lines = []
    for route in sorted(ALL, key=lambda r: (r in COMPUTE, r in DATA, r.path, r.method, r.action or "", r.since)):
        path = re.sub(r"{\w+}", "nosuch", route.path)
        sent = {route.action: {"nosuch": 1}} if route.action else None
        found = {who: verdict(here.ask(who, route.method, start(route) + path, sent, **asked(route))) for who in ROLES}
        assert found["none"] == "401"
        since = f"2.{route.since}-" + (f"2.{route.until}" if route.until <= versions.MAXIMUM else "")
        who = " ".join(f"{role}={found[role]}" for role in ROLES if role != "none")
        name = route.name.replace(" /", " /compute/v2.1/", 1) if route in COMPUTE else route.name
        if route in DATA:
            name, since = route.name.replace(" /", " /data-processing/", 1), data_path(newest(route))
        lines.append(f"{name} [{since}] {route.policy.name}: {who}")
    golden("tests/golden/surface.txt", "\n".join(lines))


@pytest.fixture(scope="module")
def things(here):
    """An id for each placeholder of each path, all of one project."""
    return seeds.plant(here)


@pytest.mark.parametrize("route", [r for r in ALL if "{" in r.path], ids=lambda route: f"{route.name} {route.since}")
def test_what_another_project_owns_looks_like_nothing_at_all(here, things, route):
    if route.path.startswith(seeds.OF_EVERYBODY):
        return
    missing = [place for place in seeds.places(route.path) if place not in things]
    assert not missing, f"plant a seed for {missing} in tests/api/seeds.py"
    answers = []
    nothing = {place: thing if place.endswith("{key}") else NOTHING for place, thing in things.items()}
    for ids in (things, nothing):
        path = seeds.filled(route.path, ids)
        answer = here.ask("other", route.method, start(route) + path, body(route), **asked(route))
        assert answer.status in (400, 403, 404), f"{answer.status}: {answer.body}"
        # of each request its own, as told by data processing
        text = re.sub(r"Error ID: [0-9a-f-]{36}", "Error ID", json.dumps(answer.body))
        for place in seeds.places(route.path):
            text = text if place.endswith("{key}") else text.replace(ids[place], "ID")
        answers.append((answer.status, text))
    assert answers[0] == answers[1]
