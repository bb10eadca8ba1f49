# SPDX-License-Identifier: Apache-2.0
"""A shell on a machine, by SSH: known host key or nothing, limits of time and size on everything, our key never kept.

Every command runs under `timeout` on the machine, and under a slightly longer limit here: a command that hangs
there, on a dead NFS server say, costs neither side more than that. The library comes with the first connection: most
workers never make one, and it takes 20 MiB.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from abaca.domain.attachments.servers import Login
from abaca.nodes import contract

if TYPE_CHECKING:
    import asyncssh

OUTPUT_BYTES = 256 * 1024
"""What is read of a command's output; a machine that says more is not believed."""
GRACE_S = 5.0
"""How much longer than the machine this side waits for a command."""
KILLED = 128 + 9
# Programs are the system's: neither the user who logs in nor sudo says where they are, since the places where machines
# look first, such as /usr/local/sbin, may hold anybody's.
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_FIXED = ("/bin/sh", "-c", f'PATH={PATH}; export PATH; exec "$@"', "sh")
_PART_BYTES = 16384
_HOST_KEY_KINDS = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "rsa-sha2-512", "rsa-sha2-256")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that things may take: reaching and logging in, a command, a package's installation.

    `lock_s`: how long an installation waits for another one there.
    """

    connect_s: float = 15.0
    command_s: float = 60.0
    install_s: float = 600.0
    lock_s: float = 120.0


class NobodyListens(Exception):
    """Nobody takes connections on that socket of the machine, or not from this user."""


class Answer(msgspec.Struct, frozen=True):
    """What a command left: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


def quoted(words: Sequence[str]) -> str:
    """The words as one line of shell; the only way by which a value gets into a command."""
    if any("\0" in word for word in words):
        raise ValueError("a word of a command holds a NUL")
    return shlex.join(words)


class Shell:
    """A logged-in connection. Commands run as root, through `sudo -n` where the user is another."""

    def __init__(self, login: Login, connection: asyncssh.SSHClientConnection) -> None:
        self.host = login.host
        self._sudo = [] if login.user == "root" else ["sudo", "-n", "--", *_FIXED]
        self._user = login.user
        self.connection = connection

    def check(self, answer: Answer) -> None:
        """Raises `NotAllowed` for an answer that is sudo's refusal."""
        if self._sudo and answer.code and "sudo:" in answer.err:
            reason = f"{self._user} may not use sudo without a password: {answer.err.strip()[-200:]}"
            raise contract.NotAllowed(host=self.host, reason=reason)

    async def run(self, words: Sequence[str], *, limit_s: float, kill_after_s: float = 0) -> Answer:
        """Run a command without input; its answer, after `limit_s` at most. `kill_after_s` gives it time to tidy up.

        Raises `TimedOut`, `MachineUnreachable` when the connection breaks, `NotAllowed` when sudo refuses.
        """
        return await (await self.start(words, limit_s=limit_s, kill_after_s=kill_after_s)).end()

    async def start(self, words: Sequence[str], *, limit_s: float, kill_after_s: float = 0) -> Command:
        """Start a command, which ends within those seconds. Raises as `run` does."""
        signal = ["-s", "TERM", "-k", f"{kill_after_s:g}"] if kill_after_s else ["-s", "KILL"]
        line = quoted([*_FIXED, *self._sudo, "timeout", *signal, f"{limit_s:g}", *words])
        command = Command(self, limit_s, limit_s + kill_after_s + GRACE_S)
        await command.begin(line)
        return command

    async def opened(self, path: str) -> tuple[asyncssh.SSHReader[bytes], asyncssh.SSHWriter[bytes]]:
        """Reader and writer of bytes on a Unix socket of the machine, as the user who logged in; the caller closes it.

        Raises `NobodyListens`, `NotAllowed` when its SSH server forwards no sockets, `MachineUnreachable`.
        """
        import asyncssh

        try:
            reader, writer = await self.connection.open_unix_connection(path)
        except asyncssh.ChannelOpenError as error:
            if error.code in (asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, asyncssh.OPEN_UNKNOWN_CHANNEL_TYPE):
                reason = (
                    "its SSH server forwards no Unix sockets: it must be OpenSSH with AllowStreamLocalForwarding yes"
                )
                raise contract.NotAllowed(host=self.host, reason=reason) from error
            raise NobodyListens(path) from error
        except (asyncssh.Error, OSError) as error:
            raise contract.MachineUnreachable(host=self.host, reason=_text(error)) from error
        return reader, writer


class Command:
    """What runs on a machine. Each call raises what `Shell.run` does, and all together take `limit_s` at most."""

    def __init__(self, shell: Shell, limit_s: float, patience_s: float) -> None:
        self._shell = shell
        self._limit_s = limit_s
        self._begun_s = asyncio.get_running_loop().time()
        self._deadline_s = self._begun_s + patience_s
        self._process: asyncssh.SSHClientProcess[bytes]

    async def begin(self, line: str) -> None:
        async with self._in_time():
            self._process = await self._shell.connection.create_process(line, encoding=None, window=OUTPUT_BYTES)

    def age_s(self) -> float:
        """For how many seconds the command has run."""
        return asyncio.get_running_loop().time() - self._begun_s

    def send(self, text: str) -> None:
        """Give the command some input."""
        with contextlib.suppress(BrokenPipeError, ConnectionError):  # it ended without reading; its exit says why
            self._process.stdin.write(text.encode())

    async def said_until(self, line: str) -> str:
        """The output since the last call, up to that line; all of it where the command ends without the line."""
        said, mark = b"", f"{line}\n".encode()
        async with self._in_time():
            while not said.endswith(mark) and (part := await self._process.stdout.read(_PART_BYTES)):
                said = self._bounded(said + part)
        return said.decode(errors="replace")

    async def end(self) -> Answer:
        """Wait for the end of the command; its answer without the output that was read before."""
        async with self._in_time():
            with contextlib.suppress(BrokenPipeError, ConnectionError):
                self._process.stdin.write_eof()
            out, err = await asyncio.gather(self._rest(self._process.stdout), self._rest(self._process.stderr))
            await self._process.wait_closed()
        answer = Answer(_code(self._process.returncode), out, err)
        self._shell.check(answer)
        return answer

    async def _rest(self, stream: asyncssh.SSHReader[bytes]) -> str:
        read = b""
        while part := await stream.read(_PART_BYTES):
            read = self._bounded(read + part)
        return read.decode(errors="replace")

    def _bounded(self, read: bytes) -> bytes:
        if len(read) > OUTPUT_BYTES:
            self._shell.connection.abort()
            raise contract.NodeError(host=self._shell.host, reason="it says too much")
        return read

    @contextlib.asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        import asyncssh

        try:
            async with asyncio.timeout_at(self._deadline_s):
                yield
        except TimeoutError:
            self._shell.connection.abort()
            reason = f"a command did not end within {self._limit_s:g} s"
            raise contract.TimedOut(host=self._shell.host, reason=reason) from None
        except (asyncssh.Error, OSError) as error:
            raise contract.MachineUnreachable(host=self._shell.host, reason=_text(error)) from error


@contextlib.asynccontextmanager
async def connected(login: Login, limits: Limits) -> AsyncIterator[Shell]:
    """A shell on the machine, which is closed at the end of the block.

    Raises `MachineUnreachable`, `HostKeyMismatch`, `NotAllowed`, `TimedOut`.
    """
    connection = await _connect(login, limits)
    try:
        yield Shell(login, connection)
    finally:
        connection.close()
        with contextlib.suppress(Exception):
            async with asyncio.timeout(GRACE_S):
                await connection.wait_closed()
        connection.abort()


async def _connect(login: Login, limits: Limits) -> asyncssh.SSHClientConnection:
    import asyncssh

    known = _host_keys(login)
    # The kinds that we know first; the others too, so that a machine with another kind shows that it is another one.
    kinds = [kind.decode() for one in known for kind in one.sig_algorithms]
    key = await asyncio.to_thread(read_key, login)
    try:
        async with asyncio.timeout(limits.connect_s):
            return await asyncssh.connect(
                login.host,
                login.port,
                username=login.user,
                client_keys=[key],
                known_hosts=(known, [], []),
                server_host_key_algs=list(dict.fromkeys([*kinds, *_HOST_KEY_KINDS])),
                # The same strength as the others, and of them the cheapest for this side: one call a packet.
                encryption_algs="^aes256-gcm@openssh.com",
                # Nothing of whoever runs the worker: no ~/.ssh/config, no agent, no other way to log in.
                config=None,
                agent_path=None,
                preferred_auth="publickey",
                x509_trusted_certs=None,
                # A connection that is silent for as long as it may take to make one is broken.
                keepalive_interval=limits.connect_s / 4,
                keepalive_count_max=3,
            )
    except TimeoutError:
        reason = f"no login within {limits.connect_s:g} s"
        raise contract.MachineUnreachable(host=login.host, reason=reason) from None
    except asyncssh.HostKeyNotVerifiable as error:
        reason = "it shows another host key; if the machine was made anew, register its new key"
        raise contract.HostKeyMismatch(host=login.host, reason=reason) from error
    except asyncssh.PermissionDenied as error:
        reason = f"the key {login.key} is not accepted for the user {login.user}"
        raise contract.NotAllowed(host=login.host, reason=reason) from error
    except (asyncssh.Error, OSError) as error:
        raise contract.MachineUnreachable(host=login.host, reason=_text(error)) from error


def _host_keys(login: Login) -> list[asyncssh.SSHKey]:
    import asyncssh

    try:
        return [asyncssh.import_public_key(line) for line in login.host_key.splitlines() if line.strip()]
    except (asyncssh.KeyImportError, ValueError) as error:
        reason = "the host key that was registered cannot be read; `ssh-keyscan` shows what it looks like"
        raise contract.HostKeyMismatch(host=login.host, reason=reason) from error


def read_key(login: Login) -> asyncssh.SSHKey:
    """Our key for the machine. Only its reference is ever told; the content stays in what is returned.

    Raises `NotAllowed`.
    """
    import asyncssh

    scheme, colon, place = login.key.partition(":")
    if not colon or scheme != "file" or not place.startswith("/"):
        reason = f"the key {login.key!r} is no reference such as file:/etc/abaca/keys/id_ed25519"
        raise contract.NotAllowed(host=login.host, reason=reason)
    try:
        return asyncssh.import_private_key(Path(place).read_bytes())
    except OSError as error:
        reason = f"the worker cannot read the key {login.key}: {error.strerror}"
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError, ValueError):
        reason = f"the key {login.key} cannot be used: a private key in OpenSSH's form, without a passphrase, is needed"
    raise contract.NotAllowed(host=login.host, reason=reason)


def _code(status: int | None) -> int:
    """As a shell says it: OpenSSH says of what a signal has ended, as `timeout` is that kills, which signal it was."""
    if status is None:
        return KILLED
    return status if status >= 0 else 128 - status


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and (error.errno or 0) > 0:
        return os.strerror(error.errno or 0)  # asyncio's own words name the address, and not what is wrong with it
    said = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(said).split())[:300]
