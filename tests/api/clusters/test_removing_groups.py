# SPDX-License-Identifier: Apache-2.0
"""Node groups are taken out of clusters with all their nodes."""

from abaca.nodes.rehearsal import Rehearsal
from tests.api.clusters.asking import (
    DOOR,
    attachments,
    changed,
    made,
    on_nodes,
    rules,
    server,
    share,
    shown,
    until_shown,
)
from tests.conftest import wait_until


def names(found):
    return [one["name"] for one in found["node_groups"]]


def grouped(world, **more):
    """A cluster with two groups of a node each, of which the second has a share of its own."""
    one, two = share(world), share(world)
    masters, workers = server(world), server(world, **more)
    groups = [
        {"name": "masters", "servers": [masters]},
        {"name": "workers", "servers": [workers], "shares": [{"id": two, "path": "/srv/own"}]},
    ]
    cluster_id = made(world, node_groups=groups, shares=[{"id": one}])["id"]
    return cluster_id, (one, two), (masters, workers)


def refused(world, cluster_id, status, **more):
    answer = world.ask("member", "PATCH", f"{DOOR}/{cluster_id}", {"cluster": more})
    assert answer.status == status, answer
    return str(answer.body)


def test_a_group_goes_with_its_nodes_their_mounts_and_rules(world):
    cluster_id, (one, two), (masters, workers) = grouped(world)
    found = changed(world, cluster_id, remove_node_groups=["workers"])
    assert (names(found), found["nodes"], found["node_states"]) == (["masters"], 1, {"ready": 1})
    assert on_nodes(world, cluster_id).keys() == {masters}
    assert [row["server_id"] for row in attachments(world, share_id=one)] == [masters]
    assert attachments(world, server_id=workers) == attachments(world, share_id=two) == []
    wait_until(lambda: rules(world, two) == {}, 15)
    # its name is free again
    found = changed(world, cluster_id, node_groups=[{"name": "workers", "servers": [workers]}])
    assert (names(found), found["node_states"]) == (["masters", "workers"], {"ready": 2})
    assert names(changed(world, cluster_id, remove_node_groups=["workers", "masters"])) == []


def test_a_node_that_goes_over_to_another_group_keeps_its_mount(world):
    cluster_id, (one, _), (_, workers) = grouped(world)
    before = {row["server_id"]: row["id"] for row in attachments(world, share_id=one)}
    over = [{"name": "masters", "add_servers": [workers]}]
    found = changed(world, cluster_id, node_groups=over, remove_node_groups=["workers"])
    assert (names(found), found["node_states"]) == (["masters"], {"ready": 2})
    assert {row["server_id"]: row["id"] for row in attachments(world, share_id=one)} == before


def test_a_group_whose_node_is_away_goes_when_that_is_back(world):
    cluster_id, _, (_, workers) = grouped(world, name="group-away", host="group-away")
    machines = Rehearsal(world.directory / "nodes" / "rehearsal.sqlite")
    machines.take_away("group-away")
    assert names(changed(world, cluster_id, remove_node_groups=["workers"])) == ["masters"]
    until_shown(world, cluster_id, node_states={"ready": 1, "leaving": 1})
    said = refused(world, cluster_id, 409, node_groups=[{"name": "workers", "servers": [workers]}])
    assert "being removed" in said
    machines.bring_back("group-away")
    machines.close()
    wait_until(lambda: shown(world, cluster_id)["nodes"] == 1, 30)
    until_shown(world, cluster_id, status="active", error=None)
    changed(world, cluster_id, node_groups=[{"name": "workers", "servers": [workers]}])


def test_what_cannot_be_removed_is_refused_and_changes_nothing(world):
    cluster_id, _, _ = grouped(world)
    assert "no node group 'nosuch'" in refused(world, cluster_id, 404, remove_node_groups=["workers", "nosuch"])
    both = {"remove_node_groups": ["workers"], "node_groups": [{"name": "workers", "add_servers": []}]}
    assert "name it once" in refused(world, cluster_id, 400, **both)
    found = shown(world, cluster_id)
    assert (found["status"], names(found)) == ("active", ["masters", "workers"])
