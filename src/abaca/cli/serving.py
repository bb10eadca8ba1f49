# SPDX-License-Identifier: Apache-2.0
"""The API behind Granian, in one process: Granian's threads call the application, the main thread waits for signals.

Granian's usual server keeps a parent beside each worker; the supervisor is that parent here, so the process is spared.
Any other WSGI server works as well: `abaca.app:wsgi` is the application.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from granian.constants import Interfaces
from granian.log import LogLevels
from granian.server.mt import MTServer

from abaca.cli import supervisor

log = logging.getLogger(__name__)

# Its own handlers would write to standard output: everything goes to ours instead.
_LOGGING = {
    "version": 1,
    "formatters": {},
    "handlers": {},
    "loggers": {"_granian": {"level": "WARNING"}, "granian.access": {"level": "WARNING"}},
}


class Server(MTServer):
    """Granian's threaded server. It was made for interpreters without a GIL and serves WSGI as well with one."""

    def __init__(self, *args: Any, stop_s: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self._stop_s = stop_s

    def _check_gil(self) -> None:
        """Nothing to refuse: see the class."""

    def signal_handler_interrupt(self, *args: Any, **options: Any) -> None:
        """Stop, and let requests under way end within `stop_s`."""
        timer = threading.Timer(self._stop_s, os._exit, args=(0,))
        timer.daemon = True
        timer.start()
        super().signal_handler_interrupt(*args, **options)  # type: ignore[no-untyped-call]

    def signal_handler_reload(self, *args: Any, **options: Any) -> None:
        """End with the terminal. Otherwise HUP means changes, of which an API takes none before its next start."""
        if not supervisor.is_told_of_changes():
            self.signal_handler_interrupt(*args, **options)


def server(address: str, port: int, *, threads: int, backlog: int, stop_s: float) -> Server:
    """A server that is ready for `serve`."""
    return Server(
        "abaca",
        stop_s=stop_s,
        address=address,
        port=port,
        interface=Interfaces.WSGI,
        websockets=False,
        workers=1,
        blocking_threads=threads,
        runtime_threads=1,
        runtime_blocking_threads=1,
        backlog=backlog,
        log_level=LogLevels.error,
        log_dictconfig=_LOGGING,
    )


def serve(made: Server, application: Callable[..., Any], on_ready: Callable[[], None]) -> None:
    """Answer requests until TERM or INT; `on_ready` is called once connections are accepted."""
    watched = (made.bind_addr, made.bind_port, on_ready)
    threading.Thread(target=_tell_when_ready, args=watched, name="ready", daemon=True).start()
    made.serve(target_loader=lambda: application, wrap_loader=False)


def _tell_when_ready(address: str, port: int, on_ready: Callable[[], None]) -> None:
    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104 - compared, not bound
    for _ in range(1000):
        try:
            socket.create_connection((target, port), timeout=1).close()
        except OSError:
            time.sleep(0.01)
        else:
            on_ready()
            return
