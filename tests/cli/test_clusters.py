# SPDX-License-Identifier: Apache-2.0
"""`abaca cluster`: shares on all nodes of a cluster, and how these are."""

import json

import pytest
import yaml

from tests.api import world as worlds
from tests.api.attachments import test_attachments as door


@pytest.fixture
def cluster(world, abaca):
    def cluster(verb, *words):
        return abaca("cluster", verb, "--config-file", str(world.directory / "abaca.conf"), *words)

    return cluster


def test_an_operator_makes_changes_scales_and_deletes_a_cluster(world, cluster):
    one, two = door.share(world), door.share(world)
    first, second = door.server(world), door.server(world)
    words = ("--project", worlds.PROJECT, "--server", first, "--share", f"{one}:/srv/data:ro", "--wait")
    said = cluster("create", "mpi", *words)
    assert (said.status, said.err) == (0, "")
    assert said.out.splitlines()[-1].endswith("1 of 1 ready: active")
    (row,) = json.loads(cluster("list", "--json").out)
    assert (row["name"], row["status"]) == ("mpi", "active")
    assert "mpi" in cluster("list").out
    assert cluster("scale", "mpi", "--add", second, "--wait").status == 0
    assert cluster("add-share", "mpi", two, "--wait").status == 0
    listed = cluster("nodes", "mpi").out
    assert listed.count("ready") == 2
    assert "/srv/data active" in listed
    found = json.loads(cluster("nodes", "mpi", "--json").out)
    assert {one["server_id"] for one in found} == {first, second}
    said = cluster("connect", "mpi", "cloud-init", "--os", "fedora")
    assert [mount[1] for mount in yaml.safe_load(said.out)["mounts"]] == ["/srv/data", f"/mnt/{two}"]
    assert len(yaml.safe_load(cluster("connect", "mpi", "ansible").out)) == 3
    assert len(cluster("connect", "mpi", "fstab", "--group", "nodes", "--server", first).out.splitlines()) == 2
    assert cluster("connect", "mpi", "kubernetes").out.count("kind: PersistentVolume\n") == 2
    assert "nosuch" in cluster("connect", "mpi", "fstab", "--group", "nosuch").err
    said = cluster("find-file", "mpi", f"manila://{one}/jobs/a.jar")
    assert said.out.splitlines() == ["nodes /srv/data/jobs/a.jar"]
    three = door.share(world)
    said = cluster("find-file", "mpi", f"manila://{three}/in")
    assert (said.status, "--mount" in said.err) == (1, True)
    said = cluster("find-file", "mpi", f"manila://{three}/in", "--mount", "--wait")
    assert said.out.splitlines()[-1] == f"nodes /mnt/{three}/in"
    said = cluster("watch", "mpi")
    assert "[########################################] 2 of 2 ready: active" in said.out
    assert cluster("remove-share", "mpi", one, "--wait").status == 0
    assert json.loads(cluster("show", "mpi", "--json").out)["node_states"] == {"ready": 2}
    assert "no node group" in cluster("remove-group", "mpi", "nosuch").err
    assert cluster("remove-group", "mpi", "nodes", "--wait").status == 0
    assert json.loads(cluster("show", "mpi", "--json").out)["node_groups"] == []
    said = cluster("delete", "mpi", "--wait")
    assert (said.status, said.out.splitlines()[-1].split()[-1]) == (0, "gone")
    assert cluster("show", "mpi").status != 0


def test_what_goes_wrong_is_said_and_fails(world, cluster):
    said = cluster("create", "none", "--project", worlds.PROJECT, "--name-pattern", "nosuch*")
    assert (said.status, "allow_empty" in said.err) == (1, True)
    assert cluster("create", "none", "--project", worlds.PROJECT, "--metadata", "role").status == 2
    assert cluster("scale", "none").status == 2
