# SPDX-License-Identifier: Apache-2.0
"""How much metadata there may be, by every way in; and what of it only administrators see."""

from urllib.parse import quote

import pytest
import sqlalchemy as sa

from tests.api import seeds
from tests.api.test_surface import ALL, is_newest, start
from tests.api.world import world

NEWEST = {"x-openstack-manila-api-version": "2.99"}
ITEMS, CHARACTERS, OF_PROJECT, SUBNETS = 5, 600, 2000, 4
LIMITS = f"""
[limits]
metadata_items = {ITEMS}
metadata_characters = {CHARACTERS}
project_metadata_characters = {OF_PROJECT}
network_subnets = {SUBNETS}
"""
MANY = {f"k{number}": "v" for number in range(ITEMS + 1)}
LONG = {"k": "v" * CHARACTERS}
RESERVED = "__affinity_same_host"


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with world(tmp_path_factory.mktemp("metadata"), worker=True, more=LIMITS) as made:
        made.things = seeds.plant(made)
        yield made


def body_of(pairs):
    return {"share": {"share_proto": "NFS", "size": 1, "metadata": pairs}}


def ways_in(things):
    """Every request that writes metadata: who asks, method, path, and the body by what shall be written."""
    share = f"/shares/{things['/shares/{id}']}"
    location = f"{share}/export_locations/{things['/shares/{id}/export_locations/{location_id}']}"
    rule = f"/share-access-rules/{things['/share-access-rules/{id}']}"
    snapshot = f"/snapshots/{things['/snapshots/{id}']}"
    network = f"/share-networks/{things['/share-networks/{id}']}"
    subnet = f"{network}/subnets/{things['/share-networks/{id}/subnets/{subnet_id}']}"
    server = f"//abaca/v1/servers/{things['/servers/{server_id}']}"
    grant = {"access_type": "ip", "access_to": "10.7.0.1"}
    return {
        "a new share": ("member", "POST", "/shares", body_of),
        "more of a share": ("member", "POST", f"{share}/metadata", lambda m: {"metadata": m}),
        "all of a share": ("member", "PUT", f"{share}/metadata", lambda m: {"metadata": m}),
        "a new rule": ("member", "POST", f"{share}/action", lambda m: {"allow_access": {**grant, "metadata": m}}),
        "more of a rule": ("member", "PUT", f"{rule}/metadata", lambda m: {"metadata": m}),
        "more of a location": ("member", "POST", f"{location}/metadata", lambda m: {"metadata": m}),
        "all of a location": ("member", "PUT", f"{location}/metadata", lambda m: {"metadata": m}),
        "a new snapshot": (
            "member", "POST", "/snapshots",
            lambda m: {"snapshot": {"share_id": things["/shares/{id}"], "metadata": m}},
        ),
        "a snapshot that is taken over": (
            "admin", "POST", "/snapshots/manage",
            lambda m: {"snapshot": {"share_id": things["/shares/{id}"], "provider_location": "there", "metadata": m}},
        ),
        "more of a snapshot": ("member", "POST", f"{snapshot}/metadata", lambda m: {"metadata": m}),
        "all of a snapshot": ("member", "PUT", f"{snapshot}/metadata", lambda m: {"metadata": m}),
        "a new subnet": ("member", "POST", f"{network}/subnets", lambda m: {"share-network-subnet": {"metadata": m}}),
        "a new subnet by the own door": (
            "member", "POST", f"//abaca/v1{network}/subnets", lambda m: {"subnet": {"metadata": m}},
        ),
        "more of a subnet": ("member", "POST", f"{subnet}/metadata", lambda m: {"metadata": m}),
        "all of a subnet": ("member", "PUT", f"{subnet}/metadata", lambda m: {"metadata": m}),
        "many new servers": (
            "admin", "POST", "//abaca/v1/servers/register",
            lambda m: {"servers": [{"name": "x", "project_id": "p", "addresses": ["10.7.0.2"], "metadata": m}]},
        ),
        "a new server": (
            "admin", "POST", "//abaca/v1/servers",
            lambda m: {"server": {"name": "x", "addresses": ["10.7.0.2"], "metadata": m}},
        ),
        "all of a server": ("admin", "PUT", server, lambda m: {"server": {"metadata": m}}),
    }  # fmt: skip


class Places(dict):
    """What stands in a path for each place of it: its own placeholder."""

    def __missing__(self, at):
        return at[at.rindex("{") :]


WAYS = tuple(ways_in(Places()))
# What writes one pair: its path is that of all of them and the key.
OF_ONE = ("/shares/{id}", "/snapshots/{id}", "/share-networks/{id}/subnets/{subnet_id}")
# These say nothing of pairs that anybody keeps: who asks about a subnet, and what it would be.
ASK_ONLY = {("POST", "//abaca/v1/share-networks/{id}/subnets/plan")}


def test_no_way_in_is_forgotten():
    known = {(method, path) for _, method, path, _ in ways_in(Places()).values()}
    known |= {("POST", f"{at}/metadata/{{key}}") for at in OF_ONE} | ASK_ONLY
    there = {
        (route.method, f"{start(route)}{route.path}")
        for route in ALL
        if is_newest(route) and route.body is not None and {"metadata", "meta"} & set(route.body.__annotations__)
    }
    assert there - known == set()


@pytest.mark.parametrize("way", WAYS)
def test_a_thing_has_so_much_metadata_and_no_more(here, way):
    who, method, path, body = ways_in(here.things)[way]
    for pairs, figure in ((MANY, str(ITEMS)), (LONG, str(CHARACTERS))):
        answer = here.ask(who, method, path, body(pairs), **NEWEST)
        assert answer.status == 400, answer.body
        assert f"at most {figure}" in next(iter(answer.body.values()))["message"]


@pytest.mark.parametrize("place", OF_ONE)
def test_a_single_item_counts_with_the_others(here, place):
    path = f"{seeds.filled(place, here.things)}/metadata"
    before = here.ask("member", "GET", path, **NEWEST).body["metadata"]
    of_many = {**before, **MANY}
    assert here.ask("member", "PUT", path, {"metadata": dict([*of_many.items()][:ITEMS])}, **NEWEST).status == 200
    answer = here.ask("member", "POST", f"{path}/new", {"meta": {"new": "v"}}, **NEWEST)
    assert (answer.status, f"at most {ITEMS}" in str(answer.body)) == (400, True)
    key = next(iter(set(MANY) & set(here.ask("member", "GET", path, **NEWEST).body["metadata"])))
    assert here.ask("member", "POST", f"{path}/{key}", {"meta": {key: "w"}}, **NEWEST).status == 200
    assert here.ask("member", "PUT", path, {"metadata": {"k": "v", **before}}, **NEWEST).status == 200


def test_a_project_has_so_much_metadata_and_no_more(here):
    pairs = {"k": "v" * (CHARACTERS - 1)}
    made = []
    while (answer := here.ask("member", "POST", "/shares", body_of(pairs), **NEWEST)).status == 200:
        made.append(answer.body["share"]["id"])
        assert len(made) <= OF_PROJECT // CHARACTERS
    assert answer.status == 413
    assert str(OF_PROJECT) in answer.body["overLimit"]["message"]
    assert here.ask("other", "POST", "/shares", body_of(pairs), **NEWEST).status == 200
    # less is always taken
    answer = here.ask("member", "PUT", f"/shares/{made[0]}/metadata", {"metadata": {"k": "v"}}, **NEWEST)
    assert answer.status == 200
    here.settle()
    for share_id in made:
        assert here.ask("member", "DELETE", f"/shares/{share_id}", **NEWEST).status == 202


def test_a_share_with_metadata_takes_no_statement_more(here):
    taken = []
    for pairs in ({}, {"k": "v"}):
        statements = []

        def note(_connection, _cursor, statement, *_, statements=statements):
            statements.append(statement)

        sa.event.listen(here.db._writer, "before_cursor_execute", note)
        made = here.ask("member", "POST", "/shares", body_of(pairs), **NEWEST)
        sa.event.remove(here.db._writer, "before_cursor_execute", note)
        here.settle()
        assert here.ask("member", "DELETE", f"/shares/{made.body['share']['id']}", **NEWEST).status == 202
        taken.append([statement.split("(")[0].split("WHERE")[0] for statement in statements])
    assert taken[0] == taken[1] != []


def test_reserved_keys_are_seen_and_asked_for_by_administrators_alone(here):
    share = here.things["/shares/{id}"]
    sent = {"metadata": {RESERVED: "secret", "k": "v"}}
    assert here.ask("admin", "PUT", f"/shares/{share}/metadata", sent, **NEWEST).body["metadata"][RESERVED] == "secret"
    pairs = quote(repr({RESERVED: "secret"}))
    for who, is_seen in (("admin", True), ("member", False), ("reader", False)):
        shown = [
            here.ask(who, "GET", f"/shares/{share}", **NEWEST).body["share"]["metadata"],
            here.ask(who, "GET", f"/shares/{share}/metadata", **NEWEST).body["metadata"],
            next(
                one["metadata"]
                for one in here.ask(who, "GET", "/shares/detail", **NEWEST).body["shares"]
                if one["id"] == share
            ),
        ]
        assert [RESERVED in found for found in shown] == [is_seen] * 3
        assert all(found["k"] == "v" for found in shown)
        status = here.ask(who, "GET", f"/shares/{share}/metadata/{RESERVED}", **NEWEST).status
        assert status == (200 if is_seen else 404)
        for path in ("/shares", "/shares/detail"):
            asked = here.ask(who, "GET", f"{path}?metadata={pairs}", **NEWEST)
            assert asked.status == (200 if is_seen else 403)
    answer = here.ask("member", "POST", f"/shares/{share}/metadata", {"metadata": {"l": "w"}}, **NEWEST)
    assert answer.body["metadata"] == {"k": "v", "l": "w"}
    answer = here.ask("member", "PUT", f"/shares/{share}/metadata", {"metadata": {"k": "v"}}, **NEWEST)
    assert answer.body["metadata"] == {"k": "v"}
    assert RESERVED in here.ask("admin", "GET", f"/shares/{share}/metadata", **NEWEST).body["metadata"]


def test_a_share_network_has_so_many_subnets_and_no_more(here):
    network = here.ask("member", "POST", "/share-networks", {"share_network": {}}, **NEWEST).body["share_network"]["id"]
    path, ours = f"/share-networks/{network}", f"//abaca/v1/share-networks/{network}/subnets"
    for _ in range(SUBNETS - 1):
        answer = here.ask("member", "POST", f"{path}/subnets", {"share-network-subnet": {}}, **NEWEST)
        assert answer.status == 200, answer.body
    for asked, body in (
        (f"{path}/subnets", {"share-network-subnet": {}}),
        (f"{path}/action", {"share_network_subnet_create_check": {}}),
        (ours, {"subnet": {}}),
        (f"{ours}/plan", {"subnet": {}}),
    ):
        answer = here.ask("member", "POST", asked, body, **NEWEST)
        assert (answer.status, f"at most {SUBNETS}" in str(answer.body)) == (400, True), (asked, answer.body)
    assert len(here.ask("member", "GET", f"{path}/subnets", **NEWEST).body["share_network_subnets"]) == SUBNETS
