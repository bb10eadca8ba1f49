# SPDX-License-Identifier: Apache-2.0
"""How a worker learns that there is work, without looking into the tables.

PostgreSQL: NOTIFY inside the transaction, LISTEN in the worker. SQLite: a datagram after the commit to every socket
in the state directory. Either may be lost (a listener reconnects, a process starts): the worker's slow look is the
safety net.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import select
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import sqlalchemy as sa

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx

log = logging.getLogger(__name__)

CHANNEL = "abaca_operations"


@functools.lru_cache(maxsize=256)
def _notify(queue: str) -> str:
    """What tells of a queue; several statements in one text have no parameters."""
    import psycopg.sql  # only where there is a PostgreSQL

    return f"NOTIFY {CHANNEL}, {psycopg.sql.Literal(queue).as_string(None)}"


class Notify:
    """PostgreSQL's own: delivered when, and only when, the transaction commits."""

    def before_commit(self, tx: Tx, queues: Sequence[str]) -> None:
        """Say it inside the transaction, and end that in the same round trip."""
        tx.end_with("; ".join([*map(_notify, queues), "COMMIT"]))

    def after_commit(self, queues: Sequence[str]) -> None:
        """The server has told everybody."""

    def close(self) -> None:
        """Nothing to give back."""


def _directory(path: Path) -> int:
    """A descriptor through which the sockets in a directory are named: the path may be too long for a socket's name."""
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


class Datagrams:
    """SQLite's: one datagram to each worker that has a socket in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptor = _directory(directory)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)

    def before_commit(self, tx: Tx, queues: Sequence[str]) -> None:
        """Nobody could see the work yet."""

    def after_commit(self, queues: Sequence[str]) -> None:
        """Tell every worker; a dead socket is not our problem, and the owner of a full one will know that it was."""
        message = "\n".join(queues).encode()
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._directory):
                if entry.name.endswith(".wake"):
                    with contextlib.suppress(OSError):
                        self._socket.sendto(message, f"/proc/self/fd/{self._descriptor}/{entry.name}")

    def close(self) -> None:
        """Give the descriptors back."""
        self._socket.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Listener(Protocol):
    """Calls back with the name of each queue that has work, until stopped."""

    def start(self, heard: Callable[[str], None]) -> None: ...

    def stop(self) -> None: ...


# So many unread at once may mean that the kernel had no room for one more (net.unix.max_dgram_qlen, 10 by default).
_MANY = 8


class DatagramListener:
    """Hears `Datagrams` on `<directory>/<name>.wake`."""

    def __init__(self, directory: Path, name: str) -> None:
        self._path = directory / f"{name.replace('/', '_')[:40]}.wake"
        self._socket: socket.socket | None = None

    def start(self, heard: Callable[[str], None]) -> None:
        """Bind and listen in a thread of its own."""
        self._path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        descriptor = _directory(self._path.parent)
        try:
            self._socket.bind(f"/proc/self/fd/{descriptor}/{self._path.name}")
        finally:
            os.close(descriptor)
        threading.Thread(target=self._listen, args=(self._socket, heard), name="wakeup", daemon=True).start()

    @staticmethod
    def _listen(bound: socket.socket, heard: Callable[[str], None]) -> None:
        unread = 0
        while True:
            try:
                message = bound.recv(65536, socket.MSG_DONTWAIT if unread else 0)
            except BlockingIOError:
                if unread >= _MANY:
                    heard("")
                unread = 0
                continue
            except OSError:
                return
            if not message:
                return
            unread += 1
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
        self._end, self._ended = socket.socketpair()

    def start(self, heard: Callable[[str], None]) -> None:
        """Listen in a thread of its own."""
        self._thread = threading.Thread(target=self._listen, args=(heard,), name="wakeup", daemon=True)
        self._thread.start()

    def _listen(self, heard: Callable[[str], None]) -> None:
        import psycopg  # only where there is a PostgreSQL

        was_lost = False
        while not self._stopped.is_set():
            try:
                with psycopg.connect(self._dsn, autocommit=True, **_LISTENING) as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    if was_lost:
                        log.info("listening to the database again")
                    was_lost = False
                    heard("")  # what came while nobody listened
                    self._hear(connection.pgconn, heard)
            except psycopg.Error as error:
                if not was_lost:
                    log.warning("the database cannot be listened to (%s); trying again", str(error).strip())
                was_lost = True
                self._stopped.wait(self._retry_s)

    def _hear(self, connection: Any, heard: Callable[[str], None]) -> None:
        """Until `stop`. Raises `psycopg.OperationalError` when the connection is lost."""
        poll = select.poll()
        poll.register(connection.socket, select.POLLIN)
        poll.register(self._ended, select.POLLIN)
        while True:
            while (notice := connection.notifies()) is not None:
                heard(notice.extra.decode())
            poll.poll()
            if self._stopped.is_set():
                return
            connection.consume_input()

    def stop(self) -> None:
        """Stop listening."""
        self._stopped.set()
        self._end.send(b"x")
        if self._thread is not None:
            self._thread.join(timeout=6)
        self._end.close()
        self._ended.close()


# A server that vanished without a word is noticed within half a minute, not within hours.
_LISTENING: dict[str, Any] = {
    "connect_timeout": 5,
    "application_name": "abaca listener",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}


class NoListener:
    """Hears nothing: the worker lives on its slow look alone."""

    def start(self, heard: Callable[[str], None]) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Nothing to stop."""
