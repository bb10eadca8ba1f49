# SPDX-License-Identifier: Apache-2.0
"""No request takes more of a thread's time than docs/operating/limits.md says, whatever its caller makes of it.

What a request costs is compared with a plain list of the same servers, measured in the same moments: it is CPU time of
the thread that answers, so that the load of the machine does not count.
"""

import datetime
import json
import time
from urllib.parse import quote

import pytest

from abaca import errors
from abaca.api.compute import server_filters
from abaca.compute import contract
from tests.api.world import call, world

SERVERS = 40
# A plain list of them takes some milliseconds, so this is about a quarter of a second.
TIMES = 60
DEEP = 60
REGULAR_EXPRESSIONS = {
    "nested repetitions": "((a?){100}){100}b",
    "two of them": "(a{50}){50}",
    "alternatives": "(a|aa)+$",
    "greedy ones": ".*.*.*.*.*.*.*.*.*.*b",
    "many states": "(.?){150}b",
    "a wide set": "[\\pL\\pN]{40}",
    "a large one": "(\\pL{10}){100}",
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with world(tmp_path_factory.mktemp("budget"), worker=False) as made:
        for number in range(SERVERS):
            name = f"{number:03}" + "a" * 250
            sent = {"server": {"name": name, "addresses": [f"10.0.{number}.1", f"2001:db8::{number}"]}}
            assert made.ask("admin", "POST", "//abaca/v1/servers", sent).status == 201
        yield made


def cpu_s(here, method, url, raw=b"", **headers):
    """The least that a request takes of three times; and it is answered or refused."""
    headers = {"authorization": here.passwords["admin"], "content-type": "application/json", **headers}
    taken = []
    for _ in range(3):
        begun = time.thread_time()
        answer = call(here.application, method, url, raw, headers)
        taken.append(time.thread_time() - begun)
        assert answer.status < 500
    return min(taken)


def within_budget(here, method, url, raw=b"", **headers):
    """Whether a request costs no more than `TIMES` that of a plain list, measured now."""
    plain = cpu_s(here, "GET", "/compute/v2.1/servers/detail")
    taken = cpu_s(here, method, url, raw, **headers)
    assert taken < TIMES * plain, f"{taken:.3f} s, a plain list {plain:.4f} s"


@pytest.mark.parametrize("pattern", REGULAR_EXPRESSIONS.values(), ids=REGULAR_EXPRESSIONS)
def test_a_regular_expression_takes_bounded_time(here, pattern):
    for name in ("name", "ip", "ip6"):
        within_budget(here, "GET", f"/compute/v2.1/servers/detail?{name}={quote(pattern)}")
    for name in ("host", "backend", "pool"):
        within_budget(here, "GET", f"/v2/scheduler-stats/pools/detail?{name}={quote(pattern)}")


@pytest.mark.parametrize(
    "query",
    [
        "name~=" + "%25_" * 3000,
        "name~=" + "a" * 16_000,
        "metadata=" + quote(repr({f"k{number}": "v" for number in range(50)})),
        "metadata=" + quote("{'a': " + "-" * 9000 + "1}"),
        "metadata=" + quote("[" * 5000),
        "&".join(f"a{number}=b" for number in range(128)),
        "&" * 16_000,
        "a=" + "%41" * 5000,
        "offset=999999999999999999&limit=999999999999999999",
    ],
    ids=lambda query: query[:24],
)
def test_a_query_takes_bounded_time(here, query):
    for path in ("/v2/shares/detail", "/compute/v2.1/servers/detail", "/abaca/v1/servers"):
        within_budget(here, "GET", f"{path}?{query}", **{"x-openstack-manila-api-version": "2.99"})


@pytest.mark.parametrize(
    "sent",
    [
        {"share": {"share_proto": "NFS", "size": 1, "metadata": {f"k{number}": "v" for number in range(9000)}}},
        {"share": {f"k{number}": number for number in range(9000)}},
        {"share": {"share_proto": "NFS", "name": "\u0007" * 15_000}},
        {"share": {"share_proto": [[]] * 30_000}},
        {"share": {"share_proto": "x" * 110_000}},
        {"share": {"share_proto": [10**4000] * 20}},
        {"cluster": {"name": "long", "servers": ["n" * 30_000 + "[1-10000]"]}},
        {"cluster": {"name": "many", "servers": ["[1]" * 20_000 + "[1-10000]"]}},
        {"cluster": {"name": "stars", "selector": {"name": "*a" * 127 + "b"}}},
        {"cluster": {"name": "groups", "node_groups": [{"name": "g", "servers": ["n[1-10000]"]}] * 1500}},
    ],
    ids=["much metadata", "many fields", "control characters", "a long list", "a long text", "long numbers",
         "a hostlist of long names", "a hostlist of many ranges", "a selector of many stars", "many node groups"],
)  # fmt: skip
def test_a_body_takes_bounded_time(here, sent):
    for path in ("/v2/shares", "/abaca/v1/servers", "/v2/shares/x/action", "/abaca/v1/clusters"):
        within_budget(here, "POST", path, json.dumps(sent).encode()[:114_000])


@pytest.mark.parametrize(
    "raw", ["[" * DEEP + '"\\u0001"' + "]" * DEEP, '{"a":' * 900 + "1" + "}" * 900, "[" * 600 + '"\\b"' + "]" * 600]
)
def test_a_body_that_is_nested_deeply_is_refused(here, raw):
    within_budget(here, "POST", "/v2/shares", b'{"share": {"share_proto": %s}}' % raw.encode())
    sent = '{"share": {"share_proto": "NFS", "size": RAW}}'.replace("RAW", raw)
    answer = here.ask("admin", "POST", "/shares", sent)
    assert answer.status == 400
    assert "levels deep" in answer.body["badRequest"]["message"] or "control" in answer.body["badRequest"]["message"]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("&".join(f"a{number}=b" for number in range(129)), "128 parameters"),
        ("name=" + "a" * 16_384, "16384 characters"),
    ],
)
def test_a_query_that_is_too_long_says_how_long_it_may_be(here, query, says):
    for door in ("/shares", "//compute/v2.1/servers", "//abaca/v1/servers"):
        answer = here.ask("admin", "GET", f"{door}?{query}")
        assert answer.status == 400
        assert says in next(iter(answer.body.values()))["message"]


def test_a_list_looks_through_so_many_servers_and_no_more():
    server = contract.Server(id="1", name="web", project_id="p", created_at=datetime.datetime(2026, 1, 1))  # noqa: DTZ001
    agrees = server_filters.predicate({"hostname": "web"})
    assert all(agrees(server) for _ in range(server_filters.MOST_LOOKED_AT))
    with pytest.raises(errors.Invalid, match="narrow the list down"):
        agrees(server)
