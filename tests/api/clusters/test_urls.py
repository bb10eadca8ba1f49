# SPDX-License-Identifier: Apache-2.0
"""manila:// URLs are resolved to paths on the nodes of a cluster, and mounted there when that is asked for."""

import re

import pytest

from tests.api.clusters.asking import DOOR, attachments, made, server, share, until


def files(world, cluster_id, url, who="member"):
    return world.ask(who, "GET", f"{DOOR}/{cluster_id}/files?url={url}")


def test_a_file_is_where_each_group_has_its_share(world):
    one, two = share(world), share(world)
    groups = [
        {"name": "masters", "servers": [server(world)], "shares": [{"id": one, "path": "/srv/state"}]},
        {"name": "workers", "servers": [server(world)], "shares": [{"id": two, "path": "/srv/replaced"}]},
    ]
    found = made(world, node_groups=groups, shares=[{"id": two, "path": "/srv/data"}])
    places = files(world, found["id"], f"manila://{one}/jobs/a%25b.jar").body["places"]
    path = "/srv/state/jobs/a%b.jar"
    assert places == [{"node_group": "masters", "path": path, "url": "file:///srv/state/jobs/a%25b.jar"}]
    places = files(world, found["id"], f"manila://{two}/in").body["places"]
    assert {(one["node_group"], one["path"]) for one in places} == {
        ("masters", "/srv/data/in"),
        ("workers", "/srv/data/in"),
    }
    assert files(world, found["id"], f"manila://{share(world)}/x").body["places"] == []
    assert files(world, found["id"], f"manila://{one}/x", "other").status == 404


def test_a_share_is_mounted_when_a_file_on_it_is_asked_for(world):
    share_id, node = share(world), server(world)
    found = made(world, servers=[node])
    body = {"file": {"url": f"manila://{share_id}/in/a", "read_only": True}}
    for _ in range(2):
        answer = world.ask("member", "POST", f"{DOOR}/{found['id']}/files", body)
        assert answer.status == 202
        assert [one["path"] for one in answer.body["places"]] == [f"/mnt/{share_id}/in/a"]
    assert until(world, found["id"], "active")["shares"] == [
        {"id": share_id, "path": f"/mnt/{share_id}", "access_level": "ro"}
    ]
    assert [one["state"] for one in attachments(world, share_id=share_id)] == ["active"]


@pytest.mark.parametrize(
    "url",
    [
        *("", "manila", "file:///x", "manila://data/x", "manila://{}", "manila://{}/", "manila://{}/../x"),
        *("manila://{}//x", "manila://{}/a/./b", "manila://{}/x?y", "manila://{}/" + "x" * 3000, "manila://[::1/x"),
    ],
)
def test_what_names_no_file_is_refused(world, url):
    share_id = "00000000-0000-4000-8000-000000000000"
    found = world.ask("member", "GET", f"{DOOR}?limit=1").body["clusters"][0]["id"]
    body = {"file": {"url": url.format(share_id)}}
    answer = world.ask("member", "POST", f"{DOOR}/{found}/files", body)
    assert answer.status == 400
    assert {"URL", "manila"} & set(re.findall(r"\w+", answer.body["error"]["message"]))
    # a share that there is not
    body = {"file": {"url": f"manila://{share_id}/x"}}
    assert world.ask("member", "POST", f"{DOOR}/{found}/files", body).status == 404
