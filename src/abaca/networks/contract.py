# SPDX-License-Identifier: Apache-2.0
"""What a network plug-in promises: it knows the networks beneath subnets, and gives share servers addresses there.

A plug-in is one module beside this one. `tests/networks/test_contract.py` holds every plug-in to this.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.domain.networks.allocations import Allocation, Network, host_address
from abaca.domain.networks.share_networks import Subnet

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx

# Told of each transaction that changes what a server has, within it; raises where that comes too late.
Guard = Callable[["Tx"], None]


# So many share servers are given addresses side by side where a plug-in has no way for many at once.
_AT_ONCE = 8


def anybody(_tx: Tx) -> None:
    """It never comes too late."""


class NetworkUnknown(errors.AbacaError):
    """Subnet {id} is of no network that can be used: {reason}"""

    code = "NetworkUnknown"


class NoAddress(errors.AbacaError):
    """Subnet {id} has no free address left: {reason}"""

    code = "NoAddress"


class AddressNotUsable(errors.AbacaError):
    """Address {address} on subnet {id} cannot be that of a share server that is taken over: {reason}"""

    code = "AddressNotUsable"


class NetworkUnreachable(errors.Unavailable):
    """The network service does not answer: {reason}"""

    code = "NetworkUnreachable"


def told(code: str | None, text: str) -> str:
    """What users are told of an error that ended something: where the network service is, is for operators alone."""
    if code != NetworkUnreachable.code:
        return text
    return "The network service does not answer; try again later, or ask your operators."


class Held(msgspec.Struct, frozen=True):
    """Something that a plug-in keeps elsewhere for a share server: its id there, and its addresses, for people."""

    id: str
    server_id: str
    addresses: str


class NetworkPlugin(abc.ABC):
    """One of these for a worker. All calls may be repeated; any may raise `errors.Unavailable`, which passes.

    The addresses that a server has are rows of the database, whatever else there is of them.
    """

    @abc.abstractmethod
    def look(self, subnet: Subnet, zone: str) -> Network:
        """What is beneath a subnet, for a share server in that availability zone.

        Raises `NetworkUnknown`, also for what is there and not for the project of the share network.
        """

    @abc.abstractmethod
    def allocate(
        self, server_id: str, subnet: Subnet, network: Network, number: int, guard: Guard = anybody
    ) -> Sequence[Allocation]:
        """So many addresses for a share server, which has them from then on; those it has already count.

        `network` is what `look` said of the subnet. Raises `NoAddress`; then the server has what it had. Raises
        `NetworkUnknown` for a network that is gone since, `NotFound` for a server that is; then nothing is left of it.
        What the `guard` raises, too: then no row is written, and what others may rely on by now stays elsewhere.
        """

    def allocate_many(
        self, server_ids: Sequence[str], subnet: Subnet, network: Network, number: int, guard: Guard = anybody
    ) -> Collection[str]:
        """The same for several share servers; those that have theirs now.

        One that is left out has what it had. It is asked for alone then, and that says what is wrong. Raises what the
        `guard` does.
        """

        def allocate(server_id: str) -> bool:
            try:
                self.allocate(server_id, subnet, network, number, guard)
            except errors.AbacaError:
                return False
            return True

        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="addresses") as threads:
            done = list(threads.map(allocate, server_ids))
        return [one for one, is_done in zip(server_ids, done, strict=True) if is_done]

    @abc.abstractmethod
    def free(self, server_id: str, subnet_id: str | None = None, guard: Guard = anybody) -> None:
        """Give back what a share server has, on one subnet or on all; nothing there is success.

        Raises what the `guard` does; then the server has what it had.
        """

    @abc.abstractmethod
    def adopt(
        self, server_id: str, subnet: Subnet, network: Network, addresses: Sequence[str], guard: Guard = anybody
    ) -> Sequence[Allocation]:
        """The addresses at which a share server that is taken over answers already; all that it has there then.

        They are free, or the server's own, or what it has left. Raises `AddressNotUsable` for one that is not, or that
        lies elsewhere; then the server has none of them. Raises `NetworkUnknown`, `NotFound` and what the `guard` does
        as `allocate` does.
        """

    @abc.abstractmethod
    def disown(self, server_id: str, guard: Guard = anybody) -> None:
        """The undo of `adopt`: what the share server had left is left again, and of the rest nothing was taken.

        Nothing there is success. Raises what the `guard` does.
        """

    @abc.abstractmethod
    def leave(self, server_id: str, guard: Guard = anybody) -> None:
        """A share server is given up and answers on: nobody else gets what it had, until it is taken over again.

        Nothing there is success. Raises what the `guard` does.
        """

    @abc.abstractmethod
    def let_go(self, allocation_id: str) -> bool:
        """An address that a server has left is given to others again; whether it was such a one."""

    @abc.abstractmethod
    def held(self) -> Sequence[Held] | None:
        """All that it keeps elsewhere under our name, for servers that are there or not; None where that is nothing."""

    @abc.abstractmethod
    def release(self, held: Held) -> None:
        """Give that back, which is of no server that is there; nothing there is success."""


def answering(subnet: Subnet, network: Network, addresses: Sequence[str]) -> list[str]:
    """The addresses of a server that is taken over, in their shortest form. Raises `AddressNotUsable`."""
    found = []
    for one in addresses:
        address = host_address(one, network)
        if address is None:
            reason = f"it is no address for a server in {network.cidr}; take it over on the subnet on which it answers"
            raise AddressNotUsable(address=one, id=subnet.id, reason=reason)
        found.append(address)
    return list(dict.fromkeys(found))
