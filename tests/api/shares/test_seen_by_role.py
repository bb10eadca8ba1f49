# SPDX-License-Identifier: Apache-2.0
"""What of access rules each role sees: as upstream's policies say, and what an operator can take away."""

import pytest

from abaca.db.tables.shares import access_rules
from tests import planting
from tests.api import seeds
from tests.api.world import world

NEWEST = {"x-openstack-manila-api-version": "2.99"}
KEY = "AQDzCxRg-made-up"
NARROW = '"share_access_rule:get_access_key": "rule:admin_or_project_member"\n'


@pytest.fixture(scope="module", params=["as upstream", "narrowed"])
def here(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("seen")
    if request.param == "narrowed":
        (directory / "policy.yaml").write_text(NARROW)
    with world(directory, worker=True) as made:
        made.things = seeds.plant(made)
        made.readers_see_keys = request.param == "as upstream"
        rule = made.things["/share-access-rules/{id}"]
        for lock in made.ask("admin", "GET", "/resource-locks?all_projects=1", **NEWEST).body["resource_locks"]:
            made.ask("admin", "DELETE", f"/resource-locks/{lock['id']}", **NEWEST)
        planting.put(made.db, access_rules, access_rules.c.id == rule, access_key=KEY)
        yield made


@pytest.mark.parametrize("who", ["admin", "member", "reader"])
def test_a_role_sees_of_rules_what_its_policies_say(here, who):
    share, rule = here.things["/shares/{id}"], here.things["/share-access-rules/{id}"]
    key = KEY if here.readers_see_keys or who != "reader" else "******"
    shown = [
        here.ask(who, "GET", f"/share-access-rules/{rule}", **NEWEST).body["access"],
        *here.ask(who, "GET", f"/share-access-rules?share_id={share}", **NEWEST).body["access_list"],
        *here.ask(who, "POST", f"/shares/{share}/action", {"access_list": None}, **OLD).body["access_list"],
    ]
    assert {(one["access_to"], one["access_level"], one["access_key"]) for one in shown if one["id"] == rule} == {
        ("10.0.0.1", "rw", key)
    }
    asked = here.ask(who, "GET", f"/share-access-rules?share_id={share}&access_key={KEY}", **NEWEST)
    assert asked.status == (200 if key == KEY else 403)


OLD = {"x-openstack-manila-api-version": "2.44"}


def test_nobody_of_another_project_sees_any(here):
    share, rule = here.things["/shares/{id}"], here.things["/share-access-rules/{id}"]
    assert here.ask("other", "GET", f"/share-access-rules/{rule}", **NEWEST).status == 404
    answer = here.ask("other", "GET", f"/share-access-rules?share_id={share}", **NEWEST)
    assert KEY not in str(answer.body)


def test_how_to_connect_tells_nothing_of_a_rule_that_is_hidden(here):
    share, server = here.things["/shares/{id}"], here.things["/servers/{server_id}"]
    said = {"name": "hidden", "addresses": ["10.66.0.7"]}
    made = here.ask("admin", "POST", "//abaca/v1/servers", {"server": said})
    server = made.body["server"]["id"]
    grant = {"access_type": "ip", "access_to": "10.66.0.0/24", "lock_visibility": True}
    assert here.ask("admin", "POST", f"/shares/{share}/action", {"allow_access": grant}, **NEWEST).status == 200
    here.settle()
    path = f"//abaca/v1/shares/{share}/connect?server={server}"
    for who, missing in (("admin", []), ("member", ["10.66.0.7"]), ("reader", ["10.66.0.7"])):
        answer = here.ask(who, "GET", path)
        assert answer.body["connect"]["not_let_in"] == missing, who
