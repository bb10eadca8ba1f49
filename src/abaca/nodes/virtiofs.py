# SPDX-License-Identifier: Apache-2.0
"""The hypervisor's way: the share is mounted on the host of a guest, and the guest is handed a virtiofs device.

Each attachment has its own mount, its own virtiofsd and its own device, so none of them counts the others; the kernel
shares what can be shared. Orders go to QEMU itself. A hypervisor whose guests libvirt holds would be a class beside
`Hypervisor` that keeps the same four promises (`Way`), and is chosen in mounts.py where this one is.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Sequence
from typing import Protocol

import msgspec

from abaca.nodes import contract, qmp
from abaca.nodes.contract import (
    Guest,
    Holder,
    InUse,
    MachineUnreachable,
    Mount,
    MountRefused,
    Seen,
    TimedOut,
    Unsupported,
)
from abaca.nodes.guests import DIRECTORY, GuestOff, Hand, Orders
from abaca.nodes.shell import Limits

TAG_BYTES = 36
"""The size of a tag in a virtiofs device."""
UNPLUG_S = 20.0
"""How long a guest may take to let go of a device, at most, and no more than half of what a command may."""
LEFT_S = 2.0
"""How long it may take for one that was given up by force."""
AGAIN_S = 0.2
PREFIX = "abaca-"
"""Before an attachment's id it is the name of its device; QEMU's names begin with a letter."""
HOLDS_ON = "the guest does not let go of the device; unmount it in the guest, or see whether it runs"
HANGS = "virtiofsd ended while the guest used the share, for which the guest now waits for ever; switch it off and on"
NO_PORT = "no free pcie-root-port: give QEMU one for each share at its start, or detach another share"

_TAG = re.compile(r"[A-Za-z0-9_.-]{1,36}")
_SOCKET = re.compile(r"/[A-Za-z0-9_+@.:/-]{1,106}")


class Way(Protocol):
    """How one share gets to one machine, for as long as the connection is open."""

    async def mount(self, *, force: bool = False) -> Seen: ...
    async def request(self) -> str: ...
    async def look(self) -> Seen | None: ...
    async def unmount(self) -> None: ...
    async def force(self) -> None: ...
    async def clear(self) -> None: ...


def problem(guest: Guest) -> str | None:
    """What is wrong with the tag or the socket of a guest; None when nothing is."""
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

    def __init__(self, hand: Hand, mount: Mount, host: Way, old: Way | None, limits: Limits) -> None:
        if mount.guest is None:
            raise ValueError(f"{mount.name} is for no guest")
        self._hand = hand
        self._name = mount.name
        self._guest = mount.guest
        self._host = host
        self._old = old
        self._unplug_s = min(UNPLUG_S, limits.command_s / 2)
        self._device = PREFIX + mount.name

    async def request(self) -> str:
        """The signing request of the hypervisor's key, since it is the one that mounts."""
        return await self._host.request()

    async def look(self) -> Seen | None:
        """The mount, if device, virtiofsd and mount are all there; a guest that is off has none of them."""
        seen = await self._host.look()
        if seen is None or not (await self._hand.act("look")).is_serving:
            return None
        try:
            async with self._hand.orders() as monitor:
                return seen if await self._is_plugged(monitor) else None
        except GuestOff:
            return None

    async def mount(self, *, force: bool = False) -> Seen:
        """Mount the share, serve it and plug the device; whatever fails leaves nothing.

        Raises `InUse` while the guest has the old device. With `force` that is unplugged, whether it is used or not.
        """
        state = await self._hand.act("look")
        if not state.program:
            raise Unsupported(host=self._hand.host, reason="it has no virtiofsd; install it there by hand")
        try:
            async with self._hand.orders() as monitor:
                seen = await self._host.look()
                if state.is_serving and await self._is_plugged(monitor):
                    if seen is not None:
                        return seen
                    if not force and self._old is not None and await self._old.look() is not None:
                        # Nobody here sees whether the guest has it mounted.
                        has = Holder(0, f"the guest, which has it as {self._guest.tag}")
                        raise InUse(host=self._hand.host, holders=(has,))
                await self._unplug(monitor, self._device, self._unplug_s)
                await self._sweep(monitor)
                ports = await self._checked(monitor)
                try:
                    return await self._plug(monitor, ports, force=force)
                except BaseException:
                    with contextlib.suppress(contract.NodeError, qmp.Declined):
                        await self._unplug(monitor, self._device, self._unplug_s)
                    with contextlib.suppress(contract.NodeError):
                        await self._end(force=False)
                    raise
        except GuestOff:
            await self._end(force=False)
            reason = f"the guest is off: nobody listens on {self._guest.qmp_socket}"
            raise MachineUnreachable(host=self._hand.host, reason=reason) from None

    async def unmount(self) -> None:
        """Unplug the device before the share is unmounted. Raises `TimedOut` when the guest does not let go."""
        with contextlib.suppress(GuestOff):
            async with self._hand.orders() as monitor:
                await self._unplug(monitor, self._device, self._unplug_s)
        await self._end(force=False)

    async def force(self) -> None:
        """Whether the guest lets go or not: what it then still shows is dead, and goes when the next is plugged."""
        with contextlib.suppress(GuestOff, contract.NodeError):
            async with self._hand.orders() as monitor:
                await self._unplug(monitor, self._device, self._unplug_s)
        await self._end(force=True)

    async def clear(self) -> None:
        """By force: device, virtiofsd and mount bear the attachment's name."""
        await self.force()

    async def _plug(self, monitor: Orders, ports: Sequence[str], *, force: bool) -> Seen:
        seen = await self._host.mount(force=force)
        state = await self._hand.act("serve")
        if not state.is_serving:
            raise MountRefused(host=self._hand.host, reason=f"virtiofsd does not start: {state.problem}")
        address = {"type": "unix", "data": {"path": f"{DIRECTORY}/{self._name}.sock"}}
        backend = {"type": "socket", "data": {"addr": address, "server": False}}
        said = ""
        try:
            await monitor.do("chardev-add", id=self._device, backend=backend)
            for port in ports:
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
        raise MountRefused(host=self._hand.host, reason=f"the guest does not take it: {said}")

    async def _checked(self, monitor: Orders) -> Sequence[str]:
        """The free ports. Raises `Unsupported` and `MountRefused` for what a guest lacks, before anything is done."""
        if not await monitor.is_memory_shared():
            reason = (
                "the guest's memory is not shared: start QEMU with -object memory-backend-memfd,id=mem,size=...,"
                "share=on and -numa node,memdev=mem"
            )
            raise Unsupported(host=self._hand.host, reason=reason)
        ports = await monitor.free_ports()
        if not ports:
            raise MountRefused(host=self._hand.host, reason=f"the guest has {NO_PORT}")
        for device, tag in (await monitor.tags()).items():
            if tag == self._guest.tag:
                reason = f"the guest has a device {device} with the tag {tag} already"
                raise MountRefused(host=self._hand.host, reason=reason)
        return ports

    async def _is_plugged(self, monitor: Orders) -> bool:
        try:
            return self._device in await monitor.devices() and await monitor.tag(self._device) == self._guest.tag
        except qmp.Declined:
            return False  # it has just gone

    async def _sweep(self, monitor: Orders) -> None:
        """What was given up by force while the guest did not let go of it: a device of ours that nobody can serve."""
        known = {*await monitor.devices(), *await monitor.chardevs()} - {self._device}
        others = sorted(one for one in known if one.startswith(PREFIX))
        # We are alone with the guest, and whoever plugs makes their socket while they are.
        served = (await self._hand.act("look")).sockets if others else frozenset()
        for device in others:
            if device.removeprefix(PREFIX) not in served:
                with contextlib.suppress(TimedOut, qmp.Declined):
                    await self._unplug(monitor, device, LEFT_S)

    async def _unplug(self, monitor: Orders, device: str, wait_s: float) -> None:
        """Device and character device away, where they are."""
        if device in await monitor.devices():
            with contextlib.suppress(qmp.Declined):  # on its way already
                await monitor.do("device_del", id=device)
            if not await monitor.until_gone(device, wait_s):
                is_served = (await self._hand.act("look")).is_serving
                raise TimedOut(host=self._hand.host, reason=HOLDS_ON if is_served else HANGS)
        deadline = time.monotonic() + wait_s
        while device in await monitor.chardevs():
            try:
                await monitor.do("chardev-remove", id=device)
            except qmp.Declined:
                # The device that has just gone lets go of it a moment later.
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(AGAIN_S / 4)

    async def _end(self, *, force: bool) -> None:
        """No virtiofsd, no mount."""
        state = await self._hand.act("clear")
        if state.is_serving:
            raise TimedOut(host=self._hand.host, reason="virtiofsd does not end")
        await (self._host.force() if force else self._host.unmount())
