# SPDX-License-Identifier: Apache-2.0
"""A queue that a worker serves: what the steps on it get to work with, and how many may run at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Parts_co = TypeVar("Parts_co", covariant=True)


def _nothing() -> None:
    """There is nothing to start or to stop."""


class WorkQueue(Generic[Parts_co]):
    """`parts` is what steps get as `op.parts`; `start` makes it ready, `stop` lets go of it.

    `start` raises `AbacaError` or `OSError` while it cannot be; it is tried again. `label` names it to operators.
    """

    def __init__(
        self,
        name: str,
        parts: Parts_co,
        concurrency: int = 8,
        *,
        start: Callable[[], None] = _nothing,
        stop: Callable[[], None] = _nothing,
        label: str = "",
    ) -> None:
        self.name = name
        self.parts = parts
        self.concurrency = concurrency
        self.start = start
        self.stop = stop
        self.label = label or name
        self.is_started = False
        self.problem: str | None = None
        # how many operations hold a slot; those whose step is overdue hold none, up to as many as there are slots
        self.running = 0
        self.overdue: set[str] = set()

    @property
    def free(self) -> int:
        """How many operations more may be taken."""
        return max(0, self.concurrency - self.running)
