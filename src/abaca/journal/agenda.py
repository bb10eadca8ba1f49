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
# A queue is looked at so often at once, and beyond that every so many seconds: what came meanwhile is taken together.
_AT_ONCE, _APART_S = 4, 0.01


class Due(msgspec.Struct, frozen=True):
    """Where to look, which conditions were announced, and whether it is time for a slow look everywhere."""

    queues: set[str]
    conditions: set[str]
    is_look: bool
    # so many times have come for which something waited
    alarms: int


class Agenda:
    """One thread takes from it; any may add. `changed` guards it, and whatever else the worker counts."""

    def __init__(self, queues: Iterable[str], poll_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.changed = threading.Condition()
        self._queues = frozenset(queues)
        self._poll_s = poll_s
        self._clock = clock
        self._due: set[str] = set()
        # those of them that are not left for a moment to be looked at together with what comes in it
        self._urgent: set[str] = set()
        # until when each queue has been looked at, if a look counts for `_APART_S`
        self._looked_s: dict[str, float] = {}
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
                self._announced.update(found)
                self._look(found)

    def announced(self, queue: str) -> int:
        """How often there was work on `queue`."""
        return self._announced[queue]

    def again(self, queue: str, delay_s: float) -> None:
        """Look at `queue` in a while."""
        with self.changed:
            heapq.heappush(self._alarms, (self._clock() + delay_s + _LATE_S, queue))
            self.changed.notify_all()

    def at_once(self, queue: str) -> None:
        """Look at `queue`, however often that was done just now. Call it with `changed` held."""
        self._hurry(queue)
        self.changed.notify_all()

    def _hurry(self, *queues: str) -> None:
        self._due.update(queues)
        self._urgent.update(queues)

    def soon(self, queue: str) -> None:
        """Look at `queue`, as if it was announced. Call it with `changed` held."""
        self._look([queue])

    def _look(self, queues: Sequence[str]) -> None:
        if not self._due.issuperset(queues):  # else whoever takes has been told
            self._due.update(queues)
            self.changed.notify_all()

    def look(self) -> None:
        """Look everywhere."""
        with self.changed:
            self._look_at_s = -math.inf
            self.changed.notify_all()

    def listen_for(self, conditions: Sequence[str]) -> None:
        """A step has begun to wait for these."""
        with self.changed:
            now_s = self._clock()
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
            alarms = 0
            while True:
                now_s = self._clock()
                while self._alarms and self._alarms[0][0] <= now_s:
                    self._hurry(heapq.heappop(self._alarms)[1])
                    alarms += 1
                is_look = now_s >= self._look_at_s
                if is_look:
                    self._look_at_s = now_s + self._poll_s
                    self._hurry(*self._queues)
                ready = {queue for queue in self._due if queue in self._urgent or self._turn_s(queue) <= now_s}
                if ready or self._conditions or is_over():
                    self._due -= ready
                    self._urgent -= ready
                    for queue in ready:
                        looked_s = max(self._looked_s.get(queue, now_s), now_s) + _APART_S
                        self._looked_s[queue] = min(looked_s, now_s + (_AT_ONCE + 0.5) * _APART_S)
                    heard, self._conditions = self._conditions, set()
                    return Due(ready, heard, is_look, alarms)
                turns_s = [self._look_at_s, *map(self._turn_s, self._due)]
                until_s = min(turns_s if not self._alarms else [*turns_s, self._alarms[0][0]])
                self.changed.wait(until_s - now_s)

    def _turn_s(self, queue: str) -> float:
        """From when on the queue can be looked at again."""
        return self._looked_s.get(queue, -math.inf) - (_AT_ONCE - 0.5) * _APART_S
