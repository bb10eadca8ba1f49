# SPDX-License-Identifier: Apache-2.0
"""Orders to a running QEMU over its monitor socket, and what they say of devices, memory and root ports.

The monitor takes one client at a time: whoever has got its greeting is alone with the guest until it hangs up, and
whoever comes meanwhile waits for that greeting.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from abaca.nodes import contract

if TYPE_CHECKING:
    import asyncssh

LINE_BYTES = 4 * 1024 * 1024
_DEVICES = "/machine/peripheral"
_NAMELESS = "/machine/peripheral-anon"
_ROOT_PORT = "child<pcie-root-port>"
VIRTIOFS = "child<vhost-user-fs-pci>"


class Declined(Exception):
    """QEMU answers an order with an error; the text is its own."""


class Monitor:
    """A session on the monitor.

    Every call raises `MachineUnreachable` when the session breaks off, `TimedOut` after `limit_s`.
    """

    def __init__(
        self, host: str, reader: asyncssh.SSHReader[bytes], writer: asyncssh.SSHWriter[bytes], limit_s: float
    ) -> None:
        self._host = host
        self._reader = reader
        self._writer = writer
        self._limit_s = limit_s
        self._deleted: set[str] = set()

    async def greet(self) -> None:
        """Wait for our turn. Raises `TimedOut` when it does not come."""
        try:
            async with asyncio.timeout(self._limit_s):
                greeting = await self._read()
        except TimeoutError:
            reason = (
                f"nobody answers on the guest's QMP socket within {self._limit_s:g} s: QEMU hangs, or another program "
                "holds the socket, as libvirt does; then give QEMU a second one for Abaca"
            )
            raise contract.TimedOut(host=self._host, reason=reason) from None
        if "QMP" not in greeting:
            raise contract.MountRefused(host=self._host, reason="what listens on the QMP socket is no QEMU")
        await self.do("qmp_capabilities")

    async def do(self, order: str, **arguments: object) -> Any:
        """What QEMU returns. Raises `Declined`."""
        line = json.dumps({"execute": order, "arguments": arguments} if arguments else {"execute": order})
        try:
            async with asyncio.timeout(self._limit_s):
                self._writer.write(line.encode() + b"\n")
                while True:
                    said = await self._read()
                    if "return" in said:
                        return said["return"]
                    if "error" in said:
                        raise Declined(str(said["error"].get("desc", "an error without words"))[:300])
        except TimeoutError:
            reason = f"QEMU does not answer {order} within {self._limit_s:g} s"
            raise contract.TimedOut(host=self._host, reason=reason) from None
        except OSError as error:
            raise contract.MachineUnreachable(host=self._host, reason=f"the QMP socket breaks off: {error}") from error

    async def devices(self) -> dict[str, str]:
        """The devices with a name, and the type of each."""
        return await self._list(_DEVICES)

    async def tag(self, device: str) -> str:
        """The tag of a virtiofs device."""
        return str(await self.do("qom-get", path=f"{_DEVICES}/{device}", property="tag"))

    async def tags(self) -> dict[str, str]:
        """The tag of each virtiofs device, those without a name included."""
        found = {}
        for place in (_DEVICES, _NAMELESS):
            for name, kind in (await self._list(place)).items():
                if kind == VIRTIOFS:
                    found[name] = str(await self.do("qom-get", path=f"{place}/{name}", property="tag"))
        return found

    async def chardevs(self) -> set[str]:
        """The names of the character devices."""
        return {str(one["label"]) for one in await self.do("query-chardev")}

    async def is_memory_shared(self) -> bool:
        """Whether another process can be given the guest's memory, which virtiofsd needs."""
        found = [one.get("share", False) for one in await self.do("query-memdev")]
        return bool(found) and all(found)

    async def free_ports(self) -> list[str]:
        """The names of the PCIe root ports into which nothing is plugged."""
        free = []
        for port, kind in (await self.devices()).items():
            if kind == _ROOT_PORT:
                parts = await self._list(f"{_DEVICES}/{port}")
                buses = [name for name, of in parts.items() if of == "child<PCIE>"]
                plugged = [name for bus in buses for name in await self._list(f"{_DEVICES}/{port}/{bus}")]
                if not any(name.startswith("child[") for name in plugged):
                    free.append(port)
        return free

    async def until_gone(self, device: str, wait_s: float) -> bool:
        """Whether the guest lets go of a device that it was told to give back, in time."""
        deadline = asyncio.get_running_loop().time() + wait_s
        while device not in self._deleted and device in await self.devices():
            if asyncio.get_running_loop().time() > deadline:
                return False
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._read()
        return True

    async def _list(self, path: str) -> dict[str, str]:
        return {str(one["name"]): str(one["type"]) for one in await self.do("qom-list", path=path)}

    async def _read(self) -> Mapping[str, Any]:
        """The next thing that is said; a device that went is remembered."""
        import asyncssh

        try:
            line = await self._reader.readline()
            if not line.endswith(b"\n") or len(line) > LINE_BYTES:
                raise contract.MachineUnreachable(
                    host=self._host, reason="the QMP socket breaks off: the guest has ended"
                )
            said = json.loads(line)
        except (OSError, EOFError, asyncssh.Error) as error:
            raise contract.MachineUnreachable(host=self._host, reason=f"the QMP socket breaks off: {error}") from error
        except ValueError:
            raise contract.MountRefused(host=self._host, reason="what listens on the QMP socket is no QEMU") from None
        if not isinstance(said, dict):
            raise contract.MountRefused(host=self._host, reason="what listens on the QMP socket is no QEMU")
        if said.get("event") == "DEVICE_DELETED":
            self._deleted.add(str(said.get("data", {}).get("device", "")))
        return said
