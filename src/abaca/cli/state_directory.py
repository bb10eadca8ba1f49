# SPDX-License-Identifier: Apache-2.0
"""The state directory: made, proven writable, and kept from being used by two at once.

On one host a lock on a file decides: the kernel lets go of it however its holder dies. SQLite's write-ahead log needs
the memory of one kernel, so a directory that is shared between hosts is guarded too: a file says which boot of which
machine uses it, rewritten every few seconds. Whoever finds another machine's file watches whether it still changes.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import socket
import threading
import time
from pathlib import Path

import msgspec

from abaca import errors

log = logging.getLogger(__name__)

BEAT_S = 2.0
WATCH_S = 7.0
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SOCKET_PATH_BYTES = 107


class User(msgspec.Struct, frozen=True):
    """Whose SQLite file it is: a boot of a machine, for people its name; `beat` changes as long as it is in use."""

    boot_id: str
    host: str
    beat: int


class StateDirectory:
    """A state directory that is in use until `release`, or until the process ends in any way."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._locks: list[int] = []
        self._released = threading.Event()
        self._beats: Path | None = None

    def prepare(self) -> None:
        """Make it if need be. Raises `ConfigError` when it cannot be written."""
        mend = "Choose another with --state-path or state_path, or give this one to the user that runs Abaca"
        try:
            self.path.mkdir(mode=0o750, parents=True, exist_ok=True)
            probe = self.path / f".probe-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise errors.ConfigError(
                problem=f"The state directory {self.path} cannot be written: {error.strerror}", mend=mend
            ) from None
        if len(os.fsencode(self.path)) + 46 > _SOCKET_PATH_BYTES:
            raise errors.ConfigError(
                problem=f"The state directory's path {self.path} is too long for the sockets in it",
                mend="Choose one of at most 60 bytes",
            )

    def lock(self, name: str, mend: str) -> None:
        """Hold `name` alone on this host. Raises `ConfigError` when another process holds it."""
        path = self.path / f"{name}.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            by = f" (process {holder})" if holder else ""
            raise errors.ConfigError(problem=f"{self.path} is in use{by}", mend=mend) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        self._locks.append(descriptor)

    def claim_sqlite(self, *, watch_s: float = WATCH_S) -> None:
        """Make the SQLite file this machine's for as long as this process lives. Raises `ConfigError`."""
        me = BOOT_ID.read_text().strip()
        path = self.path / "sqlite.user"
        found = _read(path)
        if found is not None and found.boot_id != me and _changes(path, found, watch_s):
            raise errors.ConfigError(
                problem=f"The SQLite database in {self.path} is in use on the host {found.host}",
                mend="Stop Abaca there, or use PostgreSQL for several hosts ([database] connection)",
            )
        self._beats = path
        _write(path, User(me, socket.gethostname(), time.time_ns()))
        threading.Thread(target=self._beat, args=(path, me), name="state directory", daemon=True).start()

    def release(self) -> None:
        """Let others use it."""
        self._released.set()
        for descriptor in self._locks:
            os.close(descriptor)
        self._locks.clear()
        if self._beats is not None:
            self._beats.unlink(missing_ok=True)

    def _beat(self, path: Path, me: str) -> None:
        while not self._released.wait(BEAT_S):
            found = _read(path)
            if found is not None and found.boot_id != me:
                log.critical("the host %s uses the SQLite database in %s too: stopping here", found.host, self.path)
                self._beats = None
                os.kill(os.getpid(), signal.SIGTERM)
                return
            _write(path, User(me, socket.gethostname(), time.time_ns()))


def _read(path: Path) -> User | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=User)
    except (OSError, msgspec.MsgspecError):
        return None


def _write(path: Path, user: User) -> None:
    """Whole or not at all: another machine reads it."""
    scratch = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        scratch.write_bytes(msgspec.json.encode(user))
        scratch.replace(path)
    except OSError:
        # a full or vanished directory shows itself where it matters: in the database
        return


def _changes(path: Path, found: User, watch_s: float) -> bool:
    deadline = time.monotonic() + watch_s
    while time.monotonic() < deadline:
        time.sleep(min(0.2, watch_s))
        if (now := _read(path)) is not None and now != found:
            return True
    return False
