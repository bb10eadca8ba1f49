# SPDX-License-Identifier: Apache-2.0
"""What the steps on a back end's queue get to work with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from abaca.drivers import contract
from abaca.journal.queues import WorkQueue

# After so many seconds a call to a driver, or what is done on one server, is shown as overdue.
DRIVER_CALL_S = 600.0
SERVER_CALL_S = 900.0


class BackEnd:
    """A storage back end, by its driver."""

    def __init__(self, driver: contract.Driver) -> None:
        self.driver = driver

    @property
    def backend(self) -> contract.Backend:
        """Who it is, and where."""
        return self.driver.backend


def backends_of(queues: Iterable[WorkQueue[Any]]) -> dict[str, WorkQueue[BackEnd]]:
    """Those queues that are back ends, by their names."""
    return {one.name: one for one in queues if isinstance(one.parts, BackEnd)}


def queue_of(driver: contract.Driver, concurrency: int = 8) -> WorkQueue[BackEnd]:
    """The queue of a back end, `host@backend`."""
    backend = driver.backend
    return WorkQueue(
        backend.host,
        BackEnd(driver),
        concurrency,
        start=driver.start,
        stop=driver.stop,
        label=f"back end {backend.name}",
    )
