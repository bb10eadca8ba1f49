# SPDX-License-Identifier: Apache-2.0
"""A cluster whose share is on a share server: each node mounts it from its own subnet, and follows that."""

import contextlib

import pytest

from tests.operations import cases
from tests.operations.machines import NUMBERS, a_server, a_wide_server
from tests.operations.networks.test_near_locations import come_near, look
from tests.operations.networks.test_share_servers import a_theatre, made


@pytest.fixture
def theatre(database, tmp_path):
    with contextlib.ExitStack() as stack:
        yield a_theatre(database, tmp_path, stack)


def a_cluster(theatre, share_id):
    """A cluster of a machine on the first subnet and one on the second; its id."""
    servers = [a_server(theatre, f"10.20.0.{200 + next(NUMBERS) % 50}"), a_wide_server(theatre)]
    cluster_id = cases.make_cluster(theatre, (share_id, servers))
    theatre.until_ended("cluster-change", cluster_id)
    theatre.settle()
    return cluster_id


def shown(theatre, cluster_id):
    """Its status, and the states of its nodes."""
    found = theatre.ask("GET", f"//abaca/v1/clusters/{cluster_id}")["cluster"]
    return found["status"], found["node_states"]


def sources(theatre):
    """The beginnings of what is mounted on machines."""
    return sorted(line["source"][:6] for line in theatre.nodes.tables().values())


def test_each_node_mounts_the_share_from_its_own_subnet(theatre):
    _, share_id = cases.a_share_on_two_subnets(theatre)
    cluster_id = a_cluster(theatre, share_id)
    assert shown(theatre, cluster_id) == ("active", {"ready": 2})
    assert sources(theatre) == ["10.20.", "[fd20:"]
    theatre.ask("DELETE", f"//abaca/v1/clusters/{cluster_id}")
    theatre.settle()
    assert sources(theatre) == []


def test_nodes_move_to_a_subnet_that_comes_while_they_have_the_share(theatre):
    network_id = cases.a_share_network(theatre)
    cluster_id = a_cluster(theatre, made(theatre, network_id)["id"])
    assert sources(theatre) == ["10.20.", "10.20."]
    come_near(theatre, network_id)
    look(theatre)
    assert sources(theatre) == ["10.20.", "[fd20:"]
    assert shown(theatre, cluster_id) == ("active", {"ready": 2})


def test_a_share_of_a_network_that_is_not_available_is_refused_by_name(theatre):
    network_id = cases.a_share_network(theatre)
    share_id = made(theatre, network_id)["id"]
    theatre.ask("POST", f"/shares/{share_id}/action", {"reset_status": {"status": "error"}}, who="admin")
    wish = {"name": "early", "servers": [a_wide_server(theatre)], "shares": [{"id": share_id}]}
    answer = theatre.world.ask("member", "POST", "//abaca/v1/clusters", {"cluster": wish})
    assert answer.status == 409, answer
    assert share_id in str(answer.body)
    assert "error" in str(answer.body)
    assert theatre.ask("GET", "//abaca/v1/clusters")["clusters"] == []
