# SPDX-License-Identifier: Apache-2.0
"""What is odd, yet of the right kind: texts of all scripts, of shells and of files, the largest numbers, long lists.

It is kept as it is, or refused in a sentence; it is never understood as something else.
"""

import base64
import json
from urllib.parse import quote

import pytest

from abaca.http import openapi
from tests.api.planted import refused, routes, send
from tests.api.test_surface import ALL, body, newest
from tests.api.world import PROJECT, call

NEWEST = {"x-openstack-manila-api-version": "2.99"}
TEXTS = {
    "emoji": "\U0001f4be\U0001f9d1\u200d\U0001f4bb",
    "right to left": "שיתוף \u202etxt.exe",
    "combining": "Z̶̡͎a̶͙l̶g̶o̶" * 5,
    "wide": "共有フォルダ",
    "the last character": "\U0010ffff\ufffe",
    "blanks": "  \t\n  ",
    "a shell": "$(reboot); `reboot` | reboot && reboot > /etc/passwd '\"\\",
    "SQL": "'; DROP TABLE shares; --",
    "a configuration file": "[DEFAULT]\nconnection = x\n#",
    "an export block": "}; EXPORT { Path = /; Access_Type = RW; }",
    "a path": "../../../../etc/passwd",
    "HTML": "<script>alert(1)</script>",
    "a format": "%s %n {0.__class__} ${jndi:ldap://x} \\u0000",
    "a header": "x\r\nset-cookie: a=b",
    "a null that is a word": "null",
    "as long as can be": "\U0001f4be" * 255,
}
BLANK = ("blanks",)


def ask(planted, method, path, sent=None, who="member"):
    return planted.ask(who, method, path, sent, **NEWEST)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_is_kept_and_found_as_it_was_sent(planted, text):
    wish = {"share_proto": "NFS", "size": 1, "name": text, "description": text, "metadata": {"k": "x" + text}}
    made = ask(planted, "POST", "/shares", {"share": wish})
    assert made.status == 200, made.body
    share = made.body["share"]
    shown = ask(planted, "GET", f"/shares/{share['id']}").body["share"]
    assert (shown["name"], shown["description"], shown["metadata"]) == (text, text, {"k": "x" + text})
    found = ask(planted, "GET", f"/shares?name={quote(text)}").body["shares"]
    assert [one["id"] for one in found] == [share["id"]]
    found = ask(planted, "GET", f"/shares?name~={quote(text)}").body["shares"]
    assert [one["id"] for one in found] == [share["id"]]
    pairs = quote(repr({"k": "x" + text}))
    found = ask(planted, "GET", f"/shares?metadata={pairs}").body["shares"]
    assert [one["id"] for one in found] == [share["id"]]
    assert ask(planted, "DELETE", f"/shares/{share['id']}").status == 202


@pytest.mark.parametrize(
    "key",
    [text for kind, text in TEXTS.items() if kind not in BLANK],
    ids=[kind for kind in TEXTS if kind not in BLANK],
)
def test_a_metadata_key_is_kept_found_and_removed_as_it_was_sent(planted, key):
    share = planted.things["/shares/{id}"]
    before = ask(planted, "GET", f"/shares/{share}/metadata").body["metadata"]
    assert ask(planted, "POST", f"/shares/{share}/metadata", {"metadata": {key: "v"}}).status == 200
    assert ask(planted, "GET", f"/shares/{share}/metadata").body["metadata"] == {**before, key: "v"}
    for value, ids in (("v", [share]), ("w", [])):
        answer = ask(planted, "GET", f"/shares?metadata={quote(repr({key: value}))}")
        assert [one["id"] for one in answer.body["shares"]] == ids, answer.body
    ask(planted, "PUT", f"/shares/{share}/metadata", {"metadata": before})
    assert ask(planted, "GET", f"/shares/{share}/metadata").body["metadata"] == before


@pytest.mark.parametrize("key", ['"', "'", "\\", "$", "$.a", "a.b", "[0]", 'a"]', ":x", "%(x)s", "0", "a\tb"])
def test_a_filter_takes_any_key_of_metadata_for_a_key(planted, key):
    share = planted.things["/shares/{id}"]
    before = ask(planted, "GET", f"/shares/{share}/metadata").body["metadata"]
    ask(planted, "POST", f"/shares/{share}/metadata", {"metadata": {key: "v", "other": "v"}})
    for value, ids in (("v", [share]), ("w", [])):
        answer = ask(planted, "GET", f"/shares?metadata={quote(repr({key: value}))}")
        assert (answer.status, [one["id"] for one in answer.body.get("shares", ())]) == (200, ids), answer.body
    ask(planted, "PUT", f"/shares/{share}/metadata", {"metadata": before})


@routes(lambda route: route.body is not None)
def test_a_text_that_is_far_too_long_is_refused(planted, unchanged, route):
    properties = openapi.body_schema(route.body, newest(route)).get("properties", {})
    for field, schema in properties.items():
        if "string" not in {kind.get("type") for kind in schema.get("anyOf", [schema])}:
            continue
        whole = body(route)
        key = route.action or (route.body.KEYS[0] if route.body.KEYS else None)
        (whole[key] if key else whole)[field] = "x" * 70_000
        refused(send(planted, route, raw=json.dumps(whole).encode()))


FILTERS = {
    "boolean": ["", "maybe", "2", "\U0001f4be", "x" * 5000],
    "string": ["", " ", "\U0001f4be", "'", "%", "_", "\\", "x" * 5000, "null", "-1", "a\nb"],
    "date-time": [
        "",
        "x",
        "2026",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "2026-13-01",
        "2026-08-21T09:00:00Z",
        "1" * 5000,
    ],
    "integer": ["", "x", "1.5", "-1", "1_0", str(2**31), str(10**17), "9" * 5000],
    "pairs": [
        "",
        "x",
        "[]",
        "{",
        "{'a'}",
        "{'a': 1}",
        "{1: 2}",
        "{'a': {'b': 'c'}}",
        "{'a': None}",
        "{(1, 2): 3}",
        "{'a': 'b'} or 1",
        "__import__('os').abort()",
        "{'a': 1e999}",
        "{'a': 2**99999}",
        "{'a': " + "(" * 5000,
        "-" * 9999,
        "{'a': " * 1500,
        "[" * 9999,
        repr({f"k{number}": "v" for number in range(700)}),
        repr({"k" * 5000: "v"}),
        '{"a": true}',
        "{'\\x00': 'v'}",
        "{'k': '\\x00'}",
        "{'\\ud800': 'v'}",
        "{'k': '\\ud800'}",
        "{b'k': 'v'}",
        "{'': ''}",
        "{}",
        "x" * 20_000,
    ],
}


@routes(lambda route: route.filters is not None and route.method == "GET")
def test_a_filter_finds_nothing_or_is_refused(planted, unchanged, route):
    for name, schema in ((name, schema) for name, schema, _ in openapi._fields(route.filters, newest(route))):
        kind = "pairs" if "example" in schema else schema.get("format", schema["type"])
        for value in FILTERS[kind]:
            query = f"?{quote(name)}={quote(value)}"
            if name != "share_id":
                query += f"&share_id={planted.things['/shares/{id}']}"
            answer = send(planted, route, query=query)
            assert answer.status < 500, (query[:100], answer.body)
            if answer.status != 200:
                refused(answer, 400, 403, 404)


PATTERNS = ["(", "[", "a{99999999999}", "*", "(?P<a>x)(?P<a>y)", "(?<=a*)b", "\\", "(" * 120, "(?i", "a(?i)b"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_that_is_none_is_refused(planted, unchanged, pattern):
    for name in ("host", "backend", "pool"):
        answer = ask(planted, "GET", f"/scheduler-stats/pools/detail?{name}={quote(pattern)}", who="admin")
        assert answer.status == 200 or refused(answer, 400)


EXTREMES = (2**31 - 1, 2**31, 2**53 + 1, 10**17)


@pytest.mark.parametrize("number", EXTREMES)
def test_the_largest_numbers_fit_or_are_refused(planted, unchanged, number):
    share = planted.things["/shares/{id}"]
    for action in ("extend", "shrink"):
        refused(ask(planted, "POST", f"/shares/{share}/action", {action: {"new_size": number}}))
    refused(ask(planted, "POST", "/shares", {"share": {"share_proto": "NFS", "size": number}}))
    for name in ("shares", "gigabytes", "per_share_gigabytes"):
        if number >= 2**31:
            refused(ask(planted, "PUT", f"/quota-sets/{PROJECT}", {"quota_set": {name: number}}, who="admin"))
            refused(ask(planted, "PUT", "/quota-class-sets/default", {"quota_class_set": {name: number}}, who="admin"))


@pytest.mark.parametrize("path", ["/quota-sets/{0}", "/quota-sets/{1}?user_id={0}", "/quota-class-sets/{0}"])
def test_a_name_that_no_column_holds_gets_no_quota(planted, unchanged, path):
    key = "quota_class_set" if "class" in path else "quota_set"
    sent = {key: {"shares": 5}}
    refused(ask(planted, "PUT", path.format("x" * 300, PROJECT), sent, who="admin"))


HINTS = (
    {"same_host": "x"},
    {"same_host": 5},
    {"same_host": [5]},
    {"same_host": {}},
    {"different_host": "a,b"},
    {"only_host": 5},
    {"only_host": []},
    {"same_host": ["0" * 32] * 2000},
    {"same_host": ",".join(["0" * 32] * 2000)},
)


@pytest.mark.parametrize("hints", HINTS, ids=[str(hints)[:40] for hints in HINTS])
def test_hints_that_mean_nothing_are_refused(planted, unchanged, hints):
    refused(ask(planted, "POST", "/shares", {"share": {"share_proto": "NFS", "size": 1, "scheduler_hints": hints}}))


METADATA = (
    {"": "v"},
    {" ": "v"},
    {"k": ""},
    {"k": " "},
    {"k": None},
    {"k": 1},
    {"k": True},
    {"k": []},
    {"k": {}},
    {"k" * 256: "v"},
    {"k": "v" * 1024},
    {"k\u0000": "v"},
    {"k": "\u001b[2J"},
    [],
    "x",
    5,
    [["k", "v"]],
)


@pytest.mark.parametrize("pairs", METADATA, ids=[repr(pairs)[:30] for pairs in METADATA])
def test_metadata_that_is_none_is_refused_everywhere(planted, unchanged, pairs):
    share, rule = planted.things["/shares/{id}"], planted.things["/share-access-rules/{id}"]
    location = planted.things["/shares/{id}/export_locations/{location_id}"]
    wish = {"share_proto": "NFS", "size": 1, "metadata": pairs}
    refused(ask(planted, "POST", "/shares", {"share": wish}))
    for path in (f"/shares/{share}/metadata", f"/shares/{share}/export_locations/{location}/metadata"):
        refused(ask(planted, "POST", path, {"metadata": pairs}))
        refused(ask(planted, "PUT", path, {"metadata": pairs}))
    refused(ask(planted, "PUT", f"/share-access-rules/{rule}/metadata", {"metadata": pairs}))
    allow = {"access_type": "ip", "access_to": "10.0.0.2", "metadata": pairs}
    refused(ask(planted, "POST", f"/shares/{share}/action", {"allow_access": allow}))


SPECS = (
    {"": "v"},
    {"a b": "v"},
    {"a/b": "v"},
    {"k" * 256: "v"},
    {"k": ""},
    {"k": "v" * 256},
    {"k": None},
    {"k": []},
    {"k": 1.5},
    {"k;": "v"},
    {"k\n": "v"},
    {"snapshot_support": "maybe"},
    {"provisioning:max_share_size": "0"},
    {"provisioning:max_share_size": "-1"},
    {"provisioning:min_share_size": "9", "provisioning:max_share_size": "3"},
    {"provisioning:max_share_size": "1e3"},
    {"replication_type": "odd"},
    {"availability_zones": ","},
    {"encryption_support": "x"},
    {"k": "v\u0000"},
)


@pytest.mark.parametrize("specs", SPECS, ids=[repr(specs)[:40] for specs in SPECS])
def test_extra_specs_that_are_none_are_refused(planted, unchanged, specs):
    kind = planted.things["/types/{type_id}"]
    whole = {"driver_handles_share_servers": "False", **specs}
    refused(ask(planted, "POST", "/types", {"share_type": {"name": "odd", "extra_specs": whole}}, who="admin"))
    refused(ask(planted, "POST", f"/types/{kind}/extra_specs", {"extra_specs": specs}, who="admin"))


ACCESS = (
    ("ip", ""),
    ("ip", "10.0.0"),
    ("ip", "10.0.0.1/33"),
    ("ip", "10.0.0.1/8"),
    ("ip", "10.0.0.256"),
    ("ip", "010.0.0.1"),
    ("ip", "fe80::1%eth0"),
    ("ip", "::/129"),
    ("ip", "1" * 300),
    ("ip", "10.0.0.1; reboot"),
    ("ip", "\u0661\u0660.0.0.1"),
    ("ip", "*"),
    ("ip", "0x0a000001"),
    ("ip", "any"),
    ("user", "abc"),
    ("user", "...."),
    ("user", "x" * 256),
    ("user", 'a"bcd'),
    ("user", "a\nbcd"),
    ("cert", ""),
    ("cert", " "),
    ("cert", "x" * 65),
    ("cert", "a\nb"),
    ("cephx", "a.b"),
    ("cephx", "\u00e9"),
    ("cephx", ""),
    ("odd", "10.0.0.1"),
    ("", ""),
    ("IP", "10.0.0.1"),
)


@pytest.mark.parametrize(("kind", "to"), ACCESS, ids=[f"{kind} {to[:20]!r}" for kind, to in ACCESS])
def test_access_to_nobody_is_refused(planted, unchanged, kind, to):
    share = planted.things["/shares/{id}"]
    refused(ask(planted, "POST", f"/shares/{share}/action", {"allow_access": {"access_type": kind, "access_to": to}}))


def test_more_hints_than_fit_are_refused(planted, unchanged):
    share = planted.things["/shares/{id}"]
    for hint in ("same_host", "different_host"):
        for ids in ([share] * 28, ",".join([share] * 2000)):
            wish = {"share_proto": "NFS", "size": 1, "scheduler_hints": {hint: ids}}
            assert "names too many shares" in refused(ask(planted, "POST", "/shares", {"share": wish}))


def test_things_of_one_share_are_none_of_another(planted):
    other = ask(planted, "POST", "/shares", {"share": {"share_proto": "NFS", "size": 1}}).body["share"]["id"]
    things = planted.things
    location = things["/shares/{id}/export_locations/{location_id}"]
    for who in ("admin", "member"):
        for rest in ("", "/metadata", "/metadata/preferred"):
            refused(ask(planted, "GET", f"/shares/{other}/export_locations/{location}{rest}", who=who), 404)
        refused(
            ask(
                planted, "POST", f"/shares/{other}/export_locations/{location}/metadata", {"metadata": {"a": "b"}}, who
            ),
            404,
        )
        deny = {"deny_access": {"access_id": things["/share-access-rules/{id}"]}}
        refused(ask(planted, "POST", f"/shares/{other}/action", deny, who), 404)
    instance = ask(planted, "GET", f"/shares/{other}/instances", who="admin").body["share_instances"][0]["id"]
    refused(ask(planted, "GET", f"/share_instances/{instance}/export_locations/{location}", who="admin"), 404)
    assert ask(planted, "DELETE", f"/shares/{other}").status == 202


def basic(raw):
    return "Basic " + base64.b64encode(raw).decode()


HEADERS = {
    "a version of words": {"x-openstack-manila-api-version": "newest"},
    "a version too new": {"x-openstack-manila-api-version": "2.9999"},
    "a huge version": {"x-openstack-manila-api-version": "2." + "9" * 5000},
    "a version below": {"x-openstack-manila-api-version": "1.0"},
    "three numbers": {"x-openstack-manila-api-version": "2.1.1"},
    "digits of another script": {"x-openstack-manila-api-version": "2.\xb2"},
    "no version": {"x-openstack-manila-api-version": ""},
    "a scheme only": {"authorization": "Basic"},
    "no credentials": {"authorization": "Basic "},
    "no base64": {"authorization": "Basic !!!"},
    "no ASCII": {"authorization": "Basic \xe9\xe9\xe9\xe9"},
    "no colon": {"authorization": basic(b"member")},
    "no UTF-8": {"authorization": basic(b"\xff:\xff")},
    "a NUL in the password": {"authorization": basic(b"member:pen\0cil")},
    "a NUL in the name": {"authorization": basic(b"member\0:pencil")},
    "a long password": {"authorization": basic(b"member:" + b"x" * 100_000)},
    "a surrogate": {"authorization": basic(b"member:\xed\xa0\x80")},
    "another scheme": {"authorization": "Bearer x"},
    "digest": {"authorization": "Digest username=x"},
}


@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS)
def test_headers_that_mean_nothing_are_refused(planted, unchanged, headers):
    sent = {"authorization": planted.passwords["admin"], **headers}
    # wrong logins have the next one from their address wait
    refused(call(planted.application, "GET", "http://x/v2/shares", b"", sent, address="192.0.2.1"), 400, 401, 406)


@pytest.mark.parametrize("length", ["x", "-1", "1.5", "", " ", "9" * 30, "0x10"])
def test_a_length_that_is_none_is_no_body(planted, unchanged, length):
    route = next(route for route in ALL if route.name == "POST /shares")
    said = refused(send(planted, route, raw=b'{"share": {}}', **{"content-length": length}), 400, 413)
    assert ("Content-Length must be" in said) == (length not in ("", "9" * 30))


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "PROPFIND", "get", "X" * 1000])
@pytest.mark.parametrize(
    "path",
    ["/", "/v2/", "/v2/shares", "/v2/shares/x", "/abaca/v1/operations", "/nowhere", "//v2//shares//", "/v2/shares/"],
)
def test_another_method_or_path_is_answered_without_fuss(planted, unchanged, method, path):
    answer = call(planted.application, method, f"http://x{path}", b"", {"authorization": planted.passwords["admin"]})
    assert answer.status < 500


def test_the_last_of_repeated_parameters_counts_and_none_is_split(planted):
    for query, names in (("name=nobody&name=", 0), ("name=a,b", 0), ("limit=5&limit=1", 1)):
        answer = ask(planted, "GET", f"/shares?{query}")
        assert (answer.status, len(answer.body["shares"])) == (200, names), query
    many = "&".join(f"k{number}=v" for number in range(120))
    assert ask(planted, "GET", f"/shares?{many}").status == 200
