# SPDX-License-Identifier: Apache-2.0
"""Machines that exist on paper only, to rehearse with: `[nodes] plugin = rehearsal`.

It keeps the mount tables of all machines in one file that any number of workers share, keeps every promise of
contract.py, and takes the time and fails the way that it is ordered to. Nothing is mounted anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from abaca.drivers.rehearsal.ledger import Ledger
from abaca.nodes import contract, virtiofs
from abaca.nodes.contract import Entry, Holder, Job, Mount, Outcome, Seen

T = TypeVar("T")
METHODS = ("mount", "look", "unmount", "remount")
_ERRORS: dict[str, type[contract.NodeError]] = {
    error.__name__: error
    for error in (
        contract.Unreachable,
        contract.TimedOut,
        contract.HostKeyMismatch,
        contract.NotAllowed,
        contract.MountRefused,
        contract.Unsupported,
    )
}
_MOUNT, _BUSY, _AWAY = "mount", "busy", "away"


class Rehearsal:
    """See the module, and `contract.Machines` for what each call promises."""

    def __init__(self, path: Path, *, delays: Mapping[str, float] | None = None, failures: Sequence[str] = ()) -> None:
        """`delays` are seconds by method, `all` for the others; `failures` are `method:Error` or `method:Error:host`.

        Raises ValueError for an order that cannot be understood.
        """
        self._ledger = Ledger(path)
        self._delays = dict(delays or {})
        self._failures = [_order(text) for text in failures]

    def mount(self, entry: Entry, mount: Mount) -> Seen:
        """Written into the machine's table."""
        place = _place(mount)
        return self._do("mount", entry, lambda books: _mounted(books, entry, place))

    def look(self, entry: Entry, mount: Mount) -> Seen | None:
        """What the table says."""

        def looked(books: Any) -> Seen | None:
            line = books.get(_MOUNT, _key(entry, _place(mount).mount_point))
            return _seen(line) if line and line["source"] == mount.source and line["is_mounted"] else None

        return self._do("look", entry, looked)

    def unmount(self, entry: Entry, mount: Mount, *, force: bool = False) -> None:
        """Out of the table; `hold` makes it be in use."""

        def unmounted(books: Any) -> None:
            key = _key(entry, _place(mount).mount_point)
            line = books.get(_MOUNT, key)
            if line is None or line["name"] != mount.name:
                return
            _refuse_busy(books, entry, key, force=force)
            books.drop(_MOUNT, key)

        self._do("unmount", entry, unmounted)

    def clear(self, entry: Entry, mount: Mount) -> None:
        """As by force: the table says whose a line is."""
        self.unmount(entry, mount, force=True)

    def remount(self, entry: Entry, mount: Mount, old: Mount) -> Seen:
        """The other source in the same line, unless it is in use."""

        def remounted(books: Any) -> Seen:
            key = _key(entry, _place(mount).mount_point)
            line = books.get(_MOUNT, key)
            if line is not None and line["source"] == old.source:
                _refuse_busy(books, entry, key, force=False)
                books.put(_MOUNT, key, {**line, "source": mount.source})
            return _mounted(books, entry, _place(mount))

        return self._do("remount", entry, remounted)

    def many(self, jobs: Sequence[Job]) -> list[Outcome]:
        """All side by side."""
        if not jobs:
            return []
        with ThreadPoolExecutor(min(32, len(jobs))) as pool:
            return list(pool.map(self._outcome, jobs))

    def close(self) -> None:
        """The file stays."""
        self._ledger.close()

    def _outcome(self, job: Job) -> Outcome:
        try:
            if job.action in ("unmount", "clear"):
                self.unmount(job.entry, job.mount, force=job.force or job.action == "clear")
                return Outcome(job=job)
            if job.action == "remount":
                return Outcome(job=job, seen=self.remount(job.entry, job.mount, job.old or job.mount))
            seen = self.mount(job.entry, job.mount) if job.action == "mount" else self.look(job.entry, job.mount)
            return Outcome(job=job, seen=seen)
        except contract.NodeError as error:
            return Outcome(job=job, error=error)

    # ---------------------------------------------------------------- orders

    def tables(self) -> dict[str, dict[str, Any]]:
        """What is mounted: by `host port mount_point`."""
        with self._open() as books:
            return dict(books.all(_MOUNT))

    def hold(self, host: str, mount_point: str, who: Holder | None) -> None:
        """Let a process keep files open there, or (None) close them."""
        with self._open() as books:
            key = f"{host} {mount_point}"
            if who is None:
                books.drop(_BUSY, key)
            else:
                books.put(_BUSY, key, {"pid": who.pid, "command": who.command})

    def take_away(self, host: str) -> None:
        """The machine does not answer from now on."""
        with self._open() as books:
            books.put(_AWAY, host, {})

    def bring_back(self, host: str) -> None:
        """The machine answers again."""
        with self._open() as books:
            books.drop(_AWAY, host)

    def forget(self, host: str, mount_point: str) -> None:
        """Somebody there has unmounted it by hand."""
        with self._open() as books:
            for key, line in books.all(_MOUNT).items():
                if key.split(" ")[0] == host and line["mount_point"] == mount_point:
                    books.drop(_MOUNT, key)

    # ---------------------------------------------------------------- how it is done

    def _open(self) -> Any:
        self._ledger.open()
        return self._ledger.change()

    def _do(self, method: str, entry: Entry, work: Callable[[Any], T]) -> T:
        delay_s = self._delays.get(method, self._delays.get("all", 0.0))
        if delay_s > 0:
            time.sleep(delay_s)
        for ordered, error, host in self._failures:
            if ordered == method and host in ("", entry.host):
                raise error(host=entry.host, reason=f"{method} was ordered to fail")
        with self._open() as books:
            if books.get(_AWAY, entry.host) is not None:
                raise contract.Unreachable(host=entry.host, reason="it was taken away on purpose")
            return work(books)


def _order(text: str) -> tuple[str, type[contract.NodeError], str]:
    method, _, rest = text.partition(":")
    name, _, host = rest.partition(":")
    if method not in METHODS or name not in _ERRORS:
        raise ValueError(f"'{text}' is not method:Error or method:Error:host; errors are {', '.join(_ERRORS)}")
    return method, _ERRORS[name], host


def _place(mount: Mount) -> Mount:
    """Where the machine itself mounts it: a hypervisor has one place for each attachment."""
    return mount if mount.guest is None else virtiofs.on_host(mount)


def _key(entry: Entry, mount_point: str) -> str:
    return f"{entry.host} {entry.port} {mount_point}"


def _mounted(books: Any, entry: Entry, mount: Mount) -> Seen:
    key = _key(entry, mount.mount_point)
    line = books.get(_MOUNT, key)
    if line is not None and (line["name"] != mount.name or line["source"] != mount.source):
        raise contract.MountRefused(host=entry.host, reason=f"{line['source']} is mounted at {mount.mount_point}")
    line = {
        "name": mount.name,
        "source": mount.source,
        "mount_point": mount.mount_point,
        "is_read_only": mount.is_read_only,
        "is_mounted": True,
    }
    books.put(_MOUNT, key, line)
    return _seen(line)


def _seen(line: Mapping[str, Any]) -> Seen:
    return Seen(
        source=line["source"],
        mount_point=line["mount_point"],
        fstype="nfs4",
        options=("ro" if line["is_read_only"] else "rw",),
        is_read_only=line["is_read_only"],
        made_directory=True,
        is_persistent=True,
        boot_id="rehearsal",
    )


def _refuse_busy(books: Any, entry: Entry, key: str, *, force: bool) -> None:
    where = f"{entry.host} {key.rsplit(' ', 1)[1]}"
    holder = books.get(_BUSY, where)
    if holder is not None and not force:
        raise contract.InUse(host=entry.host, holders=(Holder(holder["pid"], holder["command"]),))
