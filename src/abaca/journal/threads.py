# SPDX-License-Identifier: Apache-2.0
"""Threads that run jobs, kept for the next one."""

from __future__ import annotations

import queue as queues
import threading
from collections.abc import Callable


class Threads:
    """Daemons: a step that does not end does not keep the process."""

    def __init__(self) -> None:
        self._jobs: queues.SimpleQueue[Callable[[], None] | None] = queues.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._size = 0

    def submit(self, job: Callable[[], None]) -> None:
        """Run it at once. Only one thread submits; how much there is at once is its business."""
        self._jobs.put(job)
        if not self._idle.acquire(blocking=False):
            self._size += 1
            threading.Thread(target=self._work, name=f"operation-{self._size}", daemon=True).start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job
            self._idle.release()

    def dismiss(self) -> None:
        """No more jobs will come; those under way go on."""
        for _ in range(self._size):
            self._jobs.put(None)
