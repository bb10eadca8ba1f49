# SPDX-License-Identifier: Apache-2.0
"""From Granian's requests to a WSGI application's answers. A request has a thread only while it is worked on.

Granian reads the head of a request; one of our threads calls the application, which knows the caller by it. What the
application then waits for, such as the rest of the body (http/waiting.py), comes to the event loop, within a size and a
time, and the next free thread goes on. So whoever is slow, or never ends, holds memory of a known size and no thread.
"""

from __future__ import annotations

import asyncio
import io
import logging
import queue
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from abaca import errors
from abaca.http import faults, health, reading, waiting

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication, WSGIEnvironment

log = logging.getLogger(__name__)

# Bodies that may be on their way at once; each holds at most the size that the application takes.
BODIES = 256
_ALIKE: WSGIEnvironment = {
    "SCRIPT_NAME": "",
    "SERVER_SOFTWARE": "Granian",
    "wsgi.version": (1, 0),
    "wsgi.multithread": True,
    "wsgi.multiprocess": False,
    "wsgi.run_once": False,
    "wsgi.input_terminated": True,
}


class Transport(Protocol):
    """What Granian answers through, and reads the body from; RSGI calls it the protocol."""

    def __call__(self) -> Awaitable[bytes]: ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None: ...


class Headers(Protocol):
    """Names are in small letters; one may come several times."""

    def items(self) -> list[tuple[str, str]]: ...


class Scope(Protocol):
    """The head of a request."""

    method: str
    path: str
    query_string: str
    server: str
    client: str
    http_version: str
    scheme: str
    headers: Headers


class Arrival(Protocol):
    """A request whose head is there. `err` answers 500 where nothing was answered."""

    scope: Scope
    proto: Transport

    def err(self, error: BaseException) -> None: ...


class Bounds(NamedTuple):
    """How many threads answer; how many requests may wait for one; in how many seconds a body must have come."""

    threads: int
    waiting: int
    body_s: float


Refuse = Callable[[str, errors.AbacaError], faults.Fault]


class Request:
    """One request on its way; called, it is the application's `start_response`."""

    __slots__ = ("_headers", "_is_last", "_status", "_transport", "_written", "environ", "waits")

    def __init__(self, arrival: Arrival, is_last: Callable[[], bool]) -> None:
        self._transport = arrival.proto
        self._is_last = is_last
        self._written: list[bytes] = []
        self.environ = environ_of(arrival.scope)
        self.waits = self.environ[waiting.KEY] = waiting.Waits()

    def __call__(
        self, status: str, headers: list[tuple[str, str]], _exc_info: object = None, /
    ) -> Callable[[bytes], None]:
        self._status, self._headers = int(status[:3]), headers
        return self._written.append

    def send(self, chunks: Iterable[bytes]) -> None:
        """Answer; a body is sent whole, so that a client that reads slowly holds nobody."""
        headers = [*self._headers, _LAST] if self._is_last() else self._headers
        self._transport.response_bytes(self._status, headers, b"".join([*self._written, *chunks]))

    async def body(self, most: int) -> bytes:
        """The whole body. Raises Invalid for one that is cut off, and OverLimit beyond `most` bytes."""
        if "CONTENT_LENGTH" in self.environ:
            try:
                return await self._transport()
            except RuntimeError:
                raise reading.cut_off() from None
        return await self._chunked(most)

    async def _chunked(self, most: int) -> bytes:
        body, ends = bytearray(), 0
        async for chunk in self._transport:
            body += chunk
            # the end is an empty chunk, and so is a break; after a break there is an end as well
            ends += not chunk
            if len(body) > most:
                raise reading.too_large()
        if ends != 1:
            raise reading.cut_off()
        return bytes(body)


class Answering:
    """Threads that answer requests; `take` is called with each, from any thread, and never blocks or raises."""

    def __init__(self, application: WSGIApplication, bounds: Bounds, refuse: Refuse | None = None) -> None:
        """`refuse` answers a path for which no thread is there; by default as the first door does."""
        self._application = application
        self._bounds = bounds
        self._refuse = refuse or (lambda _path, error: faults.fault(error, "-"))
        self._loop: asyncio.AbstractEventLoop
        self._due: queue.SimpleQueue[Arrival | Request] = queue.SimpleQueue()
        self._beside: queue.SimpleQueue[Arrival | Request] = queue.SimpleQueue()
        self._fetching: set[asyncio.Task[None]] = set()
        self._bodies = 0
        self._is_ending = threading.Event()

    def close_connections(self) -> None:
        """Say with every answer from now on that its connection ends with it, so that no request follows on it."""
        self._is_ending.set()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the threads; what requests wait for comes to `loop`."""
        self._loop = loop
        for number in range(self._bounds.threads):
            self._thread(f"answers {number}", self._due)
        self._thread("health", self._beside)

    def take(self, arrival: Arrival) -> None:
        """Answer a request, when it is its turn."""
        if arrival.scope.path in health.PATHS:
            self._beside.put(arrival)
        elif self._due.qsize() < self._bounds.waiting:
            self._due.put(arrival)
        else:
            busy = errors.Unavailable("Too many requests wait here for their turn. Try again.")
            refusal = self._refuse(arrival.scope.path, busy)
            arrival.proto.response_bytes(refusal.status, [*_JSON, *refusal.headers.items()], refusal.body)

    def _thread(self, name: str, due: queue.SimpleQueue[Arrival | Request]) -> None:
        threading.Thread(target=self._work, args=(due,), name=name, daemon=True).start()

    def _work(self, due: queue.SimpleQueue[Arrival | Request]) -> None:
        while True:
            found = due.get()
            try:
                self._answer(found if isinstance(found, Request) else Request(found, self._is_ending.is_set))
            except Exception as error:
                log.exception("a request was not answered")
                if not isinstance(found, Request):
                    found.err(error)
            # what it holds is not kept until the next comes
            del found

    def _answer(self, request: Request) -> None:
        chunks = self._application(request.environ, request)
        try:
            if request.waits.wanted is None:
                request.send(chunks)
            else:
                self._loop.call_soon_threadsafe(self._wait, request, request.waits.wanted)
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()

    def _wait(self, request: Request, wanted: waiting.Body | waiting.Later) -> None:
        task = self._loop.create_task(self._fetch(request, wanted))
        self._fetching.add(task)
        task.add_done_callback(self._fetching.discard)

    async def _fetch(self, request: Request, wanted: waiting.Body | waiting.Later) -> None:
        waits = request.waits
        try:
            if isinstance(wanted, waiting.Body):
                waits.body = await self._body(request, wanted.most)
            else:
                await _come(wanted)
        except errors.AbacaError as error:
            waits.error = error
        waits.wanted = None
        self._due.put(request)

    async def _body(self, request: Request, most: int) -> bytes:
        if self._bodies >= BODIES:
            raise errors.Unavailable("Too many requests are still on their way here. Try again.")
        self._bodies += 1
        try:
            async with asyncio.timeout(self._bounds.body_s):
                return await request.body(most)
        except TimeoutError:
            raise errors.TooSlow(seconds=f"{self._bounds.body_s:g}") from None
        finally:
            self._bodies -= 1


async def _come(later: waiting.Later) -> None:
    """It is there, or has failed, which the pipeline sees. Raises Unavailable after its time."""
    here = asyncio.wrap_future(later.future)
    _, late = await asyncio.wait([here], timeout=later.within_s)
    if late:
        here.cancel()
        raise later.too_late()
    here.exception()  # who shows the answer raises it


_LAST = ("connection", "close")
_JSON = (("content-type", reading.JSON),)
# What a header is called in WSGI. Clients may invent others, which are not kept.
_NAMES = {"content-type": "CONTENT_TYPE", "content-length": "CONTENT_LENGTH"}
_NAMED_AT_MOST = 256


def _name(header: str) -> str:
    name = "HTTP_" + header.upper().replace("-", "_")
    if len(_NAMES) < _NAMED_AT_MOST:
        _NAMES[header] = name
    return name


def environ_of(scope: Scope) -> WSGIEnvironment:
    """The WSGI environment of a request of which Granian has read the head."""
    server, client = scope.server.rpartition(":"), scope.client.rpartition(":")
    path = scope.path
    environ: WSGIEnvironment = {
        **_ALIKE,
        "REQUEST_METHOD": scope.method,
        "PATH_INFO": path if path.isascii() else path.encode().decode("latin-1"),
        "QUERY_STRING": scope.query_string,
        "SERVER_NAME": server[0],
        "SERVER_PORT": server[2],
        "SERVER_PROTOCOL": f"HTTP/{scope.http_version}",
        "REMOTE_ADDR": client[0].strip("[]"),
        "REMOTE_PORT": client[2],
        "wsgi.url_scheme": scope.scheme,
        "wsgi.errors": sys.stderr,
        "wsgi.input": io.BytesIO(),
    }
    for header, value in scope.headers.items():
        name = _NAMES.get(header) or _name(header)
        environ[name] = f"{environ[name]},{value}" if name in environ else value
    return environ
