# SPDX-License-Identifier: Apache-2.0
"""What refuses a call of the local driver that comes too late: the greatest generation seen of each instance.

Of share servers too. It is kept in a file for each, beside the pool, and outlives the instance. A lock that is held
over the whole call, between processes too, covers comparing, keeping and the change: while its holder is frozen nobody
else works on the instance. Nothing is synced to disk: a call does not outlive its kernel.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from abaca.drivers import contract
from abaca.drivers.clients.names import safe

# A fixed number of locks for any number of instances.
SLOTS = 64
# So long is kept what was seen of an instance that is gone.
KEEP_S = 30 * 86400.0


class Fences:
    """`directory` belongs to this; one thread at a time works on an instance."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.locks = [threading.RLock() for _ in range(SLOTS)]
        self._files: dict[int, int] = {}

    def start(self) -> None:
        """Be ready."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    def forget(self, is_held: Callable[[str], bool]) -> None:
        """What was seen more than a month ago of instances that are not held any more is forgotten."""
        before_s = time.time() - KEEP_S
        with os.scandir(self.directory) as found:
            old = [entry.name for entry in found if entry.stat().st_mtime < before_s]
        for name in old:
            if not name.startswith(".") and not is_held(name):
                self._file(name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def alone(self, id: str) -> Iterator[None]:
        """Nobody else works on the instance, in this process or another. Raises `contract.Busy`."""
        slot = zlib.crc32(id.encode()) % SLOTS
        with self.locks[slot]:
            depth = self._files.get(slot)
            if depth is not None:  # this thread has it already
                yield
                return
            descriptor = self._locked(slot)
            self._files[slot] = descriptor
            try:
                yield
            finally:
                del self._files[slot]
                os.close(descriptor)

    @contextlib.contextmanager
    def alone_now(self, id: str) -> Iterator[None]:
        """The same without waiting. Raises `contract.Busy` where somebody works on it, or on a neighbour."""
        lock = self.locks[zlib.crc32(id.encode()) % SLOTS]
        if not lock.acquire(blocking=False):
            raise contract.Busy(reason="another call for it, or for a neighbour, is under way")
        try:
            with self.alone(id):
                yield
        finally:
            lock.release()

    def _locked(self, slot: int) -> int:
        descriptor = os.open(self.directory / f".lock-{slot:02}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            reason = "another process is inside a call for it, or for a neighbour: end that process if it hangs"
            raise contract.Busy(reason=reason) from error
        return descriptor

    def is_superseded(self, id: str, generation: int | None) -> bool:
        """Whether a greater generation was seen."""
        return generation is not None and self._seen(id) > generation

    def see(self, id: str, generation: int | None) -> None:
        """Keep the generation as the one that was seen. Raises `contract.Superseded` when that is a greater one."""
        if generation is None:
            return
        seen = self._seen(id)
        if seen > generation:
            raise contract.Superseded(reason=f"this call for {id} comes too late")
        if seen < generation:
            draft = self.directory / f".draft-{safe(id)}"
            draft.write_text(str(generation))
            draft.rename(self._file(id))

    def _seen(self, id: str) -> int:
        try:
            return int(self._file(id).read_text() or "0")
        except FileNotFoundError:
            return 0

    def _file(self, id: str) -> Path:
        return self.directory / safe(id)
