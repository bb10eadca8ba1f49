# SPDX-License-Identifier: Apache-2.0
"""Marks on fields: what each of them does to answers, bodies and filters, version by version."""

import datetime
from typing import Annotated, Any, Literal

import msgspec
import pytest

from abaca import errors, policy
from abaca.http import bodies, routing, wire
from abaca.http.bodies import UNSET, Also, Body, Filters, Flag, Gib, Metadata, Name, Object, Pairs, Text, Uuid, Whole
from abaca.http.wire import AdminOnly, Column, Computed, Many, Named, One, Renamed, Since, Until, View, Was


def loud(_call, name):
    return name.upper()


def part(call, number):
    return [wire.shape(PartView, 9, is_admin=True).show(call, (n,)) for n in range(number)]


class PartView(View):
    """A part of a thing."""

    number: int
    late: Annotated[int, Since("2.11"), Column("number")]


class ThingView(View):
    """A thing."""

    id: str
    name: Annotated[str, Was("2.5", Computed(loud, needs=("name",))), Was("2.2", Column("id"))]
    made_at: datetime.datetime | None
    is_public: Annotated[bool, Named("x:is_public"), Renamed("2.6", "os-x:is_public")]
    old: Annotated[str, Until("2.8"), Column("name")]
    host: Annotated[str, AdminOnly()]
    parts: Annotated[list[PartView], Since("2.9"), Computed(part, needs=("number",))]


VALUES = {
    "id": "1",
    "name": "n",
    "made_at": datetime.datetime(2026, 8, 21, 9),  # noqa: DTZ001
    "is_public": True,
    "host": "h",
    "number": 2,
}


def shown(version, *, is_admin=False, **values):
    shape = wire.shape(ThingView, version, is_admin=is_admin)
    row = tuple({**VALUES, **values}[name] for name in shape.columns)
    return msgspec.json.decode(msgspec.json.encode(shape.show(None, row)))


@pytest.mark.parametrize(("version", "name"), [(0, "1"), (2, "1"), (3, "N"), (5, "N"), (6, "n"), (99, "n")])
def test_a_field_was_something_else_up_to_a_version(version, name):
    assert shown(version)["name"] == name


@pytest.mark.parametrize(("version", "key"), [(0, "os-x:is_public"), (6, "os-x:is_public"), (7, "x:is_public")])
def test_a_field_had_another_name_up_to_a_version(version, key):
    assert [name for name in shown(version) if name.endswith("is_public")] == [key]


@pytest.mark.parametrize(("version", "is_there"), [(0, True), (8, True), (9, False)])
def test_a_field_goes_after_a_version(version, is_there):
    assert ("old" in shown(version)) is is_there
    assert ("parts" in shown(version)) is not is_there


def test_some_fields_are_for_administrators():
    assert "host" not in shown(9)
    assert shown(9, is_admin=True)["host"] == "h"


def test_only_the_columns_that_are_shown_are_asked_for():
    assert set(wire.shape(ThingView, 0, is_admin=False).columns) == {"id", "made_at", "is_public", "name"}
    assert set(wire.shape(ThingView, 9, is_admin=True).columns) == set(VALUES)


def test_times_always_have_microseconds_and_nothing_stays_nothing():
    assert shown(9)["made_at"] == "2026-08-21T09:00:00.000000"
    assert shown(9, made_at=None)["made_at"] is None


def test_a_view_in_a_view_has_its_own_versions():
    assert shown(9)["parts"] == [{"number": 0}, {"number": 1}]
    assert 11 in wire.changes_of(ThingView)


def test_all_versions_between_two_changes_share_one_shape():
    assert wire.shape(ThingView, 12, is_admin=False) is wire.shape(ThingView, 99, is_admin=False)
    assert wire.shape(ThingView, 6, is_admin=False) is not wire.shape(ThingView, 7, is_admin=False)


class Wish(Body, key="thing"):
    """What is wished."""

    size: Gib
    name: Annotated[Name | None, Also("display_name")] = None
    force: Flag = False
    new: Annotated[Text | None, Since("2.10")] = None
    strict: Annotated[Text | None, Since("2.10", refuse=True)] = None
    kind: Literal["a", "b"] = "a"
    several: list[Uuid] | None = None
    kept: bodies.Text | bodies.UnsetType | None = UNSET
    count: Whole = 0
    metadata: Metadata | None = None
    free: Object | None = None
    whatever: Any = None


class StrictWish(Body, unknown="refuse"):
    """A body that takes nothing that it does not know."""

    size: Gib = 1
    new: Annotated[int, Since("2.10")] = 0


def parsed(sent, version=99, body=Wish):
    return bodies.read_body(body, version, sent, is_admin=False)


@pytest.mark.parametrize(
    ("sent", "attribute", "value"),
    [
        ({"size": "2"}, "size", 2),
        ({"size": 2, "force": "yes"}, "force", True),
        ({"size": 2, "force": 0}, "force", False),
        ({"size": 2, "force": "OFF"}, "force", False),
        ({"size": 2, "display_name": "x"}, "name", "x"),
        ({"size": 2, "display_name": "x", "name": "y"}, "name", "y"),
        ({"size": 2, "name": None}, "name", None),
        ({"size": 2, "kind": "b"}, "kind", "b"),
        ({"size": 2, "kept": None}, "kept", None),
        ({"size": 2}, "kept", UNSET),
        ({"size": 2, "count": "-3"}, "count", -3),
        ({"size": 2, "several": ["0" * 32]}, "several", ["0" * 32]),
        ({"size": 2, "metadata": {"k": "v"}}, "metadata", {"k": "v"}),
        ({"size": 2, "free": {"a": [1]}}, "free", {"a": [1]}),
        ({"size": 2, "whatever": [1]}, "whatever", [1]),
        ({"size": 2, "nobody knows": 1}, "size", 2),
    ],
)
def test_a_body_is_read_leniently(sent, attribute, value):
    assert getattr(parsed(sent), attribute) == value


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ({}, "'size' is required."),
        (None, "'size' is required."),
        ([], "The body must be an object."),
        ({"size": None}, "'size' must be a whole number of GiB greater than 0."),
        ({"size": 0}, "'size' must"),
        ({"size": 1.5}, "'size' must"),
        ({"size": True}, "'size' must"),
        ({"size": "9" * 30}, "'size' must"),
        ({"size": 1, "force": "maybe"}, "'force' must be a boolean."),
        ({"size": 1, "force": 2}, "'force' must"),
        ({"size": 1, "display_name": "x" * 256}, "'display_name' must be text of at most 255 characters."),
        ({"size": 1, "name": 5}, "'name' must"),
        ({"size": 1, "kind": "c"}, "'kind' must be one of: a, b."),
        ({"size": 1, "kind": ["a"]}, "'kind' must"),
        ({"size": 1, "several": "x"}, "'several' must be a list."),
        ({"size": 1, "several": ["x"]}, r"'several\[0\]' must be a UUID."),
        ({"size": 1, "metadata": "x"}, "object"),
        ({"size": 1, "free": []}, "'free' must be an object."),
    ],
)
def test_what_cannot_be_read_is_named(sent, says):
    with pytest.raises(errors.Invalid, match=says):
        parsed(sent)


def test_a_field_from_the_future_is_dropped_or_refused_as_it_is_marked():
    assert parsed({"size": 1, "new": "x"}, version=9).new is None
    assert parsed({"size": 1, "new": "x"}, version=10).new == "x"
    with pytest.raises(errors.Invalid, match=r"'strict' needs microversion 2\.10 or later"):
        parsed({"size": 1, "strict": "x"}, version=9)


def test_a_strict_body_refuses_what_it_does_not_know():
    with pytest.raises(errors.Invalid, match="'unknown'"):
        parsed({"unknown": 1}, body=StrictWish)
    with pytest.raises(errors.Invalid, match="'new' needs"):
        parsed({"new": 1}, version=9, body=StrictWish)
    assert parsed({"new": 1}, version=10, body=StrictWish).new == 1


class ThingFilters(Filters):
    """What things are listed by."""

    name_like: Annotated[Text, Named("name~"), Since("2.36")]
    is_public: Flag
    metadata: Pairs
    host: Annotated[Text, AdminOnly()]


@pytest.mark.parametrize(
    ("query", "version", "found"),
    [
        ({"name~": "x", "unknown": "y"}, 99, {"name_like": "x"}),
        ({"name~": "x"}, 35, {}),
        ({"is_public": "True"}, 0, {"is_public": True}),
        ({"metadata": "{'a': 'b', 'c': 1}"}, 0, {"metadata": {"a": "b", "c": "1"}}),
        ({"metadata": '{"a": "b"}'}, 0, {"metadata": {"a": "b"}}),
        ({"host": "h"}, 0, {}),
    ],
)
def test_filters_are_those_that_were_sent_and_are_known(query, version, found):
    assert bodies.read_filters(ThingFilters, version, query, is_admin=False) == found


@pytest.mark.parametrize("said", ["nonsense", "[]", "{'a'", "__import__('os')", "{'a': b}", "(" * 5000, "{[]: 1}"])
def test_pairs_are_a_dictionary_and_nothing_else(said):
    with pytest.raises(errors.Invalid, match="'metadata' must be a dictionary"):
        bodies.read_filters(ThingFilters, 0, {"metadata": said}, is_admin=False)


RULE = policy.anyone("thing:get")


def resource(**options):
    made = routing.Resource("things", "/things", **options)
    return made, One("thing", ThingView), Many("things", ThingView)


def test_a_route_without_a_policy_cannot_be_declared():
    made, one, _ = resource()
    with pytest.raises(KeyError, match="policy"):
        made.get("/{id}", view=one)


def test_two_routes_never_serve_one_version():
    made, one, _ = resource()
    made.get("/{id}", policy=RULE, view=one, until="2.5")(lambda call, id_: None)
    made.get("/{id}", policy=RULE, view=one, since="2.5")(lambda call, id_: None)
    with pytest.raises(ValueError, match=r"twice for version 2\.5"):
        routing.Table([made])


def test_what_was_renamed_answers_under_each_name_in_its_time():
    made, one, many = resource(formerly=("/os-things", "2.6"))
    made.get(policy=RULE, view=many)(lambda call: None)
    made.action("jump", policy=RULE, formerly=("os-jump", "2.9"))(lambda call, id_: None)
    made.post("/adopt", policy=RULE, view=one, formerly=("/os-thing-adopt", "2.7"))(lambda call: None)
    found = {(route.path, route.action): (route.since, route.until) for route in made.routes}
    assert found == {
        ("/os-things", None): (0, 6),
        ("/things", None): (7, wire.NEVER),
        ("/things/{id}/action", "os-jump"): (0, 9),
        ("/things/{id}/action", "jump"): (10, wire.NEVER),
        ("/os-thing-adopt", None): (0, 7),
        ("/things/adopt", None): (8, wire.NEVER),
    }


@pytest.mark.parametrize(
    ("version", "said", "serves"), [(30, True, False), (31, False, False), (31, True, True), (55, False, True)]
)
def test_an_experimental_route_wants_the_header_until_it_graduates(version, said, serves):
    made, _, many = resource(since="2.31", experimental=("2.31", "2.54"))
    made.get(policy=RULE, view=many)(lambda call: None)
    assert made.routes[0].serves(version, experimental=said) is serves
