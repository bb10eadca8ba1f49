# SPDX-License-Identifier: Apache-2.0
"""What attachments and the clusters that made them have to say to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from abaca import errors
from abaca.db.attachments import attachments
from abaca.db.clusters import clusters, nodes
from abaca.db.journal import waits

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.attachments.attachments import Attachment


def signal_end(tx: Tx, cluster_id: str | None) -> None:
    """Something of a cluster has ended: who waits for the last of it looks."""
    if cluster_id is not None and not nodes.is_busy(tx, cluster_id):
        waits.signal(tx, attachments.cluster_condition(cluster_id))


def signal_mended(tx: Tx, cluster_id: str | None) -> None:
    """The same of what is mounted, or gone, as it shall be: the error of its cluster may have passed."""
    if cluster_id is not None and not nodes.is_busy(tx, cluster_id):
        waits.signal(tx, attachments.cluster_condition(cluster_id))
        clusters.look_soon(tx, cluster_id, is_news=False)


def signal_lost(tx: Tx, cluster_id: str | None) -> None:
    """Something that was well is not: its cluster is judged anew."""
    if cluster_id is not None:
        clusters.look_soon(tx, cluster_id, is_news=True)


def refuse_owned(row: Attachment) -> None:
    """Raises `Conflict` where a cluster would attach again what a user detaches."""
    if row.cluster_id is not None and row.wanted == "attached":
        raise errors.Conflict(
            f"Attachment {row.id} belongs to cluster {row.cluster_id}; take the share, or the server, out of that."
        )
