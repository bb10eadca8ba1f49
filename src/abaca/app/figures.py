# SPDX-License-Identifier: Apache-2.0
"""What only the database knows of how things stand, asked by Prometheus when it scrapes an API process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sqlalchemy import exc

from abaca.db.administration import events
from abaca.db.attachments import attachments
from abaca.db.journal import queue_figures
from abaca.domain.attachments.attachments import ATTACHMENT

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from abaca.db.engine.database import Database


class Queues:
    """The journal's figures, asked from the database at the scrape."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def collect(self) -> Iterable[Metric]:
        """Live operations, the oldest of each queue, leases that nobody has taken over yet, and overdue steps."""
        from prometheus_client.core import GaugeMetricFamily

        live = GaugeMetricFamily(
            "abaca_operations", "Operations that have not ended.", labels=("queue", "kind", "state")
        )
        oldest = GaugeMetricFamily(
            "abaca_operations_oldest_seconds",
            "Age of the oldest that has not ended.",
            labels=("queue", "kind", "state"),
        )
        expired = GaugeMetricFamily(
            "abaca_operations_lease_expired", "Running without a live lease.", labels=("queue",)
        )
        overdue = GaugeMetricFamily(
            "abaca_operations_overdue", "At a step that takes longer than it may.", labels=("queue", "kind")
        )
        try:
            with self._db.read() as tx:
                rows = queue_figures.live(tx, self._db.time())
                now = tx.now
        except exc.SQLAlchemyError:
            return []
        left: dict[str, int] = {}
        for row in rows:
            labels = (row.queue, row.kind, row.state)
            live.add_metric(labels, row.number)
            oldest.add_metric(labels, (now - row.oldest).total_seconds())
            if row.state == "running":
                overdue.add_metric((row.queue, row.kind), row.overdue)
            left[row.queue] = left.get(row.queue, 0) + row.expired
        for queue, count in left.items():
            expired.add_metric((queue,), count)
        return [live, oldest, expired, overdue]


class Attachments:
    """How many attachments there are, asked from the database at the scrape."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def collect(self) -> Iterable[Metric]:
        """In each state, also in those in which there is none."""
        from prometheus_client.core import GaugeMetricFamily

        number = GaugeMetricFamily("abaca_attachments", "Shares on servers.", labels=("state",))
        try:
            with self._db.read() as tx:
                found = attachments.count_by_state(tx)
        except exc.SQLAlchemyError:
            return []
        for state in sorted(ATTACHMENT.states):
            number.add_metric((state,), found.get(state, 0))
        return [number]


class Events:
    """How far targets of events are behind, asked from the database at the scrape."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def collect(self) -> Iterable[Metric]:
        """For each target that ever was served."""
        from prometheus_client.core import GaugeMetricFamily

        number = GaugeMetricFamily("abaca_events_undelivered", "Events a target does not have yet.", labels=("target",))
        oldest = GaugeMetricFamily(
            "abaca_events_oldest_undelivered_seconds", "Age of the oldest of them.", labels=("target",)
        )
        dropped = GaugeMetricFamily("abaca_events_dropped", "Events given up for a target.", labels=("target",))
        try:
            with self._db.read() as tx:
                found = events.targets(tx)
                now = tx.now
        except exc.SQLAlchemyError:
            return []
        for target, waiting in found:
            number.add_metric((target.name,), waiting.undelivered)
            oldest.add_metric((target.name,), (now - waiting.oldest).total_seconds() if waiting.oldest else 0.0)
            dropped.add_metric((target.name,), target.dropped)
        return [number, oldest, dropped]
