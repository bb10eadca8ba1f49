# SPDX-License-Identifier: Apache-2.0
"""What the steps on a back end's queue get to work with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from abaca.drivers import contract
from abaca.journal.queues import WorkQueue
from abaca.networks.contract import NetworkPlugin

# After so many seconds a call to a driver, to a plug-in (compute, network), or what is done on one server, is shown as
# overdue.
DRIVER_CALL_S = 600.0
PLUGIN_CALL_S = 600.0
SERVER_CALL_S = 900.0


class BackEnd:
    """A storage back end, by its driver."""

    def __init__(self, driver: contract.Driver) -> None:
        self.driver = driver

    @property
    def backend(self) -> contract.Backend:
        """Who it is, and where."""
        return self.driver.backend


class ServerHost(BackEnd):
    """A back end that makes share servers, with what gives these their addresses."""

    def __init__(self, driver: contract.Driver, network: NetworkPlugin) -> None:
        super().__init__(driver)
        self.network = network

    @property
    def servers(self) -> contract.RunsServers:
        """The part of its driver that makes them. Raises `Refused` where it has none."""
        if not isinstance(self.driver, contract.RunsServers):
            raise contract.Refused(reason=f"the driver of {self.backend.name} makes no share servers")
        return self.driver


def backends_of(queues: Iterable[WorkQueue[Any]]) -> dict[str, WorkQueue[BackEnd]]:
    """Those queues that are back ends, by their names."""
    return {one.name: one for one in queues if isinstance(one.parts, BackEnd)}


def queue_of(driver: contract.Driver, concurrency: int = 8, network: NetworkPlugin | None = None) -> WorkQueue[BackEnd]:
    """The queue of a back end, `host@backend`; with what gives its share servers their addresses, if it makes any."""
    backend = driver.backend
    return WorkQueue(
        backend.host,
        BackEnd(driver) if network is None else ServerHost(driver, network),
        concurrency,
        start=driver.start,
        stop=driver.stop,
        label=f"back end {backend.name}",
    )
