# SPDX-License-Identifier: Apache-2.0
"""How long statements of a request may take, and that of what may take long one is under way at a time.

PostgreSQL stops a statement itself. SQLite asks every few thousand steps whether it shall go on.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from abaca import errors

# SQLite asks after so many of its steps, which take some tenths of a millisecond.
_STEPS = 20_000
_QUERY_CANCELED = "57014"


class Limits(NamedTuple):
    """How many seconds one statement may take that looks, and one that belongs to a change.

    Of those who ask for much `waiting` may wait while another takes long: each of them holds a thread.
    """

    look_s: float
    change_s: float
    waiting: int = 1


class _Postgresql(Protocol):
    def execute(self, query: str) -> object: ...

    def commit(self) -> None: ...


def limiting(limit_s: float) -> Callable[[sqlite3.Connection | _Postgresql, object], None]:
    """What makes the statements of a new connection end after so long."""

    def limit(connection: sqlite3.Connection | _Postgresql, _record: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.set_progress_handler(connection.deadline.of(limit_s), _STEPS)  # type: ignore[attr-defined]
            return
        connection.execute(f"SET statement_timeout = {max(1, round(limit_s * 1000))}")
        connection.commit()

    return limit


class Deadline:
    """Until when the statement of a connection may go on; each begins it anew (guard.py)."""

    __slots__ = ("_limit_s", "_until_s")

    def __init__(self) -> None:
        self._limit_s = self._until_s = float("inf")

    def begin(self) -> None:
        """A statement begins."""
        self._until_s = time.monotonic() + self._limit_s

    def is_over(self) -> bool:
        """Whether it shall stop."""
        return time.monotonic() > self._until_s

    def of(self, limit_s: float) -> Callable[[], bool]:
        """From now on statements may take so long; what says whether the present one shall stop."""
        self._limit_s = limit_s
        return self.is_over


def is_over(error: BaseException) -> bool:
    """Whether a statement was stopped because it took too long."""
    cause = getattr(error, "orig", None)
    if isinstance(cause, sqlite3.Error):
        return cause.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT
    return getattr(cause, "sqlstate", None) == _QUERY_CANCELED


# ---------------------------------------------------------------- one at a time

# What is not over by then takes long.
LONG_S = 0.25
# So long somebody waits for their turn, while nobody else does.
PATIENCE_S = 5.0


class Turns:
    """Those who ask for what may take long take turns, so that threads and connections are left for all others.

    While it takes no time, as it does where there is little to read, they just wait for each other. Of something that
    takes long one is under way, and `waiting` wait; whoever comes then is told to come again.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, waiting: int = 1) -> None:
        self._clock = clock
        self._most_waiting = waiting
        self._changed = threading.Condition()
        self._since_s: float | None = None
        self._waiting = 0

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """In this block it is our turn. Raises `Unavailable`."""
        with self._changed:
            until_s = self._clock() + PATIENCE_S
            while self._since_s is not None:
                self._wait(self._since_s + LONG_S, until_s)
            self._since_s = self._clock()
        try:
            yield
        finally:
            with self._changed:
                self._since_s = None
                self._changed.notify()

    def _wait(self, long_at_s: float, until_s: float) -> None:
        now_s = self._clock()
        is_long = now_s >= long_at_s
        if now_s >= until_s or (is_long and self._waiting >= self._most_waiting):
            raise errors.Unavailable(
                "Others have asked for much at once, such as a count or what is far behind in a list, and are served "
                "first; try again in some seconds, or ask for less."
            )
        self._waiting += 1
        try:
            self._changed.wait((until_s if is_long else min(until_s, long_at_s)) - now_s)
        finally:
            self._waiting -= 1
