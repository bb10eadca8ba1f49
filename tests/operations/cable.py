# SPDX-License-Identifier: Apache-2.0
"""A cable to a server that can be cut: what is on it is lost, in either direction, and nobody is told which.

And a line on which nobody answers, which counts who calls.
"""

import contextlib
import select
import socket
import threading


class Silence:
    """Where a server was, everybody who calls is hung up on; `calls` says how many have."""

    def __init__(self, port):
        self.calls = 0
        self._listener = socket.create_server(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._hang_up)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_exception):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _hang_up(self):
        with contextlib.suppress(OSError):
            while True:
                self._listener.accept()[0].close()
                self.calls += 1


class Cable:
    """Listens on a port of its own and passes everything on to the server's, until `cut` or `close`."""

    def __init__(self, port):
        self._to = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._pairs = set()
        self._carried = threading.Condition()
        self._pieces = 0
        self._is_open = True
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while self._is_open:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._to)
            pair = (near, far)
            with self._lock:
                self._pairs.add(pair)
            threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, near, far):
        with contextlib.suppress(OSError, ValueError), near, far:
            poll = select.poll()
            for end in (near, far):
                poll.register(end, select.POLLIN)
            other = {near.fileno(): (near, far), far.fileno(): (far, near)}
            while True:
                for number, _ in poll.poll():
                    source, sink = other[number]
                    data = source.recv(65536)
                    if not data:
                        return
                    sink.sendall(data)
                    with self._carried:
                        self._pieces += 1
                        self._carried.notify_all()

    def carry(self, pieces, timeout_s=60.0):
        """Return when so many more pieces of data have gone through, in whatever direction."""
        with self._carried:
            wanted = self._pieces + pieces
            assert self._carried.wait_for(lambda: self._pieces >= wanted, timeout_s), "nobody says anything"

    def cut(self):
        """Every connection ends here and now."""
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._is_open = False
        self._listener.close()
        self.cut()
