# SPDX-License-Identifier: Apache-2.0
"""The state directory: made, proven writable, and kept from being used by two at once.

On one host a lock on a file decides: the kernel lets go of it however its holder dies. SQLite's write-ahead log needs
the memory of one kernel, so a directory that is shared between hosts is guarded too: a file says which boot of which
machine uses it, rewritten every few seconds. Whoever finds another machine's file watches whether it still changes.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import signal
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from abaca import errors

log = logging.getLogger(__name__)

BEAT_S = 2.0
WATCH_S = 7.0
ROOM_BYTES = 4 << 20
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
SQLITE_USER = "sqlite.user"


class User(NamedTuple):
    """Whose SQLite file it is: a boot of a machine, for people its name; `beat` changes as long as it is in use."""

    boot_id: str
    host: str
    beat: int


class StateDirectory:
    """A state directory that is in use until `release`, or until the process ends in any way."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # descriptors that hold the locks
        self.locks: list[int] = []
        self._released = threading.Event()
        self._beats: Path | None = None

    def prepare(self) -> None:
        """Make the directory if it is missing. Raises `ConfigError` when it cannot be written, or has no room."""
        try:
            self.path.mkdir(mode=0o750, parents=True, exist_ok=True)
            _try_to_write(self.path)
        except OSError as error:
            raise self._refusal(error) from None

    def check(self) -> None:
        """Raises `ConfigError` when `prepare` would; nothing is made."""
        there = next(place for place in (self.path, *self.path.parents) if place.exists())
        try:
            if not there.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            _try_to_write(there)
        except OSError as error:
            raise self._refusal(error) from None

    def is_running(self) -> bool:
        """Whether an `abaca run` of this host uses it."""
        try:
            descriptor = os.open(self.path / "run.lock", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            return False
        finally:
            os.close(descriptor)

    def _refusal(self, error: OSError) -> errors.ConfigError:
        mend = "Choose another with --state-path or state_path, or give this one to the user that runs Abaca"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            mend = f"Make room: a start needs {ROOM_BYTES >> 20} MiB there, and shares more"
        return errors.ConfigError(
            problem=f"The state directory {self.path} cannot be written: {error.strerror}", mend=mend
        )

    def lock(self, name: str, mend: str) -> None:
        """Hold `name` alone on this host. Raises `ConfigError` when another process holds it."""
        path = self.path / f"{name}.lock"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
        except OSError as error:
            raise self._refusal(error) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            by = f" (process {holder})" if holder else ""
            raise errors.ConfigError(problem=f"{self.path} is in use{by}", mend=mend) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        self.locks.append(descriptor)

    def make_sqlite(self, file: Path) -> None:
        """Make an empty SQLite file that the group may write; root leaves it to the owner of the directory.

        So an API and a worker that are different users share it: SQLite gives its other files the same owner and mode.
        """
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o660)
        except OSError:  # it is there, or whoever opens it says why not
            return
        with os.fdopen(descriptor):
            if os.geteuid() == 0:
                owner = file.parent.stat()
                os.fchown(descriptor, owner.st_uid, owner.st_gid)

    def claim_sqlite(self, *, watch_s: float = WATCH_S) -> None:
        """Make the SQLite file this machine's; `keep_sqlite` keeps it so. Raises `ConfigError`."""
        me = _me()
        path = self.path / SQLITE_USER
        found = _read(path)
        if found is not None and found.boot_id != me.boot_id and _changes(path, found, watch_s):
            raise errors.ConfigError(
                problem=f"The SQLite database in {self.path} is in use on the host {found.host}",
                mend="Stop Abaca there, or use PostgreSQL for several hosts ([database] connection)",
            )
        _write(path, me)

    def keep_sqlite(self) -> None:
        """Show other machines that the SQLite file is in use, until `release`."""
        self._beats = self.path / SQLITE_USER
        threading.Thread(target=self._beat, args=(self._beats,), name="state directory", daemon=True).start()

    def release(self) -> None:
        """Let other processes use the directory."""
        self._released.set()
        for descriptor in self.locks:
            os.close(descriptor)
        self.locks.clear()
        if self._beats is not None:
            self._beats.unlink(missing_ok=True)

    def _beat(self, path: Path) -> None:
        while not self._released.wait(BEAT_S):
            found, me = _read(path), _me()
            if found is not None and found.boot_id != me.boot_id:
                log.critical("the host %s uses the SQLite database in %s too: stopping here", found.host, self.path)
                self._beats = None
                os.kill(os.getpid(), signal.SIGTERM)
                return
            _write(path, me)


def _try_to_write(directory: Path) -> None:
    """Raises `OSError` when there can be no file as large as those of a first start."""
    descriptor, name = tempfile.mkstemp(prefix=".probe-", dir=directory)
    try:
        os.posix_fallocate(descriptor, 0, ROOM_BYTES)
    finally:
        os.close(descriptor)
        Path(name).unlink()


def _me() -> User:
    return User(BOOT_ID.read_text().strip(), socket.gethostname(), time.time_ns())


def _read(path: Path) -> User | None:
    try:
        return User(*json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _write(path: Path, user: User) -> None:
    """Whole or not at all: another machine reads it."""
    scratch = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        scratch.unlink(missing_ok=True)
        with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o660), "w") as opened:
            opened.write(json.dumps(user))
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
