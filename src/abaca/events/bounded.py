# SPDX-License-Identifier: Apache-2.0
"""HTTP requests that end within a time, all in all: the library bounds each wait for a byte, and a peer may drip.

When the time is over the connection is shut down under the request, which fails as one that breaks does.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from requests import adapters
from urllib3 import connection, connectionpool, response


class _Deadline:
    """Of the request that this thread makes."""

    def __init__(self) -> None:
        self.is_over = False
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def watch(self, sock: socket.socket | None) -> None:
        """The request goes over this connection."""
        with self._lock:
            self._socket = sock
            if self.is_over:
                self._shut_down()

    def pass_by(self) -> None:
        """The time is over."""
        with self._lock:
            self.is_over = True
            self._shut_down()

    def _shut_down(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):  # it has ended by itself
                self._socket.shutdown(socket.SHUT_RDWR)


class _UnderWay(threading.local):
    deadline: _Deadline | None = None


_under_way = _UnderWay()


@contextlib.contextmanager
def within(seconds: float) -> Iterator[_Deadline]:
    """Requests of this thread in this block, over an `adapter`, end within so many seconds together."""
    deadline = _under_way.deadline = _Deadline()
    timer = threading.Timer(seconds, deadline.pass_by)
    timer.daemon = True
    timer.start()
    try:
        yield deadline
    finally:
        timer.cancel()
        deadline.watch(None)
        _under_way.deadline = None


class _Watched(connection.HTTPConnection):
    """A connection that its deadline knows while an answer is waited for."""

    def getresponse(self) -> response.HTTPResponse:  # type: ignore[override] # as the library has it
        """As the library does it."""
        if _under_way.deadline is not None:
            _under_way.deadline.watch(self.sock)
        return super().getresponse()


class _WatchedTls(connection.HTTPSConnection):
    """The same with TLS."""

    def getresponse(self) -> response.HTTPResponse:  # type: ignore[override] # as the library has it
        """As the library does it."""
        if _under_way.deadline is not None:
            _under_way.deadline.watch(self.sock)
        return super().getresponse()


class _Pool(connectionpool.HTTPConnectionPool):
    ConnectionCls = _Watched


class _TlsPool(connectionpool.HTTPSConnectionPool):
    ConnectionCls = _WatchedTls


def adapter(connections: int) -> adapters.HTTPAdapter:
    """As the library's, over connections that `within` can end; it keeps so many of them."""
    made = adapters.HTTPAdapter(pool_maxsize=connections)
    made.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
    return made
