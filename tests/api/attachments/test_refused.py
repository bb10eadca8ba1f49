# SPDX-License-Identifier: Apache-2.0
"""Who may not see the rule that stands in an attachment's way learns nothing of it; who may is told which it is."""

import json

import pytest

from tests.api import seeds
from tests.api.world import world
from tests.conftest import wait_until

NEWEST = {"x-openstack-manila-api-version": "2.99"}
DOOR = "//abaca/v1"


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with world(tmp_path_factory.mktemp("refused"), worker=True) as made:
        made.things = seeds.plant(made)
        yield made


def refused(here, number, **how):
    """A rule of an administrator's that lets a server only read, and its attachment, which shall write."""
    share, address = here.things["/shares/{id}"], f"10.77.0.{number}"
    grant = {"access_type": "ip", "access_to": address, "access_level": "ro", **how}
    answer = here.ask("admin", "POST", f"/shares/{share}/action", {"allow_access": grant}, **NEWEST)
    assert answer.status == 200, answer.body
    machine = {"name": f"refused-{number}", "addresses": [address]}
    server = here.ask("admin", "POST", f"{DOOR}/servers", {"server": machine}).body["server"]["id"]
    wish = {"share_id": share, "server_id": server, "mount_point": f"/mnt/{number}"}
    made = here.ask("member", "POST", f"{DOOR}/attachments", {"attachment": wish}).body["attachment"]["id"]
    wait_until(lambda: shown(here, "member", made)["state"] == "error")
    return answer.body["access"]["id"], made


def shown(here, who, attachment):
    return here.ask(who, "GET", f"{DOOR}/attachments/{attachment}").body["attachment"]


def told(here, who, attachment):
    """All that somebody can read of why an attachment is in error."""
    share = here.things["/shares/{id}"]
    operations = here.ask(who, "GET", f"{DOOR}/operations?resource_id={attachment}").body["operations"]
    messages = here.ask(who, "GET", f"/messages?resource_id={share}", **NEWEST).body["messages"]
    assert operations
    listed = here.ask(who, "GET", f"{DOOR}/attachments").body["attachments"]
    ours = [
        *(one["error_text"] for one in operations if one["error_text"]),
        *(one["user_message"] for one in messages if attachment in one["user_message"]),
        *(one["error"] for one in listed if one["id"] == attachment),
        shown(here, who, attachment)["error"],
    ]
    assert len(ours) >= 4
    return json.dumps(ours)


@pytest.mark.parametrize("who", ["member", "reader"])
def test_a_hidden_rule_is_not_betrayed_by_an_attachment(here, who):
    rule, attachment = refused(here, {"member": 1, "reader": 2}[who], lock_visibility=True)
    found = told(here, who, attachment)
    assert rule not in found
    assert "10.77.0." not in found
    assert "only read" not in found
    assert rule in shown(here, "admin", attachment)["error"]["message"]


def test_a_rule_that_is_seen_is_named(here):
    rule, attachment = refused(here, 3)
    for who in ("admin", "member", "reader"):
        assert (
            f"rule {rule}, which a user made, lets 10.77.0.3 only read"
            in shown(here, who, attachment)["error"]["message"]
        )


def test_a_rule_that_is_hidden_later_is_named_no_more(here):
    rule, attachment = refused(here, 4)
    wish = {"resource_lock": {"resource_id": rule, "resource_type": "access_rule", "resource_action": "show"}}
    assert here.ask("admin", "POST", "/resource-locks", wish, **NEWEST).status == 200
    assert rule not in told(here, "member", attachment)
