# SPDX-License-Identifier: Apache-2.0
"""What machines are given that shall mount a cluster's shares by themselves."""

import yaml

from abaca.db.tables.shares import shares
from tests import planting
from tests.api.clusters.asking import DOOR, made, server, share
from tests.api.world import OTHER_PROJECT, PROJECT


def connect(world, cluster_id, query="", who="reader"):
    return world.ask(who, "GET", f"{DOOR}/{cluster_id}/connect?{query}")


def refusal(answer, status):
    assert answer.status == status, answer
    return answer.body["error"]["message"]


def test_the_documents_have_all_shares_of_all_nodes(world):
    one, two = share(world), share(world)
    said = [{"id": one}, {"id": two, "path": "/srv/data", "access_level": "ro"}]
    found = made(world, servers=[server(world, ip="10.40.0.1")], shares=said, network="10.40.0.0/16")
    told = connect(world, found["id"], "os=fedora").body["connect"]
    assert (told["os"], told["network"], told["node_group"]) == ("fedora", "10.40.0.0/16", None)
    first, second = told["shares"]
    assert (first["mount_point"], first["access_level"]) == (f"/mnt/{one}", "rw")
    assert (second["mount_point"], second["access_level"]) == ("/srv/data", "ro")
    assert second["fstab"].startswith(f"{second['export_location']} /srv/data nfs4 ro,vers=4.2,")
    part = yaml.safe_load(told["cloud_init"])
    assert told["cloud_init"].startswith("#cloud-config\n")
    assert [" ".join(mount) for mount in part["mounts"]] == [first["fstab"], second["fstab"]]
    assert part["packages"] == ["nfs-utils"]
    install, *tasks = yaml.safe_load(told["ansible"])
    assert install["ansible.builtin.package"]["name"] == "nfs-utils"
    assert [task["ansible.posix.mount"]["path"] for task in tasks] == [f"/mnt/{one}", "/srv/data"]
    volumes = list(yaml.safe_load_all(told["kubernetes"]))
    assert [volume["metadata"]["name"] for volume in volumes] == [f"share-{one}", f"share-{two}"]
    assert [volume["spec"]["accessModes"] for volume in volumes] == [["ReadWriteMany"], ["ReadOnlyMany"]]


def test_a_group_has_its_own_and_all_nodes_have_what_every_group_has(world):
    one, two = share(world), share(world)
    groups = [
        {"name": "masters", "servers": [server(world)], "shares": [{"id": one, "path": "/srv/state"}, {"id": two}]},
        {"name": "workers", "servers": [server(world)], "shares": [{"id": two}]},
    ]
    cluster_id = made(world, node_groups=groups)["id"]

    def places(query):
        return [way["mount_point"] for way in connect(world, cluster_id, query).body["connect"]["shares"]]

    assert places("node_group=masters") == ["/srv/state", f"/mnt/{two}"]
    assert places("node_group=workers") == places("") == [f"/mnt/{two}"]


def test_what_cannot_be_told_is_refused_with_the_reason(world):
    share_id, node = share(world), server(world)
    groups = [{"name": "some", "servers": [node], "shares": [{"id": share_id}]}, {"name": "rest", "servers": []}]
    cluster_id = made(world, node_groups=groups)["id"]
    assert "rest, some" in refusal(connect(world, cluster_id), 409)
    assert "rest, some" in refusal(connect(world, cluster_id, "node_group=nosuch"), 404)
    assert "add a share" in refusal(connect(world, cluster_id, "node_group=rest"), 409)
    assert "debian" in refusal(connect(world, cluster_id, "os=plan9"), 400)
    assert refusal(connect(world, cluster_id, "nosuch=1"), 400)
    assert refusal(connect(world, cluster_id, "node_group=some&server=nosuch"), 404)
    assert connect(world, cluster_id, f"node_group=some&server={node}").status == 200
    assert connect(world, cluster_id, who="other").status == 404


def test_nothing_is_told_of_a_share_that_is_another_projects_by_now(world):
    share_id = share(world)
    cluster_id = made(world, servers=[], shares=[{"id": share_id}])["id"]
    planting.put(world.db, shares, shares.c.id == share_id, project_id=OTHER_PROJECT)
    assert share_id in refusal(connect(world, cluster_id), 409)
    planting.put(world.db, shares, shares.c.id == share_id, project_id=PROJECT)
    assert connect(world, cluster_id).status == 200
