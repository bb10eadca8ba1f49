# SPDX-License-Identifier: Apache-2.0
"""NFS exports that stay true: written to files first, then made live over D-Bus, then looked at.

One lock covers files and daemon, so what is written and what is live change together. A daemon that dies is started
again at once by a watching thread; its exports are all in the files.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from abaca import errors
from abaca.drivers import contract
from abaca.drivers.exports import blocks
from abaca.drivers.exports.blocks import ExportBlock, GlusterVolume
from abaca.drivers.exports.bus import Bus, Dead
from abaca.drivers.exports.clients import Client
from abaca.drivers.exports.daemon import Daemon
from abaca.drivers.exports.files import ExportFiles

log = logging.getLogger(__name__)
T = TypeVar("T")


class Patience(NamedTuple):
    """How a hung daemon is noticed: asked every `every_s`, each time for `answer_s`, it is silent `times` in a row."""

    every_s: float = 5.0
    answer_s: float = 10.0
    times: int = 2

    @property
    def within_s(self) -> float:
        """After so many seconds of silence at most it is killed; its clients go on after a grace period."""
        return self.every_s + self.times * self.answer_s


class Ganesha:
    """All methods are safe for threads; each is done when it returns, or raised one of the driver errors.

    What it exports lies in `exported`.
    """

    def __init__(self, daemon: Daemon, exported: Path, patience: Patience = Patience()) -> None:  # noqa: B008 (frozen)
        self._daemon = daemon
        self._exported = exported
        self.patience = patience
        self._files = ExportFiles(daemon.directory)
        self._bus = Bus(daemon.socket)
        self._lock = threading.RLock()
        self._watcher: Watcher | None = None
        self._is_starting = False

    # Life

    def start(self) -> list[str]:
        """Serve what the files say, by the daemon that runs or by a new one; the names of all exports."""
        with self._lock:
            self._daemon.check()
            self._files.load()
            return self._files.names()

    def serve(self, renewed: Collection[str] = ()) -> None:
        """Be up, with exactly the exports of the files; what was at the paths of the `renewed` ones has changed."""
        with self._lock:
            self._reconcile(() if self._revive(logging.INFO) else renewed)
            self.watch()

    def watch(self) -> None:
        """Start it whenever it is not up, from now on."""
        with self._lock:
            if self._watcher is None:
                self._watcher = Watcher(self._pids, self._revive_if_idle, self._look, lambda: self.patience.every_s)
                self._watcher.start()

    def stop(self) -> None:
        """Let go; the daemon goes on serving."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.stop()
        with self._lock:
            self._bus.close()

    def shut_down(self) -> None:
        """Let go and end the daemon; the files stay."""
        self.stop()
        with self._lock:
            self._daemon.stop()

    def revive(self) -> None:
        """Start the daemon when it is not up. Raises `contract.Unreachable` when it does not come."""
        with self._lock:
            self._revive()

    def _revive_if_idle(self) -> None:
        """As `revive`, but a call that is under way is left to find out itself: it may hang, and must not hide that."""
        if self._lock.acquire(blocking=False):
            try:
                self._revive()
            finally:
                self._lock.release()

    def _revive(self, level: int = logging.WARNING) -> bool:
        """Whether the daemon had to be started."""
        if self._daemon.pid() is not None:
            return False
        log.log(level, "NFS-Ganesha of %s is not up as wanted and is started", self._daemon.directory)
        self._bus.close()
        self._is_starting = True
        try:
            self._daemon.start()
        finally:
            self._is_starting = False
        return True

    def _look(self) -> None:
        """See whether it still answers, without the lock that a call to a hung one may hold; end one that does not."""
        self._daemon.rotate_log()
        if self._is_starting:  # with many exports it is silent for long
            return
        for _ in range(self.patience.times):
            if self._daemon.answers_within(self.patience.answer_s):
                return
        # A call that was told of its death may have begun to start it by now.
        if not self._is_starting and (killed := self._daemon.kill_silent(self.patience.answer_s)):
            silent_s = self.patience.times * self.patience.answer_s
            log.error("%s of %s was silent for %g s and is killed", killed, self._daemon.directory, silent_s)

    def _pids(self) -> list[int]:
        return [pid for pid in (self._daemon.pid(), self._daemon.bus_pid()) if pid is not None]

    def _reconcile(self, renewed: Collection[str]) -> None:
        """Remove live exports of ours that no file has, add those that are missing."""
        live = self._alive(self._bus.paths)
        wanted = {block.export_id: block for block in self._files.blocks()}
        ours = f"{self._exported}/"
        for export_id, path in live.items():
            block = wanted.get(export_id)
            if path.startswith(ours) and (block is None or block.path != path or block.name in renewed):
                log.warning("export %s of %s is not as written and is removed", export_id, path)
                self._bus.remove(export_id)
        live = self._alive(self._bus.paths)
        for export_id, block in wanted.items():
            if export_id not in live and block.is_there:
                self._bring(block)

    def _bring(self, block: ExportBlock) -> None:
        """Make live what is written. A volume that cannot be mounted now keeps no other export from its clients."""
        try:
            self._publish(block)
        except contract.Refused as error:
            if block.volume is None:
                raise
            log.error("%s cannot be served: %s", block.name, error)

    # Exports

    def get(self, name: str) -> ExportBlock | None:
        """The export as it is written."""
        with self._lock:
            return self._files.get(name)

    def serving(self, pseudo: str) -> ExportBlock | None:
        """The export that clients mount by this path, as it is written."""
        with self._lock:
            return self._files.serving(pseudo)

    def names(self) -> list[str]:
        """All that is written."""
        with self._lock:
            return self._files.names()

    def blocks(self) -> list[ExportBlock]:
        """All that is written."""
        with self._lock:
            return self._files.blocks()

    def rewrite(self, name: str, change: Callable[[ExportBlock], ExportBlock]) -> None:
        """Have an export, if there is one, as `change` makes it from the next start of the daemon on."""
        with self._lock:
            held = self._files.get(name)
            if held is not None:
                self._files.put(change(held))

    def put(
        self,
        name: str,
        path: Path,
        pseudo: str,
        clients: Sequence[Client] | None,
        volume: GlusterVolume | None = None,
    ) -> ExportBlock:
        """Export `path` as `pseudo` to these clients, live; None keeps those it has. Raises `contract.Refused`."""
        with self._lock:
            held = self._files.get(name)
            other = self._files.serving(pseudo)
            if other is not None and other.name != name:
                raise contract.Refused(reason=f"{pseudo} is taken by {other.name}")
            block = ExportBlock(
                name=name,
                export_id=held.export_id if held else self._files.free_id(),
                path=str(path),
                pseudo=pseudo,
                clients=tuple(clients) if clients is not None else held.clients if held else (),
                volume=volume,
            )
            if held and held.path != block.path:
                self.suspend(name)
            if not self._files.is_written(block):
                self._files.put(block)
            try:
                self._publish(block)
            except contract.Refused:  # one that is silent may have it: what is written is how it is found again
                if held is None:
                    self.remove(name)
                raise
            return block

    def _publish(self, block: ExportBlock) -> None:
        """Make it live and look whether it is: a list that the daemon cannot read it drops without a word."""
        file = self._files.file_of(block)
        self._alive(lambda: self._bus.update(file, block.export_id))
        if not self._is_live(block):
            raise contract.Refused(reason=f"NFS-Ganesha shows other clients for {block.pseudo} than were set")

    def _is_live(self, block: ExportBlock) -> bool:
        shown = self._alive(lambda: self._bus.show(block.export_id))
        return shown is not None and shown.path == block.path and blocks.is_shown(block, shown.clients)

    def is_true(self, block: ExportBlock) -> bool:
        """Whether its file and the live export are both exactly this."""
        with self._lock:
            return self._files.get(block.name) == block and self._files.is_written(block) and self._is_live(block)

    def suspend(self, name: str) -> None:
        """Clients lose it until the next `put`, which makes it anew; it stays written. Absent is success."""
        with self._lock:
            block = self._files.get(name)
            if block is not None:
                self._alive(lambda: self._bus.remove(block.export_id))

    def remove(self, name: str) -> None:
        """Clients lose it at once. Absent is success."""
        with self._lock:
            block = self._files.get(name)
            if block is not None:
                self._alive(lambda: self._bus.remove(block.export_id))
                self._files.drop(block)

    def _alive(self, call: Callable[[], T]) -> T:
        """The call's answer; a daemon found dead is started again and asked once more."""
        try:
            return call()
        except Dead:
            self._revive()
        try:
            return call()
        except Dead as error:
            raise contract.Unreachable(reason=f"NFS-Ganesha died again: {error}") from error


class Watcher(threading.Thread):
    """Calls `revive` as soon as one of the processes ends, and again with growing delays while that fails.

    While they run it calls `look` after each pause.
    """

    def __init__(
        self,
        pids: Callable[[], list[int]],
        revive: Callable[[], None],
        look: Callable[[], None],
        pause_s: Callable[[], float],
    ) -> None:
        super().__init__(name="ganesha-watcher", daemon=True)
        self._pids = pids
        self._revive = revive
        self._look = look
        self._pause_s = pause_s
        self._stop_read, self._stop_write = os.pipe2(os.O_CLOEXEC)

    def stop(self) -> None:
        os.close(self._stop_write)
        self.join()
        os.close(self._stop_read)

    def run(self) -> None:
        delay_s = 0.0
        while not self._stopped_within(delay_s):
            try:
                self._revive()
                with _handles(self._pids()) as handles:
                    are_up = len(handles) == 2
                    if not _readable([self._stop_read, *handles], self._pause_s() if are_up else 0.2) and are_up:
                        self._look()
                delay_s = 0.0
            except Exception as error:  # whatever it is, nobody else would start it again
                delay_s = min(max(1.0, delay_s * 2), 30.0)
                is_known = isinstance(error, errors.BackendError)
                log.error("NFS-Ganesha does not come back: %s; next try in %g s", error, delay_s, exc_info=not is_known)
                with contextlib.suppress(Exception):
                    self._look()  # its bus may hang

    def _stopped_within(self, delay_s: float) -> bool:
        return _readable([self._stop_read], delay_s)


def _readable(handles: list[int], timeout_s: float) -> bool:
    """Whether one of them became readable (a process handle does when the process ends) or was closed."""
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


@contextlib.contextmanager
def _handles(pids: list[int]) -> Iterator[list[int]]:
    with contextlib.ExitStack() as stack:
        handles = []
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                handle = os.pidfd_open(pid)
                stack.callback(os.close, handle)
                handles.append(handle)
        yield handles
