# SPDX-License-Identifier: Apache-2.0
"""Whatever is sent instead of what is asked for: the answer says what is wrong, and the database is as it was before.

Each route is tried with things of its caller's own, so that nothing but the input is at fault.
"""

import itertools
import json

import pytest

from abaca.http import bodies, openapi
from tests.api import seeds, test_surface
from tests.api.planted import refused, routes, send
from tests.api.test_surface import NOTHING, OWN, body, newest

NESTED = 200_000
HUGE = 10**30
# Not one of these is JSON of the right kind.
MALFORMED = {
    "nothing": b"",
    "blank": b" ",
    "cut off": b'{"a": ',
    "unquoted": b"{a: 1}",
    "two": b'{"a": 1}{"b": 2}',
    "a trailing comma": b'{"a": 1,}',
    "a comment": b"{} // why",
    "a bare word": b"nul",
    "NaN": b'{"a": NaN}',
    "not UTF-8": b'{"a": "\xff\xfe"}',
    "half a character": b'{"a": "\xe2\x82"}',
    "a surrogate in UTF-8": b'{"a": "\xed\xa0\x80"}',
    "a lone surrogate": rb'{"a": "\ud800"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "deep lists": b"[" * NESTED,
    "deep and closed": b"[" * NESTED + b"]" * NESTED,
    "deep objects": b'{"a":' * NESTED,
    "null": b"null",
    "a number": b"1",
    "a huge number": b"1" * 5000,
    "text": b'"text"',
    "true": b"true",
    "a list": b"[]",
    "a list of objects": b"[{}]",
    "an empty object": b"{}",
    "an empty key": b'{"": {}}',
    "XML": b"<share/>",
}
# By the type that a field has: what it cannot be.
WRONG = {
    "integer": (
        1.5,
        True,
        [],
        {},
        "",
        "many",
        "1e3",
        "0x10",
        "1_0",
        "\u0663",
        "1.0",
        HUGE,
        -HUGE,
        str(HUGE),
        2**63,
        -(2**63),
    ),
    "boolean": (2, 1.5, [], {}, "", "maybe", "null", HUGE),
    "string": (0, 1.5, True, [], {}, ["text"], "a\u0000b", "\u001b[2J", "\x7f"),
    "object": (0, "text", True, [], [["k", "v"]]),
}
CONTENT_TYPES = (
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "application/xml",
    "*/*",
    "json",
    "\xff",
)
# In a path, percent-encoded, in place of an id.
IDS = {
    "dots": "..",
    "an encoded slash": "%2F",
    "an encoded dot": "%2e%2e%2f",
    "a quote": "%27%20OR%20%271%27=%271",
    "a shell": "$(reboot)",
    "a format": "%7B0.__class__%7D%25s",
    "not UTF-8": "%ff%fe",
    "a surrogate": "%ed%a0%80",
    "emoji": "%F0%9F%98%80",
    "right to left": "%D7%A9%D7%9C%D7%95%D7%9D",
    "combining": "Z%CC%A3%CC%87" * 50,
    "a space": "%20",
    "a percent sign": "%",
    "long": "x" * 20_000,
    "half a UUID": "0" * 8 + "-0000",
    "a number": "1",
    "another's": NOTHING,
}
CONTROL = {
    "NUL": "%00",
    "escape": "%1b",
    "delete": "%7f",
    "line feed": "a%0Ab",
    "carriage return": "%0D%0Aset-cookie:x",
}
QUERIES = (
    "limit=-1", "limit=1.5", "limit=1e3", "limit=x", f"limit={HUGE}", "limit=%2B1", "limit=1&limit=x", "limit=%D9%A3",
    "offset=-1", f"offset={HUGE}", "offset=x", "offset=1&offset=-1",
    "sort_key=;DROP", "sort_key=id)--", "sort_dir=up", "sort_key=%00", "limit=%ff", "a%00=b", "a=%1b", "=%7f",
)  # fmt: skip


@routes(lambda route: (route.body or route.action) and route.method != "DELETE")
def test_what_is_no_body_is_refused(planted, unchanged, route):
    for name, raw in MALFORMED.items():
        answer = send(planted, route, raw=raw)
        assert refused(answer), name


@routes(lambda route: (route.body or route.action) and route.method != "DELETE")
def test_a_body_of_another_kind_is_no_body(planted, unchanged, route):
    for content_type in CONTENT_TYPES:
        refused(send(planted, route, raw=json.dumps(body(route)).encode(), **{"content-type": content_type}))


@routes(lambda route: route.body or route.action)
def test_a_body_that_is_too_large_is_refused_unread(planted, unchanged, route):
    refused(send(planted, route, raw=b" " * (planted.settings.oslo_middleware.max_request_body_size + 1)), 413)


@routes(lambda route: route.body and route.body is not bodies.Anything)
def test_a_field_of_the_wrong_kind_is_refused(planted, unchanged, route):
    for field, wrong in wrong_fields(route):
        whole = body(route)
        key = route.action or (route.body.KEYS[0] if route.body.KEYS else None)
        (whole[key] if key else whole)[field] = wrong
        message = refused(send(planted, route, raw=json.dumps(whole).encode()))
        assert repr(field) in message or "control characters" in message or "valid JSON" in message, (
            field,
            wrong,
            message,
        )


@routes(lambda route: route.body and route.body is not bodies.Anything)
def test_a_field_that_is_needed_is_asked_for(planted, unchanged, route):
    """Also where the body's class inherits a field that is optional in its base."""
    key = route.action or (route.body.KEYS[0] if route.body.KEYS else None)
    needed = openapi.body_schema(route.body, newest(route)).get("required", [])
    for field in needed:
        whole = body(route)
        (whole[key] if key else whole).pop(field)
        message = refused(send(planted, route, raw=json.dumps(whole).encode()), 400, 422)
        assert f"'{field}' is required" in message or len(needed) == 1, (field, message)
    if needed:
        refused(send(planted, route, raw=json.dumps({key: {}} if key else {}).encode()), 400, 422)


@routes(lambda r: r.body and r.body is not bodies.Anything and not r.action and r.method != "DELETE")
def test_a_body_of_nothing_but_what_is_optional_is_no_bug(planted, route):
    """Whatever else is missing is asked for, or not missed."""
    key = route.body.KEYS[0] if route.body.KEYS else None
    schema = openapi.body_schema(route.body, newest(route))
    for fields in ({}, *({name: test_surface.sample(kind)} for name, kind in schema.get("properties", {}).items())):
        answer = send(planted, route, raw=json.dumps({key: fields} if key else fields).encode())
        assert answer.status < 500, (fields, answer.body)


def wrong_fields(route):
    for field, schema in openapi.body_schema(route.body, newest(route)).get("properties", {}).items():
        kinds = {kind.get("type") for kind in schema.get("anyOf", [schema])}
        if None not in kinds:
            wrong = [value for kind in sorted(kinds - {"null"}) for value in WRONG.get(kind, ())]
            yield from itertools.product([field], wrong if "null" in kinds else [None, *wrong])


@routes(lambda route: "{" in route.path)
@pytest.mark.parametrize("who", ["admin", "member"])
def test_an_id_of_no_thing_is_not_found(planted, unchanged, route, who):
    raw = json.dumps(body(route)).encode()
    for kind, wrong in {**IDS, **CONTROL}.items():
        for at in seeds.places(route.path):
            if at.endswith(("{project_id}", "{class_name}")) and kind not in CONTROL:
                continue  # any text names a project, or a class
            if (route.method, at) == ("POST", "/images/{id}") and wrong == NOTHING:
                continue  # an image is registered by the id that another service has given it
            path = seeds.filled(route.path, {**planted.things, at: wrong})
            refused(send(planted, route, path=path, raw=raw, who=who), 400, 403, 404)


@routes(lambda route: route.method == "GET")
def test_a_query_is_answered_or_refused(planted, unchanged, route):
    for query in QUERIES:
        answer = send(planted, route, query=f"?{query}")
        assert answer.status < 500, answer
        if "%00" in query or "%1b" in query or "%7f" in query:
            refused(answer, 400)


@routes(lambda route: route in OWN and route.filters is not None)
def test_a_misspelt_query_is_refused_by_the_own_door(planted, unchanged, route):
    assert "'acces_level'" in refused(send(planted, route, query="?limit=1&acces_level=ro"), 400)
