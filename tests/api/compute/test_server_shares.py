# SPDX-License-Identifier: Apache-2.0
"""The shares of a server through the compute door: Nova's calls and the two actions, on the same attachments."""

import pytest

from tests.api.attachments import test_attachments as own
from tests.api.attachments.test_attachments import NEWEST, attached, rules, server, share, until, world  # noqa: F401 (fixture)
from tests.conftest import wait_until

V297 = {"openstack-api-version": "compute 2.97"}


def ask(world, method, path, body=None, who="member", version="2.97"):  # noqa: F811
    return world.ask(
        who, method, f"//compute/v2.1/servers/{path}", body, **{"openstack-api-version": f"compute {version}"}
    )


def is_gone(world, server_id, share_id):  # noqa: F811
    return lambda: ask(world, "GET", f"{server_id}/shares/{share_id}").status == 404


def test_novas_calls_attach_show_list_and_detach(world):  # noqa: F811
    share_id, server_id = share(world), server(world)
    answer = ask(world, "POST", f"{server_id}/shares", {"share": {"share_id": share_id, "tag": "data"}})
    assert answer.status == 201
    assert answer.body == {"share": {"share_id": share_id, "status": "attaching", "tag": "data"}}
    world.settle()
    shown = {"share_id": share_id, "status": "active", "tag": "data"}
    assert ask(world, "GET", f"{server_id}/shares").body == {"shares": [shown]}
    assert ask(world, "GET", f"{server_id}/shares/{share_id}").body == {"share": shown}
    for_admins = ask(world, "GET", f"{server_id}/shares/{share_id}", who="admin").body["share"]
    assert for_admins["uuid"]
    assert for_admins["export_location"].startswith("10.0.0.10:/")
    answer = ask(world, "DELETE", f"{server_id}/shares/{share_id}")
    assert (answer.status, answer.body) == (200, None)
    wait_until(is_gone(world, server_id, share_id))
    assert ask(world, "DELETE", f"{server_id}/shares/{share_id}").status == 404


def test_the_two_actions_attach_and_detach_and_the_server_shows_it(world):  # noqa: F811
    share_id, server_id = share(world), server(world)
    wish = {"share_attach": {"share_id": share_id, "mount_point": "/net/mymount"}}
    answer = ask(world, "POST", f"{server_id}/action", wish, version="2.1")
    assert (answer.status, answer.body) == (202, None)
    world.settle()
    said = {"id": share_id, "mount_point": "/net/mymount", "tag": share_id, "status": "active"}
    for path, key in ((server_id, "server"), ("detail", "servers")):
        body = ask(world, "GET", path, version="2.1").body[key]
        shown = body if key == "server" else next(one for one in body if one["id"] == server_id)
        assert shown["os-extended-shares:shares_attached"] == [said]
    elsewhere = {"share_detach": {"share_id": share_id, "mount_point": "/net/other"}}
    assert ask(world, "POST", f"{server_id}/action", elsewhere).status == 409
    gone = {"share_detach": {"share_id": share_id, "mount_point": "/net/mymount"}}
    assert ask(world, "POST", f"{server_id}/action", gone, version="2.1").status == 202
    wait_until(is_gone(world, server_id, share_id))
    wait_until(lambda: rules(world, share_id) == {})


def test_all_doors_show_the_same_attachment(world):  # noqa: F811
    share_id, server_id = share(world), server(world)
    found = attached(world, share_id, server_id, mount_point="/srv/both")
    assert ask(world, "GET", f"{server_id}/shares/{share_id}").body["share"]["status"] == "active"
    assert ask(world, "GET", f"{server_id}/shares/{share_id}", who="admin").body["share"]["uuid"] == found["id"]


def test_a_server_that_is_off_holds_its_share_inactive(world):  # noqa: F811
    share_id, server_id = share(world), server(world)
    change = {"server": {"status": "SHUTOFF"}}
    assert world.ask("admin", "PUT", f"//abaca/v1/servers/{server_id}", change).status == 200
    assert ask(world, "POST", f"{server_id}/shares", {"share": {"share_id": share_id}}).status == 201
    world.settle()
    assert ask(world, "GET", f"{server_id}/shares/{share_id}").body["share"]["status"] == "inactive"
    assert [state for _, state in rules(world, share_id).values()] == ["active"]
    ask(world, "DELETE", f"{server_id}/shares/{share_id}")
    wait_until(is_gone(world, server_id, share_id))


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"share": {"share_id": "00000000-0000-4000-8000-000000000000"}}, 404),
        ({"share": {"share_id": "nothing"}}, 400),
        ({"share": {"share_id": "00000000-0000-4000-8000-000000000000", "tag": "a b"}}, 400),
        ({"share": {"share_id": "SHARE", "tag": None}}, 400),
        ({"share": {"share_id": "SHARE"}, "more": 1}, 400),
        ({"share": {}}, 400),
        ({"share": {"share_id": "SHARE", "tag": "a b"}}, 400),
        ({"share": {"share_id": "SHARE", "tag": "x" * 256}}, 400),
        ({"share": {"share_id": "SHARE", "more": 1}}, 400),
        ({"share": {"share_id": 7}}, 400),
        ({}, 400),
        (None, 400),
    ],
    ids=str,
)
def test_bad_input_is_refused_in_novas_form(world, body, status):  # noqa: F811
    server_id = own.server_of(world)
    if body and body.get("share", {}).get("share_id") == "SHARE":
        body = {**body, "share": {**body["share"], "share_id": own.share_of(world)}}
    answer = ask(world, "POST", f"{server_id}/shares", body)
    assert answer.status == status, answer
    (name,) = answer.body
    assert name in ("badRequest", "itemNotFound")
    assert answer.body[name]["code"] == status


def test_the_kind_of_json_that_the_version_document_names_is_read(world):  # noqa: F811
    document = world.ask("none", "GET", "//compute/v2.1/").body["version"]
    share_id, server_id = share(world), server(world)
    for media in (document["media-types"][0]["type"], "Application/JSON"):
        path = f"//compute/v2.1/servers/{server_id}/shares"
        answer = world.ask("member", "POST", path, {"share": {"share_id": share_id}}, **V297, **{"content-type": media})
        assert answer.status == 201, answer
        assert ask(world, "DELETE", f"{server_id}/shares/{share_id}").status == 200
        wait_until(is_gone(world, server_id, share_id))


@pytest.mark.parametrize(("path", "body"), [("action", {"share_attach": {"share_id": "x"}}), ("shares", {"share": {}})])
def test_who_forgets_to_say_that_it_is_json_reads_what_is_missing(world, path, body):  # noqa: F811
    form = {"content-type": "application/x-www-form-urlencoded"}  # what curl says of its own
    answer = world.ask("member", "POST", f"//compute/v2.1/servers/{server(world)}/{path}", body, **V297, **form)
    assert answer.status == 400
    assert "Content-Type: application/json" in answer.body["badRequest"]["message"]


def test_conflicts_have_novas_code(world):  # noqa: F811
    first, second, server_id = share(world), share(world), server(world)
    wish = {"share": {"share_id": first, "tag": "t"}}
    assert ask(world, "POST", f"{server_id}/shares", wish).status == 201
    assert ask(world, "POST", f"{server_id}/shares", wish).status == 409
    assert ask(world, "POST", f"{server_id}/shares", {"share": {"share_id": second, "tag": "t"}}).status == 409
    cifs = share(world, proto="CIFS")
    assert ask(world, "POST", f"{server_id}/shares", {"share": {"share_id": cifs}}).status == 409


def test_what_does_not_exist_or_is_too_old_is_not_found(world):  # noqa: F811
    share_id, server_id = own.share_of(world), own.server_of(world)
    assert ask(world, "GET", f"{server_id}/shares", version="2.96").status == 404
    assert ask(world, "POST", f"{server_id}/shares", {"share": {"share_id": share_id}}, version="2.96").status == 404
    assert ask(world, "GET", f"{server_id}/shares/{share_id}").status == 404
    assert ask(world, "GET", "nobody/shares").status == 404
    assert ask(world, "GET", f"{server_id}/shares", who="other").status == 404
    assert ask(world, "GET", f"{server_id}/shares?limit=1").status == 400
    assert (
        ask(world, "POST", f"{server_id}/action", {"share_attach": {"share_id": share_id}}, who="reader").status == 403
    )
    assert ask(world, "POST", f"{server_id}/action", {"share_attach": {}}).status == 400
    bad = {"share_attach": {"share_id": share_id, "mount_point": "../etc"}}
    assert ask(world, "POST", f"{server_id}/action", bad).status == 400
