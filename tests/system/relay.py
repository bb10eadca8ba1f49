# SPDX-License-Identifier: Apache-2.0
"""Servers that listen on loopback, as machines of a private network reach them."""

import contextlib
import socket
import socketserver
import threading


class Relay(socketserver.ThreadingTCPServer):
    """Who connects to `address` speaks with `port` of this host's loopback."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, address, port):
        super().__init__(address, _Both)
        self.inner = ("127.0.0.1", port)
        self._serving = threading.Thread(target=self.serve_forever, daemon=True)

    def __enter__(self):
        self._serving.start()
        return self

    def __exit__(self, *_exception):
        self.shutdown()
        self.server_close()


class _Both(socketserver.BaseRequestHandler):
    def handle(self):
        with contextlib.suppress(OSError), socket.create_connection(self.server.inner) as inner:
            back = threading.Thread(target=_pour, args=(inner, self.request), daemon=True)
            back.start()
            _pour(self.request, inner)
            back.join()


def _pour(source, target):
    """All that comes from the one goes to the other, its end too."""
    with contextlib.suppress(OSError):
        while content := source.recv(1 << 16):
            target.sendall(content)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
