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
from typing import Any

import msgspec

from abaca.nodes import contract

OUTPUT_BYTES = 256 * 1024
"""What is read of a command's output; a machine that says more is not believed."""
GRACE_S = 5.0
"""How much longer than the machine this side waits for a command."""
KILLED = 128 + 9
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

    def __init__(self, entry: contract.Entry, connection: Any) -> None:
        self.host = entry.host
        self._sudo = [] if entry.user == "root" else ["sudo", "-n", "--"]
        self._user = entry.user
        self._connection = connection

    async def run(self, words: Sequence[str], *, given: str = "", limit_s: float, kill_after_s: float = 0) -> Answer:
        """The answer of a command, with `given` as its input, after `limit_s` at most; `kill_after_s` lets it tidy up.

        Raises `TimedOut`, `Unreachable` when the connection breaks, `NotAllowed` when sudo refuses.
        """
        import asyncssh

        signal = ["-s", "TERM", "-k", f"{kill_after_s:g}"] if kill_after_s else ["-s", "KILL"]
        line = quoted([*self._sudo, "timeout", *signal, f"{limit_s:g}", *words])
        try:
            async with asyncio.timeout(limit_s + kill_after_s + GRACE_S):
                answer = await self._exchange(line, given)
        except TimeoutError:
            self._connection.abort()
            reason = f"a command did not end within {limit_s:g} s"
            raise contract.TimedOut(host=self.host, reason=reason) from None
        except (asyncssh.Error, OSError) as error:
            raise contract.Unreachable(host=self.host, reason=_text(error)) from error
        if self._sudo and answer.code and "sudo:" in answer.err:
            reason = f"{self._user} may not use sudo without a password: {answer.err.strip()[-200:]}"
            raise contract.NotAllowed(host=self.host, reason=reason)
        return answer

    async def opened(self, path: str) -> tuple[Any, Any]:
        """Reader and writer of bytes on a Unix socket of the machine, as the user who logged in; the caller closes it.

        Raises `NobodyListens`, `NotAllowed` when its SSH server forwards no sockets, `Unreachable`.
        """
        import asyncssh

        try:
            reader, writer = await self._connection.open_unix_connection(path)
        except asyncssh.ChannelOpenError as error:
            if error.code in (asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, asyncssh.OPEN_UNKNOWN_CHANNEL_TYPE):
                reason = (
                    "its SSH server forwards no Unix sockets: it must be OpenSSH with AllowStreamLocalForwarding yes"
                )
                raise contract.NotAllowed(host=self.host, reason=reason) from error
            raise NobodyListens(path) from error
        except (asyncssh.Error, OSError) as error:
            raise contract.Unreachable(host=self.host, reason=_text(error)) from error
        return reader, writer

    async def _exchange(self, line: str, given: str) -> Answer:
        process = await self._connection.create_process(line, encoding=None)
        try:
            process.stdin.write(given.encode())
            process.stdin.write_eof()
        except (BrokenPipeError, ConnectionError):
            pass  # it ended without reading; its exit says why
        out, err = await asyncio.gather(self._bounded(process.stdout), self._bounded(process.stderr))
        await process.wait_closed()
        code = process.exit_status if process.exit_status is not None else KILLED
        return Answer(code, out.decode(errors="replace"), err.decode(errors="replace"))

    async def _bounded(self, stream: Any) -> bytes:
        parts, size = [], 0
        while part := await stream.read(16384):
            size += len(part)
            if size > OUTPUT_BYTES:
                self._connection.abort()
                raise contract.NodeError(host=self.host, reason="it says too much")
            parts.append(part)
        return b"".join(parts)


@contextlib.asynccontextmanager
async def connected(entry: contract.Entry, limits: Limits) -> AsyncIterator[Shell]:
    """A shell on the machine, closed at the end.

    Raises `Unreachable`, `HostKeyMismatch`, `NotAllowed`, `TimedOut`.
    """
    connection = await _connect(entry, limits)
    try:
        yield Shell(entry, connection)
    finally:
        connection.close()
        with contextlib.suppress(Exception):
            async with asyncio.timeout(GRACE_S):
                await connection.wait_closed()
        connection.abort()


async def _connect(entry: contract.Entry, limits: Limits) -> Any:
    import asyncssh

    known = _host_keys(entry)
    # The kinds that we know first; the others too, so that a machine with another kind shows that it is another one.
    kinds = [kind.decode() for one in known for kind in one.sig_algorithms]
    key = await asyncio.to_thread(_private_key, entry)
    try:
        async with asyncio.timeout(limits.connect_s):
            return await asyncssh.connect(
                entry.host,
                entry.port,
                username=entry.user,
                client_keys=[key],
                known_hosts=(known, [], []),
                server_host_key_algs=list(dict.fromkeys([*kinds, *_HOST_KEY_KINDS])),
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
        raise contract.Unreachable(host=entry.host, reason=reason) from None
    except asyncssh.HostKeyNotVerifiable as error:
        reason = "it shows another host key; if the machine was made anew, register its new key"
        raise contract.HostKeyMismatch(host=entry.host, reason=reason) from error
    except asyncssh.PermissionDenied as error:
        reason = f"the key {entry.key} is not accepted for the user {entry.user}"
        raise contract.NotAllowed(host=entry.host, reason=reason) from error
    except (asyncssh.Error, OSError) as error:
        raise contract.Unreachable(host=entry.host, reason=_text(error)) from error


def _host_keys(entry: contract.Entry) -> list[Any]:
    import asyncssh

    try:
        return [asyncssh.import_public_key(line) for line in entry.host_key.splitlines() if line.strip()]
    except (asyncssh.KeyImportError, ValueError) as error:
        reason = "the host key that was registered cannot be read; `ssh-keyscan` shows what it looks like"
        raise contract.HostKeyMismatch(host=entry.host, reason=reason) from error


def _private_key(entry: contract.Entry) -> Any:
    """Our key for the machine. Only its reference is ever told; the content stays in what is returned."""
    import asyncssh

    scheme, colon, place = entry.key.partition(":")
    if not colon or scheme != "file" or not place.startswith("/"):
        reason = f"the key {entry.key!r} is no reference such as file:/etc/abaca/keys/id_ed25519"
        raise contract.NotAllowed(host=entry.host, reason=reason)
    try:
        return asyncssh.import_private_key(Path(place).read_bytes())
    except OSError as error:
        reason = f"the worker cannot read the key {entry.key}: {error.strerror}"
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError, ValueError):
        reason = f"the key {entry.key} cannot be used: a private key in OpenSSH's form, without a passphrase, is needed"
    raise contract.NotAllowed(host=entry.host, reason=reason)


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and (error.errno or 0) > 0:
        return os.strerror(error.errno or 0)  # asyncio's own words name the address, and not what is wrong with it
    said = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(said).split())[:300]
