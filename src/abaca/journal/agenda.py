# SPDX-License-Identifier: Apache-2.0
"""When and where a worker looks for work: announced queues, alarms that it has set, and a slow look at all."""

from __future__ import annotations

import collections
import heapq
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence

import msgspec

# An alarm comes a little late: what is due by one clock must be so by the other.
_LATE_S = 0.005
# How long a condition is listened for after a step has begun to wait for it: as long as a transaction may take that
# signalled before the wait could be seen.
_LISTENING_S = 30.0


class Due(msgspec.Struct, frozen=True):
    """Where to look, which conditions were announced, and whether it is time for a slow look everywhere."""

    queues: set[str]
    conditions: set[str]
    is_look: bool
    # what waited for a time has to be looked for
    has_alarms: bool


class Agenda:
    """One thread takes from it; any may add. `changed` guards it, and whatever else the worker counts."""

    def __init__(self, queues: Iterable[str], poll_s: float) -> None:
        self.changed = threading.Condition()
        self._queues = frozenset(queues)
        self._poll_s = poll_s
        self._due: set[str] = set()
        self._conditions: set[str] = set()
        self._listening: dict[str, float] = {}
        self._alarms: list[tuple[float, str]] = []
        self._announced: collections.Counter[str] = collections.Counter()
        self._look_at_s = -math.inf

    def announce(self, queue: str) -> None:
        """There is work on `queue`; on every queue when it is empty."""
        found = [queue] if queue in self._queues else [] if queue else list(self._queues)
        if found:
            with self.changed:
                self._due.update(found)
                self._announced.update(found)
                self.changed.notify_all()

    def announced(self, queue: str) -> int:
        """How often there was work on `queue`."""
        return self._announced[queue]

    def again(self, queue: str, delay_s: float) -> None:
        """Look at `queue` in a while."""
        with self.changed:
            heapq.heappush(self._alarms, (time.monotonic() + delay_s + _LATE_S, queue))
            self.changed.notify_all()

    def at_once(self, queue: str) -> None:
        """Look at `queue`. Call it with `changed` held."""
        self._due.add(queue)
        self.changed.notify_all()

    def look(self) -> None:
        """Look everywhere."""
        with self.changed:
            self._look_at_s = -math.inf
            self.changed.notify_all()

    def listen_for(self, conditions: Sequence[str]) -> None:
        """A step has begun to wait for these."""
        with self.changed:
            now_s = time.monotonic()
            for condition in [name for name, until_s in self._listening.items() if until_s < now_s]:
                del self._listening[condition]
            self._listening.update(dict.fromkeys(conditions, now_s + _LISTENING_S))

    def signalled(self, condition: str) -> None:
        """Somebody has announced that a condition is true."""
        with self.changed:
            if condition in self._listening:
                self._conditions.add(condition)
                self.changed.notify_all()

    def take(self, is_over: Callable[[], bool]) -> Due:
        """What there is to look at; waits until there is something, or `is_over`."""
        with self.changed:
            has_alarms = False
            while True:
                now_s = time.monotonic()
                while self._alarms and self._alarms[0][0] <= now_s:
                    self._due.add(heapq.heappop(self._alarms)[1])
                    has_alarms = True
                is_look = now_s >= self._look_at_s
                if is_look:
                    self._look_at_s = now_s + self._poll_s
                    self._due.update(self._queues)
                if self._due or self._conditions or is_over():
                    due, self._due = self._due, set()
                    heard, self._conditions = self._conditions, set()
                    return Due(due, heard, is_look, has_alarms or is_look)
                until_s = min(self._look_at_s, self._alarms[0][0] if self._alarms else math.inf)
                self.changed.wait(until_s - now_s)
