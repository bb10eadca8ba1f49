# SPDX-License-Identifier: Apache-2.0
"""Many HTTP clients in one thread, each a generator on a connection that it keeps.

    def reader(raw):
        while True:
            answer = yield raw          # send these bytes, get the answer
            yield 0.002                 # wait so many seconds

A client costs some microseconds a request, so that the machine is left to what is measured.
"""

from __future__ import annotations

import heapq
import itertools
import json
import selectors
import socket
import time
from collections.abc import Generator, Iterable, Sequence
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What came back, and how long it took."""

    status: int
    body: bytes
    took_s: float

    def json(self) -> Any:
        return json.loads(self.body)


Client = Generator["bytes | float", Any, None]


class Door(NamedTuple):
    """Where requests go, and what stands in all of them."""

    host: str
    port: int
    headers: str

    def request(self, method: str, path: str, body: object = None) -> bytes:
        """A whole request."""
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\nAccept: application/json\r\n{self.headers}"
        if content or method in ("POST", "PUT"):
            head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        return head.encode() + b"\r\n" + content

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        """One request on a connection of its own."""
        found: list[Answer] = []

        def once() -> Client:
            found.append((yield self.request(method, path, body)))

        drive(self, [once()])
        return found[0]


class _Connection:
    """One client's socket, and what it waits for."""

    def __init__(self, door: Door, client: Client) -> None:
        self.client = client
        self.socket = socket.create_connection((door.host, door.port), 60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent_s = 0.0
        self._parts: list[bytes] = []
        self._missing = 0
        self._status = 0

    def send(self, raw: bytes) -> None:
        self.sent_s = time.perf_counter()
        self.socket.sendall(raw)

    def receive(self) -> Answer | None:
        """Take what has come; the answer when it is whole."""
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the server closed the connection")
        if self._missing:
            self._parts.append(data)
            self._missing -= len(data)
        else:
            self._begin(b"".join([*self._parts, data]))
        if self._missing:
            return None
        body, self._parts = b"".join(self._parts), []
        return Answer(self._status, body, time.perf_counter() - self.sent_s)

    def _begin(self, data: bytes) -> None:
        head, found, body = data.partition(b"\r\n\r\n")
        if not found:
            raise ConnectionError("an answer's head came in pieces")
        lines = head.lower().split(b"\r\n")
        self._status = int(lines[0].split(b" ", 2)[1])
        length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
        self._parts, self._missing = [body], length - len(body)


def drive(door: Door, clients: Iterable[Client]) -> None:
    """Run all clients to their ends."""
    with selectors.DefaultSelector() as selector:
        pauses: list[tuple[float, int, _Connection]] = []
        order = itertools.count()

        def step(connection: _Connection, value: Answer | None) -> None:
            try:
                wish = connection.client.send(value)
            except StopIteration:
                selector.unregister(connection.socket)
                connection.socket.close()
                return
            if isinstance(wish, bytes):
                connection.send(wish)
            else:
                heapq.heappush(pauses, (time.perf_counter() + wish, next(order), connection))

        for connection in [_Connection(door, client) for client in clients]:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            step(connection, None)
        while selector.get_map():
            wait_s = max(0.0, pauses[0][0] - time.perf_counter()) if pauses else 60.0
            for key, _ in selector.select(wait_s):
                answer = key.data.receive()
                if answer is not None:
                    step(key.data, answer)
            while pauses and pauses[0][0] <= time.perf_counter():
                step(heapq.heappop(pauses)[2], None)


def repeated(raws: Sequence[bytes], until_s: float, took_s: list[float]) -> Client:
    """Sends the requests one after another, over and over, until a `time.perf_counter`."""
    for raw in itertools.cycle(raws):
        answer = yield raw
        if answer.status != 200:
            raise RuntimeError(f"{raw[:60]!r} was answered with {answer.status}: {answer.body[:200]!r}")
        took_s.append(answer.took_s)
        if time.perf_counter() >= until_s:
            return


def middle(values: Sequence[float]) -> float:
    """The median."""
    return sorted(values)[len(values) // 2]
