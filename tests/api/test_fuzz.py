# SPDX-License-Identifier: Apache-2.0
"""Requests made up from the API's own description, sensible ones and others: none ends in an error of ours.

Every answer is as the description says: its status, its form, each field of it. Half of the requests are aimed: they
name things that are there, and say of the fields that decide how far a request comes what is possible.

Where there are many, they are sent to one of the two databases, drawn by FUZZ_SEED; in `make thorough` to both.
"""

import collections
import contextlib
import json
import os
import random
from typing import Any, NamedTuple

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode, checks
from schemathesis.core import failures
from schemathesis.specs.openapi import checks as openapi_checks

from abaca.api import routes, versions
from abaca.api.data_processing import versions as data_versions
from abaca.http import bodies, openapi, routing, wire
from tests import closing
from tests.api import seeds
from tests.api.test_surface import newest, sample
from tests.api.world import PROJECT, world
from tests.databases import on_postgres, on_sqlite, place

CHECKS = [
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
]


class Door(NamedTuple):
    """A door whose description is tried out, and the headers that ask for a version there."""

    name: str
    table: routing.Table
    description: str
    headers: Any
    version: Any = wire.minor
    """Its number in the table, by its name."""


def of_shares(number):
    # made up, too, but not here: each version has its own description
    return {"x-openstack-manila-api-version": number, "x-openstack-manila-api-experimental": "true"}


def of_compute(number):
    return {"openstack-api-version": f"compute {number}"}


NEWEST = {"x-openstack-manila-api-version": "2.99"}
TABLE = routing.Table(routes.RESOURCES)
SHARES = Door("shared file systems", TABLE, "/abaca/v1/openapi/{}.json", of_shares)
COMPUTE = Door("compute", routing.Table(routes.COMPUTE), "/abaca/v1/openapi/compute/{}.json", of_compute)
OWN = Door("own", routing.Table(routes.OWN), "/abaca/v1/openapi.json", lambda _number: {}, lambda _number: 0)
DATA = Door(
    "data processing",
    routing.Table(routes.DATA_PROCESSING),
    "/abaca/v1/openapi/data-processing/{}.json",
    lambda _number: {},
    {"1.1": data_versions.FIRST, "2.0": data_versions.SECOND}.get,
)


class Garden:
    """A world at work, with a description of its API at a version, and one of everything planted in it."""

    def __init__(self, made):
        self.world = made
        self.things = seeds.plant(made)
        # for shares; the other one is tried out
        kind = {"name": "garden", "extra_specs": {"driver_handles_share_servers": "False"}}
        self.ask("POST", "/types", {"share_type": kind})
        kinds = made.ask("admin", "GET", "/types").body["share_types"]
        self.things |= {
            "/types/{type_id}": next(kind["id"] for kind in kinds if kind["name"] == "default"),
            "/types/{type_id}/extra_specs/{key}": "snapshot_support",
            "/quota-class-sets/{class_name}": "default",
            "/shares/{id}/export_locations/{location_id}/metadata/{key}": "k",
        }

    def describe(self, number, door=SHARES):
        """What can be asked at a version, by name."""
        described = schemathesis.openapi.from_wsgi(
            door.description.format(number), self.world.application, headers=self.headers("reader")
        )
        return {found.ok().label: found.ok() for found in described.get_all_operations()}

    def headers(self, who):
        return {"authorization": self.world.passwords[who]}

    def ask(self, method, path, body=None):
        return self.world.ask("admin", method, path, body, **NEWEST)

    def tend(self):
        """See to it that everything is there again, and in order."""
        self.ask("PUT", "/services/enable", {"host": "testhost@alpha", "binary": "manila-share"})
        self.ask("DELETE", f"/quota-sets/{PROJECT}")
        limits = {"shares": 50, "gigabytes": 1000, "per_share_gigabytes": -1}
        self.ask("PUT", "/quota-class-sets/default", {"quota_class_set": limits})
        self.world.settle()  # while its back end is being ensured, a share takes no rule
        for lock in self.ask("GET", "/resource-locks?all_projects=1").body["resource_locks"]:
            self.ask("DELETE", f"/resource-locks/{lock['id']}")
        share = self.things["/shares/{id}"]
        shown = self.ask("GET", f"/shares/{share}")
        if shown.status != 200 or shown.body["share"]["status"] != "available":
            wish = {"share_proto": "NFS", "size": 2, "share_type": "garden"}
            share = self.ask("POST", "/shares", {"share": wish}).body["share"]["id"]
            self.world.settle()
        rule = {"access_type": "ip", "access_to": "10.0.0.1", "metadata": {"k": "v"}}
        self.ask("POST", f"/shares/{share}/action", {"allow_access": rule})
        self.world.settle()
        found = self.ask("GET", f"/share-access-rules?share_id={share}").body["access_list"]
        rules = [one for one in found if one["access_to"] == rule["access_to"]]  # an attachment's is not a user's
        wish = {"resource_id": rules[0]["id"], "resource_type": "access_rule"}
        lock = self.ask("POST", "/resource-locks", {"resource_lock": wish}).body["resource_lock"]
        location = self.ask("GET", f"/shares/{share}/export_locations").body["export_locations"][0]["id"]
        for path in (f"/shares/{share}", f"/shares/{share}/export_locations/{location}"):
            self.ask("POST", f"{path}/metadata", {"metadata": {"k": "v"}})
        self.things |= {
            "/shares/{id}": share,
            "/shares/{id}/export_locations/{location_id}": location,
            "/share-access-rules/{id}": rules[0]["id"],
            "/resource-locks/{lock_id}": lock["id"],
            "/share_instances/{id}": self.ask("GET", f"/shares/{share}/instances").body["share_instances"][0]["id"],
            "/share_instances/{id}/export_locations/{location_id}": location,
        }


@pytest.fixture(scope="module", params=[on_sqlite, on_postgres])
def garden(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("fuzz")
    more = ""
    if request.param == "postgresql":
        more = f"[database]\nconnection = {place('postgresql', directory, request).url}"
    with world(directory, worker=True, more=more) as made:
        yield Garden(made)


def aimed(case, garden, among, data):
    """The case with things that are there and a body that goes far, in which some fields are still made up."""
    for at in seeds.places(case.path):
        name = at[at.rindex("{") + 1 : -1]
        if at in garden.things and case.path_parameters:
            case.path_parameters[name] = garden.things[at]
    if data.draw(st.booleans()):
        case.query = {"share_id": garden.things["/shares/{id}"]} if case.path == "/share-access-rules" else {}
    routes_with_body = [route for route in among if route.body or route.action]
    if routes_with_body:
        case.body = body_of(data.draw(st.sampled_from(routes_with_body)), case, garden, data)
        case.media_type = "application/json"
    return case


def body_of(route, case, garden, data):
    if route.body is bodies.Anything:
        return {"snapshot_support": data.draw(st.sampled_from(["True", "False"]))}
    schema = openapi.body_schema(route.body, newest(route)) if route.body else {}
    fields = {}
    for name, kind in schema.get("properties", {}).items():
        if name in schema.get("required", ()) or data.draw(st.booleans()):
            fields[name] = data.draw(st.sampled_from(seeds.POSSIBLE.get(name, [sample(kind)])))
    if "access_id" in fields:
        fields["access_id"] = garden.things["/share-access-rules/{id}"]
    key = route.action or (route.body.KEYS[0] if route.body.KEYS else None)
    made_up = case.body.get(key, case.body) if isinstance(case.body, dict) else {}
    if isinstance(made_up, dict) and data.draw(st.booleans()):
        fields |= {name: value for name, value in made_up.items() if data.draw(st.booleans())}
    return fields if key is None else {key: fields if route.body else None}


class Tried:
    """How many cases a door was sent, and how many were answered by an error of ours or by an undeclared status."""

    def __init__(self):
        self.cases = self.fives = self.undeclared = 0

    def validate(self, case, answer):
        """The answer is as described; fails if not. Each case is counted."""
        self.cases += 1
        try:
            # several actions share an address, and not all of them answer with a body
            case.validate_response(answer, checks=CHECKS if answer.content else CHECKS[:2])
        except failures.FailureGroup as wrong:
            is_five = any(isinstance(one, failures.ServerError) for one in wrong.exceptions)
            self.fives += is_five
            self.undeclared += not is_five and any(
                isinstance(one, openapi_checks.UndefinedStatusCode) for one in wrong.exceptions
            )
            raise


@pytest.fixture
def tried(record_property):
    """What the test tries; the run's closing line adds it up for each door."""
    doors = collections.defaultdict(Tried)
    yield doors
    if doors:
        record_property("made up on", CHOSEN)
    for name, said in doors.items():
        record_property("schemathesis", [name, said.cases, said.fives, said.undeclared])


def fuzz(garden, operation, who, examples, tried, door=SHARES):
    """Try an operation so often in each way; fails with the first answer that is not as described."""
    garden.tend()
    number = operation.schema.raw_schema["info"]["version"]
    among = [
        route
        for route in door.table.routes
        if f"{route.method} {route.path}" == operation.label and route.serves(door.version(number), experimental=True)
    ]
    asked = door.headers(number)
    for mode in GenerationMode:
        budget = settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )

        @budget
        @given(case=operation.as_strategy(generation_mode=mode), data=st.data())
        def run(case, data):
            if data.draw(st.booleans()):
                case = aimed(case, garden, among, data)
            answer = case.call(headers={**garden.headers(who), **asked})
            tried.validate(case, answer)

        run()


def labels(number):
    """The names of all operations of a version."""
    paths = openapi.document(TABLE, int(number.partition(".")[2]), versions.DESCRIBED)["paths"]
    return [f"{method.upper()} {path}" for path, operations in paths.items() for method in operations]


ONCE = [pytest.param(label, id=label.replace("/", ":")) for label in labels("2.99")]
IS_THOROUGH = bool(os.environ.get("FUZZ_THOROUGH"))
SEED = os.environ.get("FUZZ_SEED", "0")
DRAWN = random.Random(SEED)
CHOSEN = "both databases" if IS_THOROUGH else f"databases drawn by FUZZ_SEED={SEED}"


def on_databases(*asked):
    """Each version, and who asks, on a database of the two, or on both if all are wanted."""
    databases = [on_sqlite, on_postgres]
    found = [(one, databases if IS_THOROUGH else [DRAWN.choice(databases)]) for one in asked]
    return pytest.mark.parametrize(
        ("garden", "number", "who"),
        [
            pytest.param(*on.values, *one, id=f"{on.id}-{'-'.join(one)}", marks=on.marks)
            for on in databases
            for one, its in found
            if on in its
        ],
        indirect=["garden"],
        scope="module",
    )


@pytest.fixture(scope="module")
def described(garden):
    return garden.describe("2.99")


@pytest.mark.parametrize("label", ONCE)
def test_a_few_made_up_requests_are_answered_as_described(garden, described, label, tried):
    fuzz(garden, described[label], "admin", 3, tried[SHARES.name])


@on_databases(("2.0", "admin"), ("2.6", "member"), ("2.45", "admin"), ("2.99", "admin"), ("2.99", "member"))
@pytest.mark.system
def test_many_made_up_requests_are_answered_as_described(garden, number, who, tried):
    for operation in garden.describe(number).values():
        fuzz(garden, operation, who, 4, tried[SHARES.name])


@on_databases(("2.1", "admin"), ("2.1", "member"), ("2.97", "admin"), ("2.97", "member"))
def test_made_up_requests_to_the_compute_door_are_answered_as_described(garden, number, who, tried):
    for operation in garden.describe(number, COMPUTE).values():
        fuzz(garden, operation, who, 10, tried[COMPUTE.name], COMPUTE)


@on_databases(("1", "admin"), ("1", "member"))
def test_made_up_requests_to_the_own_door_are_answered_as_described(garden, number, who, tried):
    for operation in garden.describe(number, OWN).values():
        fuzz(garden, operation, who, 4, tried[OWN.name], OWN)


@on_databases(("v1.1", "member"), ("v2", "admin"))
def test_made_up_requests_to_the_data_processing_door_are_answered_as_described(garden, number, who, tried):
    for operation in garden.describe(number, DATA).values():
        fuzz(garden, operation, who, 3, tried[DATA.name], DATA)


@pytest.mark.parametrize(("status", "counted"), [("200 OK", (1, 0, 0)), ("418 Odd", (1, 0, 1)), ("500 Bad", (1, 1, 0))])
def test_what_is_wrong_is_counted(status, counted):
    answers = {"200": {"description": "", "content": {"application/json": {"schema": {"type": "object"}}}}}
    described = {
        "openapi": "3.0.3",
        "info": {"title": "odd", "version": "1"},
        "paths": {"/odd": {"get": {"responses": answers}}},
    }

    def odd(environ, start_response):
        is_description = environ["PATH_INFO"] == "/description.json"
        start_response("200 OK" if is_description else status, [("content-type", "application/json")])
        return [json.dumps(described).encode() if is_description else b"{}"]

    case = schemathesis.openapi.from_wsgi("/description.json", odd)["/odd"]["GET"].Case()
    tried = Tried()
    with contextlib.suppress(failures.FailureGroup):
        tried.validate(case, case.call())
    assert (tried.cases, tried.fives, tried.undeclared) == counted


def test_the_closing_line_adds_up_each_door():
    said = [["own", 5, 0, 0], ["compute", 7, 1, 0], ["own", 2, 0, 3]]
    assert closing.made_up(said) == "schemathesis: 7 compute + 7 own = 14 cases, 1 5xx, 3 undeclared statuses"
