# SPDX-License-Identifier: Apache-2.0
"""What a network plug-in promises: it knows the networks beneath subnets, and gives share servers addresses there."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from abaca import errors
from abaca.domain.networks.allocations import Allocation, Network
from abaca.domain.networks.share_networks import Subnet


class NetworkUnknown(errors.AbacaError):
    """Subnet {id} is of no network that can be used: {reason}"""

    code = "NetworkUnknown"


class NoAddress(errors.AbacaError):
    """Subnet {id} has no free address left: {reason}"""

    code = "NoAddress"


class NetworkPlugin(abc.ABC):
    """One of these for a worker. All calls may be repeated; any may raise `errors.Unavailable`, which passes."""

    @abc.abstractmethod
    def look(self, subnet: Subnet, zone: str) -> Network:
        """What is beneath a subnet, for a share server in that availability zone. Raises `NetworkUnknown`."""

    @abc.abstractmethod
    def allocate(self, server_id: str, subnet: Subnet, network: Network, number: int) -> Sequence[Allocation]:
        """So many addresses for a share server, which has them from then on; those it has already count.

        Raises `NoAddress`; then the server has what it had.
        """

    @abc.abstractmethod
    def free(self, server_id: str, subnet_id: str | None = None) -> None:
        """Give back what a share server has, on one subnet or on all; nothing there is success."""
