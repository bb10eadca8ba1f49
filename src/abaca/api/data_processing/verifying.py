# SPDX-License-Identifier: Apache-2.0
"""Clusters are verified when clients of data processing ask for it: all that is mounted on their nodes is looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from abaca.api.data_processing import views
from abaca.db.attachments import attachments
from abaca.db.clusters import clusters, nodes
from abaca.operations.attachments.attachment_parts import LOOKS

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.clusters.clusters import Cluster

# What is kept of it: when it was last asked for.
ASKED_AT = "verification_asked_at"
_SAYS = {
    "CHECKING": "The nodes are being looked at.",
    "GREEN": "Each node has all its shares.",
    "YELLOW": "Some nodes do not hold, which the cluster tolerates, or they are being mended.",
    "RED": "More nodes do not hold than the cluster tolerates.",
}


def start(tx: Tx, cluster: Cluster) -> None:
    """Have all that a cluster has attached looked at now; what is not as it shall be is mended as ever."""
    clusters.update(tx, cluster.id, {"told": {**(cluster.told or {}), ASKED_AT: views.stamp(tx.now)}})
    if attachments.doubt_cluster(tx, cluster.id):
        tx.wake(LOOKS)


def shown(tx: Tx, found: Iterable[Cluster]) -> dict[str, Mapping[str, object]]:
    """What came of it, by the ids of those clusters for which it was asked."""
    asked = {cluster.id: cluster for cluster in found if ASKED_AT in (cluster.told or {})}
    looks = nodes.looks(tx, sorted(asked))
    return {one: _shown(cluster, looks.get(one)) for one, cluster in asked.items()}


def _shown(cluster: Cluster, looks: nodes.Looks | None) -> dict[str, object]:
    status = _status(cluster, looks)
    times = {"created_at": (cluster.told or {})[ASKED_AT], "updated_at": None}
    check = {"name": "Shares on all nodes", "status": status, "description": cluster.error_text or _SAYS[status]}
    more = {"id": cluster.id, "cluster_id": cluster.id, "status": status, **times}
    return {**more, "checks": [{"id": cluster.id, **check, **times}]}


def _status(cluster: Cluster, looks: nodes.Looks | None) -> str:
    if cluster.status in ("creating", "changing", "deleting") or (looks is not None and looks.ahead):
        return "CHECKING"
    if cluster.status == "error":
        return "RED"
    return "YELLOW" if cluster.error_text is not None or (looks is not None and looks.failing) else "GREEN"
