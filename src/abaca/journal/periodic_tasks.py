# SPDX-License-Identifier: Apache-2.0
"""What a worker does beside operations, again and again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import msgspec
from sqlalchemy import exc

from abaca import errors

log = logging.getLogger(__name__)


class PeriodicTask(msgspec.Struct, frozen=True):
    """Something done every `every_s` seconds, once at the start, and never twice at the same time.

    When `do` gives a float, it is done again after so many seconds if that is sooner; and at once when `queue` is
    announced.
    """

    name: str
    every_s: float
    do: Callable[[], object]
    queue: str | None = None


class Schedule:
    """Runs periodic tasks, each in a thread of its own."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._bells: list[tuple[str | None, threading.Event]] = []

    def start(self, tasks: list[PeriodicTask], thread: Callable[..., None]) -> None:
        """Begin; `thread(name, target, *args)` starts a thread."""
        self._bells = [(task.queue, threading.Event()) for task in tasks]
        for task, (_, bell) in zip(tasks, self._bells, strict=True):
            thread(task.name, self._repeat, task, bell)

    def announce(self, queue: str) -> None:
        """There is something on `queue`; on every queue when it is empty."""
        for name, bell in self._bells:
            if name is not None and queue in ("", name):
                bell.set()

    def stop(self) -> None:
        """Nothing begins again."""
        for _, bell in self._bells:
            bell.set()

    def _repeat(self, task: PeriodicTask, bell: threading.Event) -> None:
        while not self._stopping.is_set():
            pause_s = task.every_s
            try:
                again_s = task.do()
                if isinstance(again_s, float):
                    pause_s = min(pause_s, again_s)
            except exc.DBAPIError as error:
                log.warning("%s waits for the database: %s", task.name, str(error).split("\n")[0])
            except errors.AbacaError as error:
                log.warning("%s: %s", task.name, error.message)
            except Exception:
                log.exception("%s failed", task.name)
            bell.wait(pause_s)
            if self._stopping.is_set():
                return
            bell.clear()
