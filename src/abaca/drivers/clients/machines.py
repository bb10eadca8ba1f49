# SPDX-License-Identifier: Apache-2.0
"""Commands on a product's machines, by SSH, for drivers: a blocking door, with one connection to each machine.

What becomes of a command is what `abaca.nodes.shell` makes of it: known host key or nothing, limits on everything, and
each word quoted by its one function. Here connections are kept, and the errors are those of drivers.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import TypeVar

from abaca.domain.attachments.servers import Login
from abaca.drivers import contract
from abaca.nodes import contract as nodes
from abaca.nodes import shell
from abaca.nodes.shell import Answer, Limits, Shell

T = TypeVar("T")

AT_ONCE = 8
"""So many commands run on a machine at a time; an SSH server takes ten."""


class HostKeys:
    """The host keys of machines, from a file such as ~/.ssh/known_hosts."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def of(self, host: str, port: int) -> str:
        """The public keys of a machine, a line each. Raises `contract.Refused` without any."""
        import asyncssh

        try:
            known = asyncssh.import_known_hosts(self.file.read_text())
            keys, *_ = known.match(host, host, port if port != 22 else None)
        except OSError as error:
            raise contract.Refused(reason=f"{self.file} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise contract.Refused(reason=f"{self.file} is no file of host keys: {error}") from error
        if not keys:
            seen = f"ssh-keyscan -p {port} {host} >> {self.file}"
            reason = f"{self.file} has no host key of {host}: `{seen}`, and compare what it says with the machine"
            raise contract.Refused(reason=reason)
        return "\n".join(key.export_public_key().decode().strip() for key in keys)


class Machines:
    """Machines that one user logs in to by one key; `login_of` says how, by the name of the host."""

    def __init__(self, login_of: Callable[[str], Login], limits: Limits) -> None:
        self._login_of = login_of
        self._limits = limits
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lines: dict[str, _Line] = {}
        self._away: set[str] = set()
        self._cancels: set[Callable[[], bool]] = set()

    def run(self, host: str, words: Sequence[str], *, limit_s: float | None = None) -> Answer:
        """The answer of a command on a machine, whatever its exit code says.

        Raises `contract.Unreachable` when it may pass, `contract.Refused` with the mend when it does not.
        """
        try:
            return self._wait(self._run(host, words, limit_s or self._limits.command_s))
        except nodes.NodeError as error:
            failed = contract.Unreachable if error.may_pass else contract.Refused
            raise failed(reason=error.message) from error

    def answering_first(self, hosts: Sequence[str]) -> list[str]:
        """These machines in their order, and at the end those that could not be reached when they were last tried."""
        return sorted(hosts, key=lambda host: host in self._away)

    def silent(self, hosts: Sequence[str], within_s: float) -> dict[str, str]:
        """Those of the machines that carry out no command within so many seconds, each with the reason.

        One that refuses does answer.
        """

        async def problems() -> list[str]:
            return await asyncio.gather(*(self._problem(host, within_s) for host in hosts))

        return {host: problem for host, problem in zip(hosts, self._wait(problems()), strict=True) if problem}

    async def _problem(self, host: str, within_s: float) -> str:
        try:
            async with asyncio.timeout(within_s):
                await self._run(host, ["true"], within_s)
        except TimeoutError:
            self._away.add(host)
            return f"{host} did not answer within {within_s:g} s"
        except nodes.NodeError as error:
            return error.message if error.may_pass else ""
        except contract.Refused:
            return ""
        return ""

    def close(self) -> None:
        """Let go of all connections, and of whoever waits for a command; the next one makes them anew."""
        with self._starting:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
            for cancel in self._cancels:
                cancel()
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(self._close(), loop).result(10.0)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10.0)
            loop.close()

    async def _run(self, host: str, words: Sequence[str], limit_s: float) -> Answer:
        try:
            answer = await self._answer(host, words, limit_s)
        except nodes.MachineUnreachable:
            self._away.add(host)
            raise
        self._away.discard(host)
        return answer

    async def _answer(self, host: str, words: Sequence[str], limit_s: float) -> Answer:
        line = self._lines.setdefault(host, _Line())
        async with line.free:
            had = line.shell
            connected = await line.connect(self._login_of, host, self._limits)
            try:
                return await connected.run(words, limit_s=limit_s)
            except nodes.MachineUnreachable:
                await line.drop(connected)
                if had is not connected:
                    raise
            # The connection was an old one, and broken: whatever is told to machines can be told again.
            connected = await line.connect(self._login_of, host, self._limits)
            return await connected.run(words, limit_s=limit_s)

    async def _close(self) -> None:
        lines, self._lines = self._lines, {}
        for line in lines.values():
            await line.drop(line.shell)

    def _wait(self, work: Coroutine[object, object, T]) -> T:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="machines", daemon=True)
                self._thread.start()
            waited = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._cancels.add(waited.cancel)
        try:
            return waited.result()
        except CancelledError:
            raise contract.Unreachable(reason="this worker has let go of its machines") from None
        finally:
            with self._starting:
                self._cancels.discard(waited.cancel)


class _Line:
    """The connection to one machine."""

    def __init__(self) -> None:
        self.shell: Shell | None = None
        self.free = asyncio.Semaphore(AT_ONCE)
        self._stack = contextlib.AsyncExitStack()
        self._connecting = asyncio.Lock()

    async def connect(self, login_of: Callable[[str], Login], host: str, limits: Limits) -> Shell:
        """The shell there is, or a new one."""
        async with self._connecting:
            if self.shell is None:
                login = await asyncio.to_thread(login_of, host)
                self.shell = await self._stack.enter_async_context(shell.connected(login, limits))
            return self.shell

    async def drop(self, broken: Shell | None) -> None:
        """Connect anew the next time, unless somebody has done so."""
        async with self._connecting:
            if self.shell is broken:
                self.shell = None
                await self._stack.aclose()
                self._stack = contextlib.AsyncExitStack()
