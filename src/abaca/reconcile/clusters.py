# SPDX-License-Identifier: Apache-2.0
"""Clusters stay true: their selectors are evaluated again as servers come and go, and what failed is tried again.

It takes no input and may run in any number of workers at any time: what it finds it hands to the operations, each in a
transaction that looks again.
"""

from __future__ import annotations

import datetime
import logging
from typing import TYPE_CHECKING

from abaca import errors
from abaca.db.clusters import clusters
from abaca.db.journal import keys
from abaca.domain.clusters.clusters import Cluster
from abaca.operations.clusters import cluster_change, cluster_delete, cluster_selecting

if TYPE_CHECKING:
    from abaca.db.engine.database import Database, Tx
    from abaca.operations.attachments.attachment_parts import AttachmentParts

log = logging.getLogger(__name__)

BATCH = 100


class Clusters:
    """Keeps all clusters true; each worker runs one of these."""

    def __init__(self, db: Database, parts: AttachmentParts, *, look_interval_s: float) -> None:
        """Selectors are evaluated once in `look_interval_s` seconds, by whichever worker comes first."""
        self.db = db
        self.parts = parts
        self.look_interval_s = look_interval_s

    def heal(self) -> int:
        """End what is busy without an operation, try again what is due, look for servers; how many clusters of all."""
        with self.db.read() as tx:
            found = [*clusters.unexplained(tx, BATCH), *clusters.due(tx, BATCH)]
        mended = sum(self._try_again(row) for row in found)
        since = self.db.now() - datetime.timedelta(seconds=self.look_interval_s)
        with self.db.read() as tx:
            selecting = clusters.to_look_at(tx, since, BATCH)
        return mended + sum(self._look(row) for row in selecting)

    def _try_again(self, row: Cluster) -> bool:
        with self.db.write() as tx:
            cluster = clusters.hold(tx, row.id)
            if cluster is None or (cluster.status, cluster.retry_at) != (row.status, row.retry_at) or _is_held(tx, row):
                return False
            clusters.update(tx, cluster.id, {"retry_at": None})
            if cluster.wanted == "present":
                cluster_change.start(tx, cluster.id, None, "retry")
                return True
            if cluster.status == "deleting":
                why = errors.AbacaError("The cluster was being deleted, and nothing was going to end that.")
                cluster_change.end(tx, cluster, "failed", why, self.parts.longest_pause_s, None)
                return True
            return cluster_delete.start(tx, cluster, None) is not None

    def _look(self, row: Cluster) -> bool:
        """Whether the nodes of a cluster are others than its selectors took the last time."""
        with self.db.read() as tx:
            groups = clusters.groups(tx, row.id)
        try:
            found = cluster_selecting.matching(self.parts.servers, row.project_id, groups)
        except errors.AbacaError as away:  # one whose servers cannot be listed holds up no other
            log.warning("cluster=%s waits: %s", row.id, away.message)
            return False
        with self.db.write() as tx:
            cluster = clusters.hold(tx, row.id)
            if cluster is None or cluster.status not in ("active", "error") or cluster.wanted == "deleted":
                return False
            if not cluster_selecting.apply(tx, cluster, clusters.groups(tx, cluster.id), found):
                return False
            log.info("cluster=%s: its selectors take other servers than before", cluster.id)
            clusters.STATUS.move(tx, cluster.id, "change")
            cluster_change.start(tx, cluster.id, None, "scale")
            return True


def _is_held(tx: Tx, row: Cluster) -> bool:
    return bool(keys.holders(tx, clusters.key(row.id)))
