# SPDX-License-Identifier: Apache-2.0
"""Network namespaces by system call, each held by a file that it is mounted on, whether or not a process is in it.

A thread of its own enters a namespace for what is done there, and ends with it: the others stay where they are.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from abaca.drivers import contract
from abaca.drivers.clients import mounts

T = TypeVar("T")

_NEW_NETWORK = 0x40000000
_OWN = "/proc/thread-self/ns/net"
_libc = ctypes.CDLL(None, use_errno=True)


def exists(place: Path) -> bool:
    """Whether a namespace is mounted on the file."""
    return os.path.ismount(place)


def make(place: Path) -> bool:
    """Have a namespace at the place; whether it was made now. Raises `contract.Refused`."""
    if exists(place):
        return False
    place.touch(mode=0o600)
    aside(lambda: _leave_to(place))
    return True


def _leave_to(place: Path) -> None:
    _call("a network namespace", _libc.unshare(_NEW_NETWORK))
    mounts.mount(_OWN, place, "none", mounts.BIND, "")


def remove(place: Path) -> None:
    """The place holds none any more, and is gone itself; absent is success. Raises `contract.Busy`."""
    mounts.unmount(place)
    place.unlink(missing_ok=True)


def inside(place: Path, work: Callable[[], T]) -> T:
    """What the work gives, done in the namespace. Raises `contract.Unreachable` when there is none."""

    def inner() -> T:
        enter(place)
        return work()

    return aside(inner)


def enter(place: Path) -> None:
    """Be in the namespace from now on, in a thread of `aside`. Raises `contract.Unreachable` when there is none."""
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise contract.Unreachable(reason=f"there is no network namespace {place}") from error
    try:
        _call(f"entering {place}", _libc.setns(descriptor, _NEW_NETWORK))
    finally:
        os.close(descriptor)


class _Task(threading.Thread, Generic[T]):
    """A thread for one call, which keeps what it gave."""

    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__(name="network-namespace", daemon=True)
        self._work = work
        self.given: list[T] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.given.append(self._work())
        except BaseException as error:  # noqa: BLE001 (it is raised where the call is waited for)
            self.error = error


def aside(work: Callable[[], T]) -> T:
    """What the work gives, done in a thread of its own, which may enter namespaces."""
    task = _Task(work)
    task.start()
    task.join()
    if task.error is not None:
        raise task.error
    return task.given[0]


def _call(what: str, answer: int) -> None:
    if answer:
        raise contract.Refused(reason=f"{what}: {os.strerror(ctypes.get_errno())}")
