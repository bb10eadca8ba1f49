# SPDX-License-Identifier: Apache-2.0
"""How operations on clusters come about."""

from tests.operations.machines import NUMBERS

CHANGED = ("detach_surplus", "await_detached", "attach_missing")


def make_cluster(theatre, prepared, **more):
    share_id, server_ids = prepared
    wish = {"name": f"mpi-{next(NUMBERS)}", "servers": server_ids, "shares": [{"id": share_id}], **more}
    return theatre.ask("POST", "//abaca/v1/clusters", {"cluster": wish})["cluster"]["id"]


def change_cluster(theatre, prepared):
    """One share comes in the place of another; one node comes, one goes with its group, the others to a new group."""
    cluster_id, share_id, server_id = prepared
    found = theatre.ask("GET", f"//abaca/v1/clusters/{cluster_id}/nodes")["nodes"]
    _, *staying = [node["server_id"] for node in found]
    wanted = {
        "shares": [{"id": share_id}],
        "node_groups": [{"name": "others", "servers": [*staying, server_id]}],
        "remove_node_groups": ["nodes"],
    }
    theatre.ask("PATCH", f"//abaca/v1/clusters/{cluster_id}", {"cluster": wanted})
    return cluster_id


def exchange_node(theatre, prepared):
    """One node comes in the place of another, and nothing else changes."""
    cluster_id, _, server_id = prepared
    first, *_ = theatre.ask("GET", f"//abaca/v1/clusters/{cluster_id}/nodes")["nodes"]
    groups = [{"name": "nodes", "add_servers": [server_id], "remove_servers": [first["server_id"]]}]
    theatre.ask("PATCH", f"//abaca/v1/clusters/{cluster_id}", {"cluster": {"node_groups": groups}})
    return cluster_id


def delete_cluster(theatre, cluster_id):
    theatre.ask("DELETE", f"//abaca/v1/clusters/{cluster_id}")
    return cluster_id
