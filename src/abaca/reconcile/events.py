# SPDX-License-Identifier: Apache-2.0
"""Takes events to one target: each at least once, those of a resource in their order.

One worker at a time serves a target, under a lease, so nobody else can overtake it; it sends a few resources' events at
once and those of one resource one after another. What has arrived is forgotten in one transaction a batch: a worker
that dies in between sends at most that batch again, each event under the id that it had.

A target that is away makes everything for it wait, with growing delays; an event that a target refuses makes those of
its resource wait. Neither is given up before the event is older than `[events] keep_s`.
"""

from __future__ import annotations

import logging
import queue
import threading
import uuid
from collections.abc import Callable, Sequence

import msgspec

from abaca.db.administration import events as rows
from abaca.db.engine.database import Database
from abaca.domain.administration.events import EventTarget
from abaca.events.contract import Away, Refused, Target

log = logging.getLogger(__name__)

BATCH = 100
FOREVER_S = 86400.0


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """How long a lease lasts, and how long a target waits between tries; in seconds."""

    lease_s: float = 30.0
    # before the second try, the third...; the last goes on for ever
    delays_s: Sequence[float] = (1, 2, 5, 10, 30, 60, 120, 300)

    @classmethod
    def bounded(cls, *, longest_s: float, send_s: float) -> Timing:
        """A timing whose pauses last `longest_s` at most, for a target whose `send` takes `send_s` at most."""
        usual = cls()
        delays_s = [*(delay_s for delay_s in usual.delays_s if delay_s < longest_s), longest_s]
        return cls(lease_s=max(usual.lease_s, 3 * send_s), delays_s=delays_s)

    def delay_s(self, attempts: int) -> float:
        """The pause after so many failed tries, in seconds."""
        return self.delays_s[min(attempts, len(self.delays_s)) - 1]


class Dispatcher:
    """Delivers events to one target, for the worker of that name."""

    def __init__(self, db: Database, target: Target, worker: str, timing: Timing | None = None) -> None:
        self.db = db
        self.target = target
        self.owner = f"{worker}#{uuid.uuid4().hex[:8]}"
        self.timing = timing or Timing()
        # told how many have arrived, and how many tries were in vain
        self.on_sent: Callable[[str, int, int], None] = lambda _target, _delivered, _failed: None
        self.is_leaving = False
        self._serving = threading.Lock()
        self._held_until_s = 0.0
        self._is_registered = False
        self._is_away = False

    def deliver(self) -> float:
        """Deliver a batch; the seconds until the next look, unless new events are announced before."""
        with self._serving:
            return FOREVER_S if self.is_leaving else self._deliver()

    def _deliver(self) -> float:
        now_s = self.db.time()
        others_s = self._hold(now_s)
        if others_s is not None:
            return others_s
        with self.db.read() as tx:
            standing = rows.standing(tx, self.target.name)
            if standing is None or standing.owner != self.owner:
                self._held_until_s = 0.0
                return 0.0
            if standing.not_before_s > now_s:
                return standing.not_before_s - now_s
            due = rows.due(tx, self.target.name, now_s, BATCH)
            if not due:
                next_s = rows.next_due(tx, self.target.name, now_s)
                return FOREVER_S if next_s is None else max(0.0, next_s - now_s)
        return self._settle(_Batch(self.target, due, self._has_time), standing.attempts)

    def leave(self) -> None:
        """Take no more events, wait until those under way have arrived, and give the lease to another worker."""
        self.is_leaving = True
        with self._serving:
            if self._held_until_s > 0:
                with self.db.write() as tx:
                    rows.release(tx, self.target.name, self.owner)
            self._held_until_s = 0.0
        self.target.close()

    def _hold(self, now_s: float) -> float | None:
        """Take or prolong the target's lease; None when this worker has it, else the seconds until it may be free."""
        if self._held_until_s - now_s > self.timing.lease_s / 2:
            return None
        with self.db.read() as tx:  # the others are woken by every event too: they shall not write for it
            standing = rows.standing(tx, self.target.name)
        if standing is not None and not self._may_hold(standing, now_s):
            self._held_until_s = 0.0
            return max(0.1, standing.lease_until_s - now_s + 0.1)
        until_s = now_s + self.timing.lease_s
        with self.db.write() as tx:
            if not self._is_registered:
                rows.register(tx, self.target.name)
            if rows.hold(tx, self.target.name, self.owner, now_s, until_s):
                self._held_until_s, self._is_registered = until_s, True
                return None
            self._held_until_s = 0.0
        return 0.1  # another was faster

    def _may_hold(self, standing: EventTarget, now_s: float) -> bool:
        worker = f"{self.owner.rpartition('#')[0]}#"
        return standing.owner is None or standing.owner.startswith(worker) or standing.lease_until_s < now_s

    def _has_time(self) -> bool:
        """Whether a `send` that begins now ends before this worker's lease does."""
        left_s = self._held_until_s - self.db.time()
        return not self.is_leaving and left_s > min(self.target.timeout_s, self.timing.lease_s / 2)

    def _settle(self, batch: _Batch, attempts: int) -> float:
        """Send the batch and record what became of each event."""
        batch.send()
        now_s = self.db.time()
        with self.db.write() as tx:
            if batch.arrived:
                rows.delivered(tx, self.target.name, sorted(batch.arrived))
            for delivery, why in batch.refused:
                rows.refused(tx, delivery, now_s + self.timing.delay_s(delivery.attempts + 1), why)
            if batch.away is not None:
                attempts = 1 if batch.arrived else attempts + 1
                delay_s = self.timing.delay_s(attempts)
                rows.away(tx, self.target.name, attempts, now_s + delay_s, batch.away)
        self._tell(batch)
        self.on_sent(self.target.name, len(batch.arrived), len(batch.refused) + (batch.away is not None))
        return 0.0 if batch.away is None else delay_s

    def _tell(self, batch: _Batch) -> None:
        for delivery, why in batch.refused:
            log.warning("event=%s of %s waits: %s", delivery.event.id, self.target.name, why)
        if batch.away is not None and not self._is_away:
            log.warning("events for %s wait: %s", self.target.name, batch.away)
        elif self._is_away and batch.away is None and batch.arrived:
            log.info("events reach %s again", self.target.name)
        self._is_away = batch.away is not None


class _Batch:
    """Events that are sent to a target together, and what became of each."""

    def __init__(self, target: Target, due: Sequence[rows.Delivery], has_time: Callable[[], bool]) -> None:
        self.target = target
        self.arrived: set[int] = set()
        self.refused: list[tuple[rows.Delivery, str]] = []
        self.away: str | None = None
        self._has_time = has_time
        groups: dict[str, list[rows.Delivery]] = {}
        for delivery in due:
            # one after another they come as they were written, whatever they are about
            name = delivery.event.resource_id if target.concurrency > 1 else ""
            groups.setdefault(name, []).append(delivery)
        self._threads = min(target.concurrency, len(groups))
        self._groups: queue.SimpleQueue[list[rows.Delivery]] = queue.SimpleQueue()
        for group in groups.values():
            self._groups.put(group)

    def send(self) -> None:
        """Send the events; returns when none is under way any more."""
        others = [threading.Thread(target=self._work, daemon=True) for _ in range(self._threads - 1)]
        for one in others:
            one.start()
        self._work()
        for one in others:
            one.join()

    def _work(self) -> None:
        while self.away is None:
            try:
                group = self._groups.get_nowait()
            except queue.Empty:
                return
            self._send_group(group)

    def _send_group(self, group: Sequence[rows.Delivery]) -> None:
        held_up: set[str] = set()
        for delivery in group:
            if self.away is not None or not self._has_time():
                return
            if delivery.event.resource_id in held_up:
                continue
            try:
                self.target.send(delivery.event)
            except Away as error:
                self.away = error.message
                return
            except Refused as error:
                self.refused.append((delivery, error.message))
                held_up.add(delivery.event.resource_id)
                continue
            except Exception as error:
                log.exception("event=%s cannot be sent to %s", delivery.event.id, self.target.name)
                self.refused.append((delivery, f"an unexpected {type(error).__name__}; the worker's log has more"))
                held_up.add(delivery.event.resource_id)
                continue
            self.arrived.add(delivery.seq)
