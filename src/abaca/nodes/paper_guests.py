# SPDX-License-Identifier: Apache-2.0
"""What guests.sh and QEMU do on a hypervisor, done to one on paper.

As there, nothing is decided here: `virtiofs.Hypervisor` decides for real machines and for these.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from abaca.domain.attachments.servers import Login
from abaca.drivers.dummy.state_file import StateFile
from abaca.nodes import paper, qmp
from abaca.nodes.contract import Guest, MountRefused
from abaca.nodes.guests import DIRECTORY, GuestOff, State
from abaca.nodes.paper import PaperGuest, Sheet
from abaca.nodes.virtiofs import PREFIX


class Host:
    """A `guests.Hand` on the machine that `login` leads to."""

    def __init__(self, state_file: StateFile, login: Login, name: str, guest: Guest) -> None:
        self.host = login.host
        self._state_file = state_file
        self._key = paper.key(login.host, login.port)
        self._name = name
        self._guest = guest

    async def act(self, action: str) -> State:
        with paper.changing(self._state_file, self._key) as (sheet, _):
            problem = ""
            if action == "clear":
                sheet.serving.discard(self._name)
            elif action == "serve" and sheet.mounted(f"{DIRECTORY}/{self._name}.share"):
                sheet.serving.add(self._name)
            elif action == "serve":
                problem = "the share is not mounted"
            is_serving, sockets = self._name in sheet.serving, frozenset(sheet.serving)
            return State("/usr/libexec/virtiofsd", is_serving, sockets, problem=problem)

    @contextlib.asynccontextmanager
    async def orders(self) -> AsyncIterator[Orders]:
        with paper.changing(self._state_file, self._key) as (sheet, _):
            if sheet.guest(self._guest.qmp_socket).is_off:
                raise GuestOff
        try:
            yield Orders(self._state_file, self._key, self._guest.qmp_socket)
        except qmp.Declined as declined:
            raise MountRefused(host=self.host, reason=f"QEMU says: {declined}") from declined


class Orders:
    """A `guests.Orders` on one guest."""

    def __init__(self, state_file: StateFile, key: str, qmp_socket: str) -> None:
        self._state_file = state_file
        self._key = key
        self._qmp_socket = qmp_socket

    async def do(self, order: str, **arguments: Any) -> None:
        with self._changing() as guest:
            name = arguments["id"]
            if order == "chardev-add":
                guest.chardevs.add(name)
            elif order == "device_add":
                guest.devices[name] = arguments["tag"]
            elif order == "device_del" and not guest.holds_on:
                guest.devices.pop(name, None)
            elif order == "chardev-remove":
                if name in guest.devices:
                    raise qmp.Declined(f"Chardev '{name}' is busy")
                guest.chardevs.discard(name)

    async def devices(self) -> Mapping[str, str]:
        with self._changing() as guest:
            return dict.fromkeys(guest.devices, qmp.VIRTIOFS)

    async def tag(self, device: str) -> str:
        return (await self.tags())[device]

    async def tags(self) -> Mapping[str, str]:
        with self._changing() as guest:
            return dict(guest.devices)

    async def chardevs(self) -> set[str]:
        with self._changing() as guest:
            return set(guest.chardevs)

    async def is_memory_shared(self) -> bool:
        return True

    async def free_ports(self) -> list[str]:
        with self._changing() as guest:
            return [f"port{number}" for number in range(len(guest.devices), guest.ports)]

    async def until_gone(self, device: str, wait_s: float) -> bool:
        return device not in await self.devices()

    @contextlib.contextmanager
    def _changing(self) -> Iterator[PaperGuest]:
        with paper.changing(self._state_file, self._key) as (sheet, _):
            yield sheet.guest(self._qmp_socket)


def end(sheet: Sheet, guest: PaperGuest) -> None:
    """A guest's QEMU ends; without it a virtiofsd ends, too."""
    sheet.serving -= {name.removeprefix(PREFIX) for name in guest.devices}
    guest.is_off = True
    guest.devices.clear()
    guest.chardevs.clear()


def parts(sheet: Sheet) -> dict[str, list[str]]:
    """Of each attachment what stands for it on a hypervisor, in order: `chardev` and `device` of QEMU, `virtiofsd`."""
    found = [(name, "virtiofsd") for name in sheet.serving]
    for guest in sheet.guests.values():
        found += [(name.removeprefix(PREFIX), "device") for name in guest.devices]
        found += [(name.removeprefix(PREFIX), "chardev") for name in guest.chardevs]
    by_name: dict[str, list[str]] = {}
    for name, part in sorted(found):
        by_name.setdefault(name, []).append(part)
    return by_name
