# SPDX-License-Identifier: Apache-2.0
"""How a worker learns that there is work, without looking into the tables.

PostgreSQL: NOTIFY inside the transaction, LISTEN in the worker. SQLite: a datagram after the commit to every socket
in the state directory. Either may be lost (a listener reconnects, a process starts): the worker's slow look is the
safety net.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import sqlalchemy as sa

if TYPE_CHECKING:
    from abaca.db.engine import Tx

log = logging.getLogger(__name__)

CHANNEL = "abaca_operations"
_NOTIFY = sa.text(f"SELECT pg_notify('{CHANNEL}', :queue)")


class Notify:
    """PostgreSQL's own: delivered when, and only when, the transaction commits."""

    def before_commit(self, tx: Tx, queues: Sequence[str]) -> None:
        """Say it inside the transaction."""
        for queue in queues:
            tx.execute(_NOTIFY, {"queue": queue})

    def after_commit(self, queues: Sequence[str]) -> None:
        """The server has told everybody."""

    def close(self) -> None:
        """Nothing to give back."""


class Datagrams:
    """SQLite's: one datagram to each worker that has a socket in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)

    def before_commit(self, tx: Tx, queues: Sequence[str]) -> None:
        """Nobody could see the work yet."""

    def after_commit(self, queues: Sequence[str]) -> None:
        """Tell every worker; a full or dead socket is not our problem, its owner looks by itself."""
        message = "\n".join(queues).encode()
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._directory):
                if entry.name.endswith(".wake"):
                    with contextlib.suppress(OSError):
                        self._socket.sendto(message, entry.path)

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()


class Listener(Protocol):
    """Calls back with the name of each queue that has work, until stopped."""

    def start(self, heard: Callable[[str], None]) -> None: ...

    def stop(self) -> None: ...


class DatagramListener:
    """Hears `Datagrams` on `<directory>/<name>.wake`."""

    def __init__(self, directory: Path, name: str) -> None:
        self._path = directory / f"{name.replace('/', '_')[:40]}.wake"
        self._socket: socket.socket | None = None

    def start(self, heard: Callable[[str], None]) -> None:
        """Bind and listen in a thread of its own."""
        self._path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.bind(str(self._path))
        threading.Thread(target=self._listen, args=(self._socket, heard), name="wakeup", daemon=True).start()

    @staticmethod
    def _listen(bound: socket.socket, heard: Callable[[str], None]) -> None:
        while True:
            try:
                message = bound.recv(65536)
            except OSError:
                return
            if not message:
                return
            for queue in message.decode().splitlines():
                heard(queue)

    def stop(self) -> None:
        """Stop listening and take the socket away."""
        self._path.unlink(missing_ok=True)
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()


class NotifyListener:
    """Hears `Notify` on a connection of its own; reconnects by itself, and says "everything" when it does."""

    def __init__(self, url: sa.URL, *, retry_s: float = 1.0) -> None:
        self._dsn = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._retry_s = retry_s
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, heard: Callable[[str], None]) -> None:
        """Listen in a thread of its own."""
        self._thread = threading.Thread(target=self._listen, args=(heard,), name="wakeup", daemon=True)
        self._thread.start()

    def _listen(self, heard: Callable[[str], None]) -> None:
        import psycopg  # only where there is a PostgreSQL

        was_lost = False
        while not self._stopped.is_set():
            try:
                with psycopg.connect(self._dsn, autocommit=True, connect_timeout=5) as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    if was_lost:
                        log.info("listening to the database again")
                    heard("")  # what came while nobody listened
                    while not self._stopped.is_set():
                        for notice in connection.notifies(timeout=0.5):
                            heard(notice.payload)
            except psycopg.Error as error:
                if not was_lost:
                    log.warning("the database cannot be listened to (%s); trying again", str(error).strip())
                was_lost = True
                self._stopped.wait(self._retry_s)

    def stop(self) -> None:
        """Stop listening."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout=2)


class NoListener:
    """Hears nothing: the worker lives on its slow look alone."""

    def start(self, heard: Callable[[str], None]) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Nothing to stop."""
