# SPDX-License-Identifier: Apache-2.0
"""What only the database knows of how things stand, asked by Prometheus when it scrapes an API process."""

from __future__ import annotations

import contextlib
import datetime
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec
from sqlalchemy import exc

from abaca.db.administration import events, pools
from abaca.db.attachments import attachment_counts
from abaca.db.journal import queue_figures
from abaca.domain.attachments.attachments import ATTACHMENT

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from abaca.db.engine.database import Database
    from abaca.domain.administration.events import EventTarget, Undelivered
    from abaca.drivers.contract import DeviceStats

Counted = TypeVar("Counted")

# What took long to count is not counted again for so many times as long, whoever scrapes how often.
_TIMES = 200
# What takes no longer is counted at each scrape.
_AT_ONCE_S = 0.05
GIB = 1 << 30


class Kept(Generic[Counted]):
    """What was counted last, for as long as it took to count. Any thread may ask."""

    def __init__(self, count: Callable[[], Counted], clock: Callable[[], float] = time.monotonic) -> None:
        self._count = count
        self._clock = clock
        self._lock = threading.Lock()
        self._found: tuple[float, Counted] | None = None

    def get(self) -> Counted:
        """It, or a new one; who comes while another counts waits for that. Raises SQLAlchemy's errors."""
        with self._lock:
            begun_s = self._clock()
            if self._found is not None and begun_s < self._found[0]:
                return self._found[1]
            counted = self._count()
            ended_s = self._clock()
            took_s = ended_s - begun_s
            self._found = ended_s + (took_s * _TIMES if took_s > _AT_ONCE_S else 0.0), counted
            return counted


class Queues:
    """The journal's figures, asked from the database at the scrape."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._kept = Kept(self._count)

    def _count(self) -> tuple[list[queue_figures.Figure], datetime.datetime]:
        with self._db.read() as tx:
            return queue_figures.live(tx, self._db.time()), tx.now

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
            rows, now = self._kept.get()
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
        self._kept = Kept(self._count)

    def _count(self) -> dict[str, int]:
        with self._db.read() as tx:
            return attachment_counts.by_state(tx)

    def collect(self) -> Iterable[Metric]:
        """In each state, also in those in which there is none."""
        from prometheus_client.core import GaugeMetricFamily

        number = GaugeMetricFamily("abaca_attachments", "Shares on servers.", labels=("state",))
        try:
            found = self._kept.get()
        except exc.SQLAlchemyError:
            return []
        for state in sorted(ATTACHMENT.states):
            number.add_metric((state,), found.get(state, 0))
        return [number]


class Certificates:
    """When the certificates end on which pools rest, as these have told, asked from the database at the scrape."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._kept = Kept(self._count)

    def _count(self) -> dict[str, object]:
        from abaca.drivers import contract  # not before somebody scrapes

        with self._db.read() as tx:
            return pools.reported(tx, contract.CERTIFICATES_END_AT)

    def collect(self) -> Iterable[Metric]:
        """For each pool that has told."""
        from prometheus_client.core import GaugeMetricFamily

        end = GaugeMetricFamily(
            "abaca_certificates_end_seconds", "When the first certificate ends, since 1970.", labels=("pool",)
        )
        try:
            found = self._kept.get()
        except exc.SQLAlchemyError:
            return []
        for pool, text in sorted(found.items()):
            with contextlib.suppress(ValueError):
                end.add_metric((pool,), datetime.datetime.fromisoformat(str(text)).timestamp())
        return [end]


class Devices:
    """How full the devices are of which pools are made, as these have told, asked from the database at the scrape."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._kept = Kept(self._count)

    def _count(self) -> dict[str, list[DeviceStats]]:
        from abaca.drivers import contract  # not before somebody scrapes

        with self._db.read() as tx:
            told = pools.reported(tx, contract.DEVICES)
        return {pool: msgspec.convert(value, list[contract.DeviceStats]) for pool, value in told.items()}

    def collect(self) -> Iterable[Metric]:
        """For each device of each pool that has told."""
        from prometheus_client.core import GaugeMetricFamily

        labels = ("pool", "node", "device")
        size = GaugeMetricFamily("abaca_device_bytes", "Size of a device.", labels=labels)
        free = GaugeMetricFamily("abaca_device_free_bytes", "What is free on a device.", labels=labels)
        online = GaugeMetricFamily("abaca_device_online", "Whether a device and its node serve.", labels=labels)
        try:
            found = self._kept.get()
        except (exc.SQLAlchemyError, msgspec.ValidationError):
            return []
        for pool, devices in sorted(found.items()):
            for one in devices:
                named = (pool, one.node, one.device)
                size.add_metric(named, one.total_gib * GIB)
                free.add_metric(named, one.free_gib * GIB)
                online.add_metric(named, float(one.is_online))
        return [size, free, online]


class Events:
    """How far targets of events are behind, asked from the database at the scrape."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._kept = Kept(self._count)

    def _count(self) -> tuple[list[tuple[EventTarget, Undelivered]], datetime.datetime]:
        with self._db.read() as tx:
            return events.targets(tx), tx.now

    def collect(self) -> Iterable[Metric]:
        """For each target that ever was served."""
        from prometheus_client.core import GaugeMetricFamily

        number = GaugeMetricFamily("abaca_events_undelivered", "Events a target does not have yet.", labels=("target",))
        oldest = GaugeMetricFamily(
            "abaca_events_oldest_undelivered_seconds", "Age of the oldest of them.", labels=("target",)
        )
        dropped = GaugeMetricFamily("abaca_events_dropped", "Events given up for a target.", labels=("target",))
        try:
            found, now = self._kept.get()
        except exc.SQLAlchemyError:
            return []
        for target, waiting in found:
            number.add_metric((target.name,), waiting.undelivered)
            oldest.add_metric((target.name,), (now - waiting.oldest).total_seconds() if waiting.oldest else 0.0)
            dropped.add_metric((target.name,), target.dropped)
        return [number, oldest, dropped]
