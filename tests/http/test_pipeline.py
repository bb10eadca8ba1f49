# SPDX-License-Identifier: Apache-2.0
"""What is the same for every request: ids, versions, paths, bodies, pages, faults."""

import json
import re
from urllib.parse import urlsplit

import falcon
import falcon.testing
import msgspec
import pytest
import sqlalchemy.exc

from abaca import errors
from abaca.api import routes, versions
from abaca.http import faults, openapi, routing
from tests.api.world import NEWEST, OTHER_PROJECT, PROJECT, call, world

VERSION = "x-openstack-manila-api-version"
SPECS = {"driver_handles_share_servers": "False"}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with world(tmp_path_factory.mktemp("pipeline"), worker=False) as made:
        for name in ("a", "b", "c", "d", "e"):
            wanted = {"share_type": {"name": name, "extra_specs": SPECS}}
            assert made.ask("admin", "POST", "/types", wanted).status == 200
        yield made


def test_every_answer_carries_the_ids_under_which_the_log_speaks_of_it(here):
    answer = here.ask("member", "GET", "/types")
    assert re.fullmatch(r"req-[0-9a-f-]{36}", answer.headers["x-openstack-request-id"])
    assert answer.headers["x-compute-request-id"] == answer.headers["x-openstack-request-id"]
    assert (
        here.ask("member", "GET", "/types").headers["x-openstack-request-id"]
        != answer.headers["x-openstack-request-id"]
    )


def test_without_a_version_the_first_is_served(here):
    answer = here.ask("member", "GET", "/types")
    assert answer.headers[VERSION] == "2.0"
    assert answer.headers["vary"] == "X-OpenStack-Manila-API-Version"
    assert "os-share-type-access:is_public" in answer.body["share_types"][0]


def test_the_version_is_echoed_with_faults_too(here):
    answer = here.ask("member", "GET", "/types/nosuch", **{VERSION: "2.50"})
    assert (answer.status, answer.headers[VERSION]) == (404, "2.50")


@pytest.mark.parametrize(("said", "echoed"), [("true", "True"), ("1", "True"), ("false", None), ("maybe", None)])
def test_the_experimental_header_is_echoed_when_it_says_yes(here, said, echoed):
    answer = here.ask("member", "GET", "/types", **{"x-openstack-manila-api-experimental": said})
    assert answer.headers.get("x-openstack-manila-api-experimental") == echoed


@pytest.mark.parametrize(
    "path", [f"//v2/{PROJECT}/types", "//v2/types", "//v2/types.json", f"//v2/{PROJECT}/types.json"]
)
def test_a_path_may_name_the_project_and_end_in_json(here, path):
    assert here.ask("member", "GET", path).status == 200


@pytest.mark.parametrize("who", ["member", "admin"])
def test_a_path_that_names_another_project_is_refused(here, who):
    assert here.ask(who, "GET", f"//v2/{OTHER_PROJECT}/types").status == 400


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "//nosuch"),
        ("GET", "//v1/"),
        ("GET", "//v2x/types"),
        ("GET", "/nosuch"),
        ("GET", "/types/"),
        ("GET", "//v2//types"),
    ],
)
def test_what_does_not_exist_is_not_found_in_one_form(here, method, path):
    answer = here.ask("member", method, path)
    assert answer.status == 404
    assert set(answer.body) == {"code", "title", "message"}


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "//abaca/v1/attachments", "GET, POST"),
        ("GET", "//abaca/v1/operations/x/cancel", "POST"),
    ],
)
def test_a_wrong_method_of_the_own_door_is_told_the_right_ones(here, method, path, allowed):
    answer = here.ask("member", method, path)
    assert (answer.status, answer.headers["allow"]) == (405, allowed)
    assert all(one in next(iter(answer.body.values()))["message"] for one in allowed.split(", "))


@pytest.mark.parametrize(
    ("method", "path"),
    [("PATCH", "/types"), ("GET", "/shares/x/action"), ("POST", "//compute/v2.1/servers/detail")],
)
def test_a_wrong_method_of_the_other_doors_is_404_as_in_openstack(here, method, path):
    assert here.ask("member", method, path).status == 404


def test_doors_without_their_last_slash_lead_to_where_it_is(here):
    answer = here.ask("member", "GET", "//v2")
    assert answer.status == 302
    assert answer.headers["location"] == "http://share.example:8786/v2/"
    assert here.ask("member", "GET", "//abaca/v1/").body["name"] == "Abaca"


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        ("{bad", 400),
        ("[]", 400),
        ('"text"', 400),
        ("null", 400),
        ("[" * 50_000, 400),
        ('{"share_type": {"name": "\\u0000"}}', 400),
        ('{"share_type": {"name": "\\u001b[31m"}}', 400),
        ('{"share_type": {"name": "\\ud800"}}', 400),
        ('{"share_type": {"name": "x\x7f"}}', 400),
        ('{"share_type": {"na\\u0007me": "x"}}', 400),
        ('{"share_type": []}', 400),
        ('{"share_type": {"name": 1e999}}', 400),
        ('{"share_type": {"name": "' + "x" * 200_000 + '"}}', 413),
    ],
)
def test_a_body_that_makes_no_sense_is_refused(here, raw, status):
    answer = here.ask("admin", "POST", "/types", raw, **{VERSION: NEWEST})
    assert answer.status == status, answer.body


def test_a_body_of_unknown_length_is_read_to_its_end(here):
    headers = {
        "authorization": here.passwords["admin"],
        "content-type": "application/json",
        "transfer-encoding": "chunked",
    }
    raw = json.dumps({"share_type": {"name": "y", "extra_specs": SPECS}}).encode()
    assert call(here.application, "POST", "/v2/types", raw, headers, says_length=False).status == 200
    raw = json.dumps({"share_type": {"name": "x" * 200_000}}).encode()
    assert call(here.application, "POST", "/v2/types", raw, headers, says_length=False).status == 413


def test_text_of_any_language_and_more_lines_is_taken(here):
    said = {"name": "zanzibár 麻", "description": "one\ntwo\tthree\r\n", "extra_specs": SPECS}
    answer = here.ask("admin", "POST", "/types", {"share_type": said}, **{VERSION: NEWEST})
    assert answer.status == 200
    assert (answer.body["share_type"]["name"], answer.body["share_type"]["description"]) == (
        said["name"],
        said["description"],
    )


@pytest.mark.parametrize("path", ["/types/%00", "/types/%1b", "/types?limit=%00", "/types?%07=1"])
def test_an_address_with_control_characters_is_refused(here, path):
    assert here.ask("member", "GET", path).status == 400


@pytest.mark.parametrize(
    "query",
    ["limit=-1", "limit=x", "limit=1.5", "offset=-1", "offset=x", f"offset={2**63}", "sort_dir=sideways", "limit=²"],
)
def test_a_page_that_cannot_be_is_refused(here, query):
    assert here.ask("member", "GET", f"/types?{query}").status == 400


@pytest.mark.parametrize(
    ("query", "names"), [("limit=2", "ab"), ("limit=2&offset=1", "bc"), ("offset=3", "de"), ("limit=0", "")]
)
def test_a_page_is_what_was_asked_for(here, query, names):
    found = here.ask("member", "GET", f"/types?{query}").body["share_types"]
    assert "".join(one["name"] for one in found)[: len(names)] == names


@pytest.mark.parametrize("query", ["", "&limit=2", "&limit=9223372036854775807"])
def test_clients_that_end_with_an_empty_page_get_one(here, query):
    """As gophercloud asks for it, after each list that it has read without a limit."""
    assert here.ask("member", "GET", f"/types?offset={2**63 - 1}{query}").body["share_types"] == []


def test_no_page_is_longer_than_the_operator_allows(tmp_path):
    with world(tmp_path, worker=False, more="osapi_max_limit = 2") as made:
        for name in "abc":
            made.ask("admin", "POST", "/types", {"share_type": {"name": name, "extra_specs": SPECS}})
        for query in ("", "?limit=3", "?limit=999999999999"):
            assert len(made.ask("member", "GET", f"/types{query}").body["share_types"]) == 2


def test_links_begin_with_the_address_that_the_operator_gave(tmp_path):
    with world(tmp_path, worker=False, more="osapi_share_base_URL = https://shares.example/") as made:
        (version,) = made.ask("none", "GET", "//").body["versions"]
        assert version["links"][1]["href"] == "https://shares.example/v2/"


def test_the_own_door_refuses_in_one_form(here):
    for who, method, path, sent, status in (
        ("none", "GET", "servers", None, 401),
        ("member", "POST", "servers", {"server": {"name": "x", "addresses": ["10.0.0.1"]}}, 403),
        ("member", "GET", "nosuch", None, 404),
        ("member", "GET", "servers/nosuch", None, 404),
        ("member", "PATCH", "servers", None, 405),
        ("member", "GET", "servers?nosuch=1", None, 400),
        ("admin", "POST", "servers", "{bad", 400),
        ("admin", "POST", "servers", '{"server": "' + "x" * 120_000 + '"}', 413),
    ):
        answer = here.ask(who, method, f"//abaca/v1/{path}", sent)
        assert (answer.status, list(answer.body)) == (status, ["error"])
        assert set(answer.body["error"]) == {"code", "title", "message"}
        assert answer.body["error"]["code"] == status
    assert here.ask("none", "GET", "//abaca/v1/servers").headers["www-authenticate"].startswith("Basic")


def test_the_api_describes_itself_to_everybody(here):
    index = here.ask("none", "GET", "//abaca/v1/openapi").body["documents"]
    assert [door["url"].rpartition("8786")[2] for door in index] == [
        "/abaca/v1",
        "/v2",
        "/compute/v2.1",
        "/data-processing/v1.1",
        "/data-processing/v2",
    ]
    for door in index:
        for one in (door["documents"][0], door["documents"][-1]):
            answer = here.ask("none", "GET", "/" + urlsplit(one["href"]).path)
            assert answer.status == 200
            assert answer.headers["content-type"] == "application/json"
            assert answer.body["info"]["version"] == one["version"]
    expected = openapi.document(routing.Table(routes.RESOURCES), 0, versions.DESCRIBED)
    answer = here.ask("none", "GET", "//abaca/v1/openapi/2.0.json")
    assert answer.body == msgspec.json.decode(msgspec.json.encode(expected))
    own = here.ask("none", "GET", "//abaca/v1/openapi.json").body
    described = {f"{method.upper()} {path}" for path, found in own["paths"].items() for method in found}
    assert described == {f"{route.method} {route.path}" for route in routing.Table(routes.OWN).routes}
    assert here.ask("reader", "GET", "//abaca/v1/openapi/2.1000.json").status == 404
    assert "/abaca/v1/openapi" in str(here.ask("none", "GET", "//").body)
    assert here.ask("reader", "GET", "//abaca/v1/").body["docs"].endswith("/docs")


def test_a_page_shows_the_descriptions_and_loads_nothing_from_elsewhere(here):
    for path, media_type in (("docs", "text/html"), ("docs/docs.js", "text/javascript"), ("docs/docs.css", "text/css")):
        status, headers, text = got(here.application, f"/{path}")
        assert status == 200
        assert headers["content-type"].startswith(media_type)
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert not re.search(r"https?://|innerHTML|insertAdjacentHTML|document\.write|<script>|style=|\son\w+=", text)
        for address in re.findall(r'(?:href|src)="([^"]+)"', text):
            assert address == "data:," or got(here.application, address)[0] == 200


def got(application, path):
    """Status, headers and text of a page."""
    started = []
    environ = falcon.testing.create_environ(path)
    text = b"".join(application(environ, lambda status, headers, exc_info=None: started.append((status, headers))))
    status, headers = started[0]
    return int(status[:3]), {name.lower(): value for name, value in headers}, text.decode()


@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (errors.Invalid("x"), 400, "badRequest"),
        (errors.Forbidden(), 403, "forbidden"),
        (errors.NotFound(resource="Share", id="1"), 404, "itemNotFound"),
        (errors.NotAllowed(), 405, "badMethod"),
        (errors.NotAcceptable(version="3", minimum="1", maximum="2"), 406, "computeFault"),
        (errors.Conflict("x"), 409, "conflictingRequest"),
        (errors.Unprocessable(key="share"), 422, "computeFault"),
        (errors.Unavailable(part="Keystone"), 503, "serviceUnavailable"),
        (sqlalchemy.exc.OperationalError("select", {}, Exception("gone")), 503, "serviceUnavailable"),
        (sqlalchemy.exc.TimeoutError(), 503, "serviceUnavailable"),
        (RuntimeError("secret"), 500, "computeFault"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_is_answered_under_the_name_that_clients_know(error, status, name):
    fault = faults.fault(error, "req-1")
    body = json.loads(fault.body)
    assert (fault.status, list(body), body[name]["code"]) == (status, [name], status)
    assert "secret" not in body[name]["message"]
    assert ("retry-after" in fault.headers) is (status == 503)


def test_a_quota_is_named_before_the_message_and_may_be_tried_again_at_once():
    fault = faults.fault(errors.OverLimit("The quota is exceeded.", code="ShareLimitExceeded"), "req-1")
    body = json.loads(fault.body)["overLimit"]
    assert body == {"code": 413, "message": "ShareLimitExceeded: The quota is exceeded.", "retryAfter": "0"}
    assert fault.headers["retry-after"] == "0"


def test_a_bug_is_logged_once_under_the_id_of_the_request(caplog):
    faults.fault(RuntimeError("boom"), "req-42")
    assert [(record.levelname, "req-42" in record.getMessage()) for record in caplog.records] == [("ERROR", True)]


def test_every_status_line_is_known_to_the_server():
    assert all(falcon.code_to_http_status(status)[:3] == str(status) for status in (*faults.NAMES, 200, 202, 204, 302))
