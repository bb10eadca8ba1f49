# SPDX-License-Identifier: Apache-2.0
"""The hypervisor's way: the share is mounted on the host of a guest, and the guest is handed a virtiofs device.

Each attachment has its own mount, its own virtiofsd and its own device, so none of them counts the others; the kernel
shares what can be shared. Orders go to QEMU itself. A hypervisor whose guests libvirt holds would be a class beside
`Hypervisor` that keeps the same four promises (`Way`), and is chosen in mounts.py where this one is.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.resources
import re
from collections.abc import AsyncIterator
from typing import Any, Protocol

import msgspec

from abaca.nodes import contract, machine, qmp
from abaca.nodes.contract import Guest, Holder, InUse, Mount, MountRefused, Seen, TimedOut, Unreachable, Unsupported
from abaca.nodes.shell import Limits, NobodyListens, Shell

DIRECTORY = "/run/abaca-guests"
TAG_BYTES = 36
"""The size of a tag in a virtiofs device."""
UNPLUG_S = 20.0
"""How long a guest may take to let go of a device, at most, and no more than half of what a command may."""
LEFT_S = 2.0
"""How long it may take for one that was given up by force."""
AGAIN_S = 0.2
PREFIX = "abaca-"
"""Before an attachment's id it is the name of its device; QEMU's names begin with a letter."""
NO_PORT = "no free pcie-root-port: give QEMU one for each share at its start, or detach another share"

_TAG = re.compile(r"[A-Za-z0-9_.-]{1,36}")
_SOCKET = re.compile(r"/[A-Za-z0-9_+@.:/-]{1,106}")


@functools.cache
def _script() -> str:
    return importlib.resources.files("abaca.nodes").joinpath("guests.sh").read_text()


class GuestOff(Exception):
    """No QEMU listens, so there is no guest that could have a device."""


class Way(Protocol):
    """How one share gets to one machine, for as long as the connection is open."""

    async def mount(self) -> Seen: ...
    async def look(self) -> Seen | None: ...
    async def unmount(self) -> None: ...
    async def force(self) -> None: ...
    async def clear(self) -> None: ...


class _State(msgspec.Struct, frozen=True):
    """What guests.sh says: virtiofsd's path, whether ours runs, whether anybody listens on the QMP socket."""

    program: str
    is_serving: bool
    is_heard: bool
    problem: str
    # The attachments that have a socket of a virtiofsd, which may have ended.
    sockets: frozenset[str]


def is_off(host: str, guest: Guest) -> Unreachable:
    """The error when nobody takes a guest's orders."""
    return Unreachable(host=host, reason=f"the guest is off: nobody listens on {guest.qmp_socket}")


def tag_taken(host: str, guest: Guest, device: str) -> MountRefused:
    """The error when a guest has something else under the tag."""
    reason = f"the guest has a device {device} with the tag {guest.tag} already"
    return MountRefused(host=host, reason=reason)


def in_use(host: str, guest: Guest) -> InUse:
    """The error when a guest would lose what it may have mounted, and nobody here can see whether it has."""
    return InUse(host=host, holders=(Holder(0, f"the guest, which has it as {guest.tag}"),))


def problem(guest: Guest) -> str | None:
    """Why a guest cannot be meant by this, None when it can."""
    if not _TAG.fullmatch(guest.tag):
        return f"the tag {guest.tag!r} is none for a guest: letters, digits, dots and dashes, at most {TAG_BYTES}"
    if not _SOCKET.fullmatch(guest.qmp_socket) or "/../" in guest.qmp_socket:
        return f"{guest.qmp_socket!r} is no path of a QMP socket"
    return None


def on_host(mount: Mount) -> Mount:
    """The mount on the hypervisor from which the guest is served."""
    return msgspec.structs.replace(mount, mount_point=f"{DIRECTORY}/{mount.name}.share", guest=None)


class Hypervisor:
    """One share for one guest. `host` mounts it on the hypervisor, `old` is its mount from where it was before."""

    def __init__(self, shell: Shell, mount: Mount, host: Way, old: Way | None, limits: Limits) -> None:
        if mount.guest is None:
            raise ValueError(f"{mount.name} is for no guest")
        self._shell = shell
        self._name = mount.name
        self._guest = mount.guest
        self._host = host
        self._old = old
        self._limits = limits
        self._unplug_s = min(UNPLUG_S, limits.command_s / 2)
        self._device = PREFIX + mount.name

    async def look(self) -> Seen | None:
        """Device, virtiofsd and mount; a guest that is off has none."""
        seen = await self._host.look()
        if seen is None or not (await self._act("look")).is_serving:
            return None
        try:
            async with self._monitor() as monitor:
                return seen if await self._is_plugged(monitor) else None
        except GuestOff:
            return None

    async def mount(self) -> Seen:
        """Mounted, served and plugged; what fails leaves nothing. Raises `InUse` while the guest has the old one."""
        state = await self._act("look")
        if not state.program:
            raise Unsupported(host=self._shell.host, reason="it has no virtiofsd; install it there by hand")
        try:
            async with self._monitor() as monitor:
                seen = await self._host.look()
                if state.is_serving and await self._is_plugged(monitor):
                    if seen is not None:
                        return seen
                    if self._old is not None and await self._old.look() is not None:
                        raise in_use(self._shell.host, self._guest)
                await self._unplug(monitor, self._device, self._unplug_s)
                await self._sweep(monitor)
                await self._check(monitor)
                try:
                    return await self._plug(monitor)
                except BaseException:
                    with contextlib.suppress(contract.NodeError, qmp.Declined):
                        await self._unplug(monitor, self._device, self._unplug_s)
                    with contextlib.suppress(contract.NodeError):
                        await self._end(force=False)
                    raise
        except GuestOff:
            await self._end(force=False)
            raise is_off(self._shell.host, self._guest) from None

    async def unmount(self) -> None:
        """Out of the guest first. Raises `TimedOut` when the guest does not let go."""
        with contextlib.suppress(GuestOff):
            async with self._monitor() as monitor:
                await self._unplug(monitor, self._device, self._unplug_s)
        await self._end(force=False)

    async def force(self) -> None:
        """Whether the guest lets go or not: what it then still shows is dead, and goes when the next is plugged."""
        with contextlib.suppress(GuestOff, contract.NodeError):
            async with self._monitor() as monitor:
                await self._unplug(monitor, self._device, self._unplug_s)
        await self._end(force=True)

    async def clear(self) -> None:
        """By force: device, virtiofsd and mount bear the attachment's name."""
        await self.force()

    async def _plug(self, monitor: qmp.Monitor) -> Seen:
        seen = await self._host.mount()
        state = await self._act("serve")
        if not state.is_serving:
            raise MountRefused(host=self._shell.host, reason=f"virtiofsd does not start: {state.problem}")
        address = {"type": "unix", "data": {"path": f"{DIRECTORY}/{self._name}.sock"}}
        backend = {"type": "socket", "data": {"addr": address, "server": False}}
        said = NO_PORT
        try:
            await monitor.do("chardev-add", id=self._device, backend=backend)
            for port in await monitor.free_ports():
                try:
                    await monitor.do(
                        "device_add",
                        driver="vhost-user-fs-pci",
                        id=self._device,
                        chardev=self._device,
                        tag=self._guest.tag,
                        bus=port,
                    )
                    return seen
                except qmp.Declined as declined:
                    said = str(declined)
                    if "occupied" not in said and "in use" not in said:
                        break
        except qmp.Declined as declined:
            said = str(declined)
        raise MountRefused(host=self._shell.host, reason=f"the guest does not take it: {said}")

    async def _check(self, monitor: qmp.Monitor) -> None:
        """Raises `Unsupported` and `MountRefused` for what a guest lacks, before anything is done for it."""
        if not await monitor.is_memory_shared():
            reason = (
                "the guest's memory is not shared: start QEMU with -object memory-backend-memfd,id=mem,size=...,"
                "share=on and -numa node,memdev=mem"
            )
            raise Unsupported(host=self._shell.host, reason=reason)
        if not await monitor.free_ports():
            raise MountRefused(host=self._shell.host, reason=f"the guest has {NO_PORT}")
        for device, tag in (await monitor.tags()).items():
            if tag == self._guest.tag:
                raise tag_taken(self._shell.host, self._guest, device)

    async def _is_plugged(self, monitor: qmp.Monitor) -> bool:
        try:
            return self._device in await monitor.devices() and await monitor.tag(self._device) == self._guest.tag
        except qmp.Declined:
            return False  # it has just gone

    async def _sweep(self, monitor: qmp.Monitor) -> None:
        """What was given up by force while the guest did not let go of it: a device of ours that nobody can serve."""
        known = {*await monitor.devices(), *await monitor.chardevs()} - {self._device}
        others = sorted(one for one in known if one.startswith(PREFIX))
        # We are alone with the guest, and whoever plugs makes his socket while he is.
        served = (await self._act("look")).sockets if others else frozenset()
        for device in others:
            if device.removeprefix(PREFIX) not in served:
                with contextlib.suppress(TimedOut, qmp.Declined):
                    await self._unplug(monitor, device, LEFT_S)

    async def _unplug(self, monitor: qmp.Monitor, device: str, wait_s: float) -> None:
        """Device and character device away, where they are."""
        if device in await monitor.devices():
            with contextlib.suppress(qmp.Declined):  # on its way already
                await monitor.do("device_del", id=device)
            if not await monitor.until_gone(device, wait_s):
                reason = "the guest does not let go of the device; unmount it in the guest, or see whether it runs"
                raise TimedOut(host=self._shell.host, reason=reason)
        deadline = asyncio.get_running_loop().time() + wait_s
        while device in await monitor.chardevs():
            try:
                await monitor.do("chardev-remove", id=device)
            except qmp.Declined:
                # The device that has just gone lets go of it a moment later.
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(AGAIN_S / 4)

    async def _end(self, *, force: bool) -> None:
        """No virtiofsd, no mount."""
        state = await self._act("clear")
        if state.is_serving:
            raise TimedOut(host=self._shell.host, reason="virtiofsd does not end")
        await (self._host.force() if force else self._host.unmount())

    @contextlib.asynccontextmanager
    async def _monitor(self) -> AsyncIterator[qmp.Monitor]:
        """Alone with the guest's QEMU. Raises `GuestOff`."""
        reader, writer = await self._connected()
        try:
            monitor = qmp.Monitor(self._shell.host, reader, writer, self._limits.command_s / 2)
            await monitor.greet()
            yield monitor
        except qmp.Declined as declined:
            raise MountRefused(host=self._shell.host, reason=f"QEMU says: {declined}") from declined
        finally:
            writer.close()

    async def _connected(self) -> tuple[Any, Any]:
        """QEMU's queue is short: refused may mean that it is full."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limits.command_s / 2
        while True:
            try:
                return await self._shell.opened(self._guest.qmp_socket)
            except NobodyListens:
                if not (await self._act("listen")).is_heard:
                    raise GuestOff from None
            if loop.time() > deadline:
                reason = f"{self._guest.qmp_socket} takes no connection; may the registered user open it?"
                raise TimedOut(host=self._shell.host, reason=reason)
            await asyncio.sleep(AGAIN_S)

    async def _act(self, action: str) -> _State:
        values = {"action": action, "name": self._name, "directory": DIRECTORY, "qmp_socket": self._guest.qmp_socket}
        lines = await machine.say(self._shell, _script(), values, self._limits)
        said = {key: value for key, _, value in (line.partition(" ") for line in lines)}
        return _State(
            program=said.get("program", ""),
            is_serving="serving" in said,
            is_heard="heard" in said,
            problem=said.get("problem", ""),
            sockets=frozenset(said.get("sockets", "").split()),
        )
