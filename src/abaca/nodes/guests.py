# SPDX-License-Identifier: Apache-2.0
"""What is done on a hypervisor for one share of one guest: guests.sh's actions, and orders to the guest's QEMU.

Nothing is decided here: `virtiofs.Hypervisor` decides, for real machines and for those on paper.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from abaca.nodes import machine, qmp
from abaca.nodes.contract import Guest, MountRefused, TimedOut
from abaca.nodes.shell import Limits, NobodyListens, Shell

if TYPE_CHECKING:
    import asyncssh

DIRECTORY = "/run/abaca-guests"
_AGAIN_S = 0.2


class GuestOff(Exception):
    """No QEMU listens, so there is no guest that could have a device."""


class State(msgspec.Struct, frozen=True):
    """What guests.sh says: virtiofsd's path, whether ours runs, and which attachments have the socket of one."""

    program: str
    is_serving: bool
    sockets: frozenset[str]
    # Whether anybody listens on the QMP socket, where that was asked.
    is_heard: bool = False
    problem: str = ""


class Orders(Protocol):
    """The orders that a guest's QEMU takes: `qmp.Monitor` on a real one. Raises `qmp.Declined` where QEMU refuses."""

    async def do(self, order: str, **arguments: object) -> Any: ...
    async def devices(self) -> Mapping[str, str]: ...
    async def tag(self, device: str) -> str: ...
    async def tags(self) -> Mapping[str, str]: ...
    async def chardevs(self) -> set[str]: ...
    async def is_memory_shared(self) -> bool: ...
    async def free_ports(self) -> list[str]: ...
    async def until_gone(self, device: str, wait_s: float) -> bool: ...


class Hand(Protocol):
    """Carries out actions on one hypervisor: `Remote` on a real one, `paper_guests.Host` in rehearsals."""

    @property
    def host(self) -> str: ...

    async def act(self, action: str) -> State:
        """Do one action; the state in which it leaves the hypervisor.

        Raises `TimedOut`, `MachineUnreachable`, `NodeError`.
        """

    def orders(self) -> AbstractAsyncContextManager[Orders]:
        """A session with the guest's QEMU, in which nobody else gives it orders.

        Raises `GuestOff`, `TimedOut`, `MachineUnreachable`, `NotAllowed`, `MountRefused`.
        """


class Remote:
    """Carries out actions in a shell on the hypervisor."""

    def __init__(self, shell: Shell, name: str, guest: Guest, limits: Limits) -> None:
        self.host = shell.host
        self._shell = shell
        self._name = name
        self._guest = guest
        self._limits = limits
        self._script = machine.Script(shell, "guests.sh", limits)

    async def act(self, action: str) -> State:
        values = {"action": action, "name": self._name, "directory": DIRECTORY, "qmp_socket": self._guest.qmp_socket}
        lines = await self._script.act(values)
        said = {key: value for key, _, value in (line.partition(" ") for line in lines)}
        return State(
            program=said.get("program", ""),
            is_serving="serving" in said,
            sockets=frozenset(said.get("sockets", "").split()),
            is_heard="heard" in said,
            problem=said.get("problem", ""),
        )

    @contextlib.asynccontextmanager
    async def orders(self) -> AsyncIterator[Orders]:
        reader, writer = await self._connected()
        try:
            monitor = qmp.Monitor(self.host, reader, writer, self._limits.command_s / 2)
            await monitor.greet()
            yield monitor
        except qmp.Declined as declined:
            raise MountRefused(host=self.host, reason=f"QEMU says: {declined}") from declined
        finally:
            writer.close()

    async def _connected(self) -> tuple[asyncssh.SSHReader[bytes], asyncssh.SSHWriter[bytes]]:
        """QEMU's queue is short: refused may mean that it is full."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limits.command_s / 2
        while True:
            try:
                return await self._shell.opened(self._guest.qmp_socket)
            except NobodyListens:
                if not (await self.act("listen")).is_heard:
                    raise GuestOff from None
            if loop.time() > deadline:
                reason = f"{self._guest.qmp_socket} takes no connection; may the registered user open it?"
                raise TimedOut(host=self.host, reason=reason)
            await asyncio.sleep(_AGAIN_S)
