# SPDX-License-Identifier: Apache-2.0
"""What the own door takes: names where ids stand, values that can be, and one answer for many servers."""

import msgspec
import pytest

from abaca.compute.contract import Wanted
from abaca.compute.inventory import Inventory
from tests.api.attachments.test_attachments import NEWEST, until_gone
from tests.api.world import world

DOOR = "//abaca/v1"
FILTERS = {
    "attachments": ("state=perfect", "mode=pigeon", "all_projects=perhaps"),
    "servers": ("status=BUSY", "ip=999.1.1.1", "all_projects=perhaps"),
    "operations": ("state=perfect", "kind=share-paint", "resource_type=castle", "live=perhaps", "all_projects=perhaps"),
    "shares": ("status=perfect", "id_prefix=zz"),
    "clusters": ("status=perfect", "id_prefix=zz", "all_projects=perhaps"),
    "share-networks": ("status=perfect", "id_prefix=zz", "all_projects=perhaps"),
    "share-servers": ("status=perfect", "id_prefix=zz"),
    "events": ("event_type=share.paint.end", "resource_type=castle"),
    "operations/nosuch/findings": ("kind=boring",),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with world(tmp_path_factory.mktemp("names"), worker=True) as made:
        specs = {"driver_handles_share_servers": "False"}
        made.ask("admin", "POST", "/types", {"share_type": {"name": "default", "extra_specs": specs}}, **NEWEST)
        for number, name in enumerate(("web", "store"), 1):
            said = {"name": name, "addresses": [f"10.9.0.{number}"]}
            assert made.ask("admin", "POST", f"{DOOR}/servers", {"server": said}).status == 201
        for name in ("payroll", "twin", "twin"):
            wish = {"share": {"share_proto": "NFS", "size": 1, "name": name}}
            assert made.ask("member", "POST", "/shares", wish, **NEWEST).status == 200
        made.settle()
        yield made


@pytest.mark.parametrize("path", FILTERS)
def test_a_value_that_a_filter_cannot_have_is_refused(here, path):
    for query in FILTERS[path]:
        answer = here.ask("admin", "GET", f"{DOOR}/{path}?{query}")
        assert answer.status == 400, (query, answer.body)
        name, _, value = query.partition("=")
        assert name in answer.body["error"]["message"] or value in answer.body["error"]["message"]
        if name not in ("ip", "id_prefix") and value != "perhaps":
            assert "must be one of: " in answer.body["error"]["message"]


def test_the_values_that_a_filter_can_have_are_described(here):
    own = here.ask("none", "GET", f"{DOOR}/openapi.json").body
    said = {one["name"]: one["schema"] for one in own["paths"]["/attachments"]["get"]["parameters"]}
    for state in said["state"]["enum"]:
        assert here.ask("reader", "GET", f"{DOOR}/attachments?state={state}").status == 200


def test_shares_and_servers_go_by_their_names(here):
    wish = {"share_id": "payroll", "server_id": "web"}
    answer = here.ask("member", "POST", f"{DOOR}/attachments", {"attachment": wish})
    assert answer.status == 202, answer.body
    made = answer.body["attachment"]
    server = here.ask("reader", "GET", f"{DOOR}/servers/web").body["server"]
    assert (made["server_id"], server["name"]) == (server["id"], "web")
    here.settle()
    for query in ("share_id=payroll", "server_id=web", "share_id=payroll&server_id=web"):
        found = here.ask("reader", "GET", f"{DOOR}/attachments?{query}").body["attachments"]
        assert [one["id"] for one in found] == [made["id"]]
    assert here.ask("reader", "GET", f"{DOOR}/attachments?server_id=store").body["attachments"] == []
    said = here.ask("reader", "GET", f"{DOOR}/shares/payroll/connect?server=web")
    assert said.body["connect"]["not_let_in"] == []
    changed = here.ask("admin", "PUT", f"{DOOR}/servers/web", {"server": {"description": "front"}})
    assert (changed.status, changed.body["server"]["id"]) == (200, server["id"])
    assert here.ask("member", "DELETE", f"{DOOR}/attachments/{made['id']}").status == 202
    until_gone(here, made["id"])


def test_a_name_of_two_shares_is_no_name(here):
    answer = here.ask("member", "POST", f"{DOOR}/attachments", {"attachment": {"share_id": "twin", "server_id": "web"}})
    assert answer.status == 409
    assert "id" in answer.body["error"]["message"]


class Twins(Inventory):
    """Servers of which several may have one name, as those of a Nova may."""

    def named(self, project_id, names):
        found = self.list(Wanted(project_id=project_id))
        return [one for one in (msgspec.structs.replace(one, name="twin") for one in found) if one.name in names]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "attachments", {"attachment": {"share_id": "payroll", "server_id": "twin"}}),
        ("POST", "attachments", {"attachment": {"share_id": "payroll", "server_ids": ["twin"]}}),
        ("GET", "attachments?server_id=twin", None),
        ("GET", "shares/payroll/connect?server=twin", None),
    ],
)
def test_a_name_of_two_servers_is_no_name(here, method, path, body):
    there = here.serving_by(here.settings, Twins(here.db))
    servers = here.ask("admin", "GET", f"{DOOR}/servers").body["servers"]
    answer = there.ask("member", method, f"{DOOR}/{path}", body)
    assert answer.status == 409
    assert all(one["id"] in answer.body["error"]["message"] for one in servers)


def test_names_mean_nothing_in_another_project(here):
    answer = here.ask("other", "GET", f"{DOOR}/servers/web")
    assert answer.status == 404
    wish = {"attachment": {"share_id": "payroll", "server_id": "web"}}
    assert here.ask("other", "POST", f"{DOOR}/attachments", wish).status == 404


def test_of_many_servers_each_refusal_is_told(here):
    wish = {"share_id": "payroll", "server_ids": ["store", "nosuch", "web", "store"]}
    answer = here.ask("member", "POST", f"{DOOR}/attachments", {"attachment": wish})
    assert answer.status == 202
    assert len(answer.body["attachments"]) == 2
    assert [(one["server_id"], one["code"]) for one in answer.body["refused"]] == [("nosuch", 404)]
