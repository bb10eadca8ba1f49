# SPDX-License-Identifier: Apache-2.0
"""Callers by name and password, `http_basic`: what was right is remembered for some seconds, what was wrong as well."""

from __future__ import annotations

import base64
import ipaddress
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from abaca import errors
from abaca.domain.callers import Identity
from abaca.http import users_file
from abaca.http.brakes import OF_ADDRESS, OF_USER, Brakes, Slots
from abaca.http.remembered import Memory

LOG = logging.getLogger(__name__)
PASSWORD_S = 30.0
LOOK_AT_FILE_S = 1.0


class HttpBasic:
    """Users of a file (users_file.py). `threads` answer requests: one of them at least never checks a password."""

    challenge = 'Basic realm="Abaca", charset="UTF-8"'

    def __init__(
        self,
        users_file: Path,
        *,
        clock: Callable[[], float] = time.time,
        threads: int = 2,
        is_behind_proxy: bool = False,
    ) -> None:
        """Raises ConfigError when the file cannot be read or a line is wrong."""
        self._file = users_file
        self._clock = clock
        self._is_behind_proxy = is_behind_proxy
        self._memory = Memory(clock)
        self._brakes = Brakes(clock)
        self._slots = Slots(max(1, min(threads - 1, os.cpu_count() or 1)))
        self._lock = threading.Lock()
        self._next_look = 0.0
        self._stamp: tuple[int, ...] | None = None
        self._read()

    def identify(self, environ: Mapping[str, object]) -> Identity:
        """Raises Unauthorized, or TooMany for who has failed too often, and while too many are checked."""
        said = str(environ.get("HTTP_AUTHORIZATION", ""))
        if not said.startswith("Basic "):
            raise errors.Unauthorized
        self._look_at_file()
        key = self._memory.key(said)
        identity = self._memory.get(key)
        if identity is None:
            identity = self._verify(said, self._address(environ))
            self._memory.put(key, identity, self._clock() + PASSWORD_S)
        return identity

    def reach(self) -> None:
        """The file has been read."""

    def _verify(self, said: str, address: str) -> Identity:
        try:
            name, _, password = base64.b64decode(said[6:], validate=True).decode().partition(":")
        except ValueError:  # not base64, not ASCII or not UTF-8
            raise errors.Unauthorized from None
        of_address, of_user, of_both = ("address", address), ("user", name), ("known", f"{address} {name}")
        self._brakes.check(of_address, OF_ADDRESS)
        if not self._memory.get(self._memory.key(repr(of_both))):
            self._brakes.check(of_user, OF_USER)
        with self._slots.one(waits=self._brakes.is_calm(of_address)):
            user = self._users.verify(name, password.encode())
        if user is None:
            self._brakes.failed(of_address, of_user)
            raise errors.Unauthorized
        self._brakes.passed(of_address)
        # who guesses at a user from elsewhere does not lock that user out where they work
        self._memory.put(self._memory.key(repr(of_both)), user.identity, self._clock() + 86400)
        return user.identity

    def _address(self, environ: Mapping[str, object]) -> str:
        """Who asks: an IPv4 address, or the /64 that one customer has. A proxy says it where it is believed."""
        said = str(environ.get("REMOTE_ADDR", ""))
        if self._is_behind_proxy:
            said = str(environ.get("HTTP_X_FORWARDED_FOR", said)).rpartition(",")[2].strip()
        try:
            address = ipaddress.ip_address(said)
        except ValueError:
            return said[:64]
        if address.version == 6:
            return str(ipaddress.ip_network((address, 64), strict=False))
        return str(address)

    def _look_at_file(self) -> None:
        now = self._clock()
        if now < self._next_look:
            return
        with self._lock:
            self._next_look = now + LOOK_AT_FILE_S
            try:
                self._read()
            except errors.ConfigError as reason:
                LOG.error("%s", reason)

    def _read(self) -> None:
        stamp = _stamp(self._file)
        if stamp is not None and stamp == self._stamp:
            return
        users = users_file.read(self._file)
        self._stamp = stamp
        self._users = users
        self._memory.clear()


def _stamp(file: Path) -> tuple[int, ...] | None:
    """What changes with the file, or with who may write it."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_mode, stat.st_ino
