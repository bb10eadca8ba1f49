# SPDX-License-Identifier: Apache-2.0
"""Who has failed lately waits, the longer the more often; and how many checks of passwords run at a time.

A check of a password takes as much of a core as a hundred other requests, on purpose. So guesses are slowed for each
address and for each user, and while many fail no request waits for a check that another has under way: threads that
answer are left for those who are known.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from abaca import errors

KEPT = 4096
LONGEST_S = 60.0
FORGOTTEN_S = 600.0
# Wrong ones that cost nothing but themselves: of an address, and of a user from all addresses.
OF_ADDRESS, OF_USER = 5, 20
# So many wrong ones within a minute are no mistakes of people any more.
STORM, STORM_S = 5, 60.0
PATIENCE_S = 5.0
_BUSY_S = 2


class _Failed(NamedTuple):
    times: int
    at: float


class Brakes:
    """Failures by key, in memory: as long as this process lives, and for the last few thousand keys."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failed: OrderedDict[tuple[str, str], _Failed] = OrderedDict()
        self._storm: list[float] = []

    def check(self, key: tuple[str, str], free: int) -> None:
        """Raises `TooMany` while the key has to wait after more than `free` failures."""
        found = self._failed.get(key)
        if found is None or found.times < free:
            return
        left_s = found.at + min(LONGEST_S, 2.0 ** (found.times - free)) - self._clock()
        if left_s > 0:
            raise errors.TooMany(retry_after_s=math.ceil(left_s))

    def failed(self, *keys: tuple[str, str]) -> None:
        """They gave a wrong password."""
        now = self._clock()
        with self._lock:
            for key in keys:
                before = self._failed.get(key)
                times = before.times if before is not None and now - before.at < FORGOTTEN_S else 0
                self._failed[key] = _Failed(times + 1, now)
                self._failed.move_to_end(key)
            while len(self._failed) > KEPT:
                self._failed.popitem(last=False)
            self._storm = [at for at in self._storm[-STORM:] if now - at < STORM_S] + [now]

    def passed(self, *keys: tuple[str, str]) -> None:
        """They gave the right one."""
        with self._lock:
            for key in keys:
                self._failed.pop(key, None)

    def is_calm(self, key: tuple[str, str]) -> bool:
        """Whether nothing says that somebody guesses: the key has not failed lately, and few others have."""
        return key not in self._failed and (len(self._storm) < STORM or self._clock() - self._storm[-STORM] > STORM_S)


class Slots:
    """How many checks run at a time."""

    def __init__(self, number: int) -> None:
        self._free = threading.BoundedSemaphore(number)

    @contextlib.contextmanager
    def one(self, *, waits: bool) -> Iterator[None]:
        """Hold one; `waits` for one that is taken, some seconds at most. Raises `TooMany`."""
        if not self._free.acquire(timeout=PATIENCE_S if waits else 0):
            raise errors.TooMany(retry_after_s=_BUSY_S)
        try:
            yield
        finally:
            self._free.release()
