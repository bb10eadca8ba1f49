# SPDX-License-Identifier: Apache-2.0
"""How clusters are shown to clients of data processing: their groups, their nodes, and how far they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from abaca import errors
from abaca.api.data_processing import verifying, views
from abaca.compute.contract import Wanted
from abaca.db.clusters import clusters, nodes
from abaca.db.engine.lists import Page
from abaca.domain.clusters.clusters import MOST_NAMED, MOST_NODES, NamedNode
from abaca.operations.clusters.cluster_states import states_of

if TYPE_CHECKING:
    from abaca.compute.contract import Server
    from abaca.db.engine.database import Tx
    from abaca.domain.clusters.clusters import Cluster
    from abaca.http.pipeline import Call

Shown = dict[str, object]


def one(tx: Tx, cluster: Cluster) -> Shown:
    """A cluster, without its nodes."""
    (found,) = many(tx, [cluster])
    return found


def many(tx: Tx, found: Sequence[Cluster], of_groups: Mapping[str, Sequence[Shown]] | None = None) -> list[Shown]:
    """Clusters with their groups, and by the ids of these their nodes where they are given."""
    ids = [cluster.id for cluster in found]
    groups = clusters.groups_of(tx, ids)
    numbers = nodes.numbers_of_all_groups(tx, ids)
    verified = verifying.shown(tx, found)
    begun = nodes.begun(tx, [cluster.id for cluster in found if cluster.status == "creating"])
    return [
        views.cluster(
            cluster,
            [
                views.group(group, numbers.get(group.id, 0), (of_groups or {}).get(group.id, ()))
                for group in groups.get(cluster.id, ())
            ],
            verified.get(cluster.id, {}),
            is_begun=cluster.id in begun,
        )
        for cluster in found
    ]


def members(tx: Tx, cluster: Cluster) -> list[NamedNode]:
    """All nodes of a cluster."""
    page = Page(limit=MOST_NODES, descending=False)
    return nodes.NODES.entities(tx, NamedNode, {"cluster_id": cluster.id}, page)


def servers(call: Call, cluster: Cluster, found: Sequence[NamedNode]) -> Mapping[str, Server]:
    """What the compute service says of these nodes now; nothing where it does not answer."""
    ids = {one.server_id for one in found}
    if not ids:
        return {}
    wanted = Wanted(project_id=cluster.project_id, only=lambda server: server.id in ids, limit=len(ids))
    try:
        return {server.id: server for server in call.parts.extras["compute"].list(wanted)}
    except errors.Unavailable:
        return {}


def instances(found: Sequence[NamedNode], known: Mapping[str, Server]) -> dict[str, list[Shown]]:
    """Nodes by the id of their group."""
    by_group: dict[str, list[Shown]] = {}
    for node in found:
        server = known.get(node.server_id)
        address = next((one.ip for one in server.addresses), None) if server is not None else None
        by_group.setdefault(node.node_group_id, []).append(
            {
                "id": node.id,
                "instance_id": node.server_id,
                "instance_name": node.server_name if server is None else server.name,
                "internal_ip": address,
                "management_ip": address,
                "volumes": [],
                "created_at": views.stamp(node.created_at),
            }
        )
    return by_group


def progress(tx: Tx, cluster: Cluster, found: Sequence[NamedNode]) -> list[Shown]:
    """The one step there is: for how many nodes it is done, and what keeps some of them."""
    states = states_of(tx, cluster, clusters.groups(tx, cluster.id))
    ready = states.get("ready", 0)
    is_busy = cluster.status in ("creating", "changing", "deleting")
    by_server = {one.server_id: one for one in found}
    events = [
        {
            "id": by_server[one.server_id].id,
            "step_id": cluster.id,
            "node_group_id": by_server[one.server_id].node_group_id,
            "instance_id": one.server_id,
            "instance_name": by_server[one.server_id].server_name,
            "event_info": next(iter(one.refusals.values()), None) or one.error_text,
            "successful": False,
            "created_at": views.stamp(cluster.created_at),
            "updated_at": None,
        }
        for one in nodes.problems(tx, cluster.id, MOST_NAMED)
        if one.server_id in by_server
    ]
    updated_at = cluster.updated_at
    return [
        {
            "id": cluster.id,
            "cluster_id": cluster.id,
            "project_id": cluster.project_id,
            "step_name": "Mount shares",
            "step_type": "Unmounting" if cluster.status == "deleting" else "Configuring",
            "successful": None if is_busy else cluster.status == "active",
            "completed": ready,
            "total": sum(states.values()),
            "events": events,
            "created_at": views.stamp(cluster.created_at),
            "updated_at": None if updated_at is None else views.stamp(updated_at),
        }
    ]
