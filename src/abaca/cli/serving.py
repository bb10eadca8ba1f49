# SPDX-License-Identifier: Apache-2.0
"""The API behind Granian, in one process: Granian's thread reads requests, ours answer them (answering.py).

Granian's own servers keep a parent beside each worker; the supervisor is that parent here, so the process is spared and
Granian's worker is driven directly. Any other WSGI server works as well: `abaca.app:wsgi` is the application.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import logging
import os
import resource
import socket
import stat
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from granian._granian import CallbackScheduler, WorkerSignal
from granian.http import HTTP1Settings

from abaca.cli import answering

log = logging.getLogger(__name__)

# By name, since its stubs say otherwise.
_granian = importlib.import_module("granian._granian")
# Granian closes connections of which it has read nothing when it is told to stop. So it is told this many seconds after
# it accepted the last: that one's request is there by then, and is answered.
LAST_S = 0.3
# A filter of the kernel's (linux/filter.h): one instruction, of each packet take nothing.
_SO_ATTACH_FILTER = 26
_NOTHING = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0), 8)
# Files that the process has open beside connections of clients: databases, logs, figures.
OTHER_FILES = 64


class Limits(NamedTuple):
    """Connections that wait, and those at once; seconds for the head of a request to come; seconds to end in."""

    backlog: int
    connections: int
    head_s: float
    stop_s: float


class _Scheduler(CallbackScheduler):
    """Hands each request to whoever takes it, and not to a coroutine of the loop's."""

    __slots__ = ()

    def __init__(self, _loop: object, take: Callable[[answering.Arrival], None], *_tasks: object) -> None:
        super().__init__()
        self._schedule_fn = take


class Server:
    """Serves requests that come to a listening socket, which it takes over."""

    def __init__(self, listening: socket.socket, answers: answering.Answering, limits: Limits) -> None:
        self._listening = listening
        self._inode = os.fstat(listening.fileno()).st_ino
        self._others = descriptors(self._inode) - {listening.fileno()}
        self._answers = answers
        self._limits = limits
        self._stop = WorkerSignal()
        self._loop = asyncio.new_event_loop()

    def serve(self, on_ready: Callable[[], None]) -> None:
        """Answer requests until `stop`; `on_ready` is called at the beginning."""
        self._loop.run_until_complete(self._serve(on_ready))
        self._loop.close()

    def stop(self) -> None:
        """Take no more connections, let requests under way end, but not for ever; from any thread."""
        self._answers.close_connections()
        with contextlib.suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self._loop.call_later(LAST_S, self._stop.set)
        self._loop.call_later(LAST_S + self._limits.stop_s, os._exit, 0)
        accept_no_more(descriptors(self._inode) - self._others)

    async def _serve(self, on_ready: Callable[[], None]) -> None:
        over = asyncio.Event()
        self._stop.add_cb(lambda: self._loop.call_soon_threadsafe(over.set))
        self._answers.start(self._loop)
        scheduler = _Scheduler(self._loop, self._answers.take, None, None, None)
        self._start(scheduler)
        on_ready()
        await over.wait()

    def _start(self, scheduler: CallbackScheduler) -> None:
        worker = _granian.RSGIWorker(
            1,
            (None, _granian.SocketHolder(self._listening.detach(), False, self._limits.backlog)),
            None,
            threads=1,
            blocking_threads=1,
            py_threads=1,
            backpressure=connections_at_most(self._limits.connections),
            http_mode="1",
            http1_opts=HTTP1Settings(header_read_timeout=round(self._limits.head_s * 1000)),
            ssl_protocol_min="tls1.3",
            metrics=(None, _granian.MetricsAggregator(1)),
        )
        worker.serve_str(scheduler, self._loop, self._stop)


def descriptors(inode: int) -> set[int]:
    """Those of this process by which it has a socket."""
    found = set()
    for descriptor in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        with contextlib.suppress(OSError):  # the one that listed them
            status = os.fstat(descriptor)
            if status.st_ino == inode and stat.S_ISSOCK(status.st_mode):
                found.add(descriptor)
    return found


def accept_no_more(listening: Iterable[int]) -> None:
    """Leave new connections to whoever else has the listening socket, or has it next: here another takes its place.

    Granian has no way to stop accepting but to end. It asks whatever takes the place for an address, once it has begun,
    and asks again at once when that cannot accept: so that is a TCP socket which listens, and which nothing reaches.
    """
    with socket.socket() as deaf:
        deaf.setblocking(False)
        deaf.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(_NOTHING)))
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for descriptor in listening:
            os.dup2(deaf.fileno(), descriptor, inheritable=False)


def connections_at_most(wanted: int) -> int:
    """As many connections as are wanted and there may be files for; beyond that Granian accepts none any more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < needed:
            log.warning(
                "%d connections at once are taken, not %d: the limit of open files is %d",
                soft - OTHER_FILES,
                wanted,
                soft,
            )
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - OTHER_FILES))
