# SPDX-License-Identifier: Apache-2.0
"""The nodes of a cluster, and how each is."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from abaca.api import naming
from abaca.api.attachments.attaching import server_ids
from abaca.api.clusters import reading
from abaca.db.clusters import clusters, nodes
from abaca.domain import ids
from abaca.domain.attachments.attachments import Attachment, mend
from abaca.domain.clusters import clusters as domain
from abaca.domain.clusters.clusters import NamedNode, NodeGroup, WantedShare
from abaca.http.bodies import Filters, Text
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import COUNTED, Many, View
from abaca.operations.clusters.cluster_states import wanted_of
from abaca.policy import reader

RESOURCE = Resource("nodes of clusters", "/clusters")


class NodeShareView(View):
    """A share on a node: its attachment, None where there is none yet, and what is wrong."""

    share_id: str
    attachment_id: str | None
    path: str
    access_level: str
    state: str
    message: str | None
    mend: str | None


class NodeView(View):
    """A node: `state` is ready when all that is wanted there is mounted; `server_name` that of a registered server."""

    id: str
    server_id: str
    server_name: str | None
    node_group_id: str
    state: str
    shares: list[NodeShareView]
    created_at: datetime.datetime


class NodeFilters(Filters, unknown="refuse"):
    """What the list may be asked for."""

    server_id: Text
    node_group_id: Text


@RESOURCE.get(
    "/{id}/nodes",
    policy=reader("cluster:get_nodes", "List the nodes of a cluster."),
    view=Many("nodes", NodeView, links="nodes_links", counted=COUNTED),
    filters=NodeFilters,
)
def index(call: Call, id: str, filters: dict[str, object]) -> Listed:
    """The nodes of a cluster, the newest first, and how each is."""
    asked = dict(filters)
    if "server_id" in asked:
        asked["server_id"] = server_ids(call, [str(asked["server_id"])])[0]
    with call.db.read() as tx:
        cluster = reading.cluster_for(call, tx, id)
        asked["cluster_id"] = id = cluster.id
        groups = clusters.groups(tx, id)
        if "node_group_id" in asked:
            asked["node_group_id"] = _group_id(groups, str(asked["node_group_id"]))
        found = nodes.NODES.entities(tx, NamedNode, asked, call.page)
        count = call.count(lambda most: nodes.NODES.count(tx, asked, most))
        attached = nodes.shares_on(tx, id, [one.server_id for one in found])
        wanted = wanted_of(cluster, groups)
    rows = (_shown(one, wanted.get(one.node_group_id, []), attached.get(one.server_id, [])) for one in found)
    return Listed([[row[name] for name in call.columns] for row in rows], count)


def _group_id(groups: Sequence[NodeGroup], said: str) -> str:
    """The id of the node group that is meant, by its name or the beginning of its id; what means none is one."""
    if called := [one.id for one in groups if one.name == said]:
        return called[0]
    beginning = ids.beginning(said)
    begun = [one.id for one in groups if beginning is not None and one.id.startswith(beginning)]
    return naming.the_one("Node group", said, begun) if begun else said


def _shown(node: NamedNode, wanted: Sequence[WantedShare], has: Sequence[Attachment]) -> Mapping[str, object]:
    by_share = {one.share_id: one for one in has}
    worst = max((domain.RANKS[one.state] for one in has), default=None)
    waiting = [] if node.is_leaving else [one for one in wanted if one.id not in by_share]
    state = domain.node_state(len(wanted), len(has), worst, is_refused=bool(node.refusals), is_leaving=node.is_leaving)
    return {
        "id": node.id,
        "server_id": node.server_id,
        "server_name": node.server_name,
        "node_group_id": node.node_group_id,
        "state": state,
        "shares": [*map(_attached, has), *(_waiting(one, node.refusals.get(one.id)) for one in waiting)],
        "created_at": node.created_at,
    }


def _attached(one: Attachment) -> dict[str, object]:
    return {
        "share_id": one.share_id,
        "attachment_id": one.id,
        "path": one.mount_point,
        "access_level": one.access_level,
        "state": one.state,
        "message": one.error_text,
        "mend": mend(one.error_code),
    }


def _waiting(one: WantedShare, why: str | None) -> dict[str, object]:
    return {
        "share_id": one.id,
        "attachment_id": None,
        "path": one.path,
        "access_level": one.access_level,
        "state": "waiting" if why is None else "refused",
        "message": why,
        "mend": None if why is None else domain.MENDS["Refused"],
    }
