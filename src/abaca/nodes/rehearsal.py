# SPDX-License-Identifier: Apache-2.0
"""Machines that exist on paper only, to rehearse with: `[nodes] plugin = rehearsal`.

What is decided for real machines is decided for these by the same code; paper.py stands where a shell would. Beside
that it takes the time and fails the way that it is ordered to. Nothing is mounted anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from abaca.domain.attachments.servers import Login
from abaca.drivers.dummy.state_file import StateFile
from abaca.nodes import contract, paper, paper_guests, persistence, probing
from abaca.nodes.contract import Finding, Holder, Job, Mount, Mounter, Outcome, Seen
from abaca.nodes.machine import Mounted
from abaca.nodes.mounts import by_protocol, checked, way
from abaca.nodes.shell import Limits
from abaca.nodes.virtiofs import Way

T = TypeVar("T")
METHODS = ("mount", "request", "look", "unmount", "remount", "clear")
SSH_PORT = 22
_ERRORS: dict[str, type[contract.NodeError]] = {
    "Unreachable": contract.MachineUnreachable,
    "TimedOut": contract.TimedOut,
    "HostKeyMismatch": contract.HostKeyMismatch,
    "NotAllowed": contract.NotAllowed,
    "MountRefused": contract.MountRefused,
    "Unsupported": contract.Unsupported,
}


class Rehearsal:
    """See the module, and `contract.Machines` for what each call promises."""

    def __init__(
        self,
        path: Path,
        mounters: Sequence[Mounter] = (),
        *,
        delays: Mapping[str, float] | None = None,
        failures: Sequence[str] = (),
    ) -> None:
        """`delays` are seconds by method, `all` for the others; `failures` are `method:Error` or `method:Error:host`.

        Raises ValueError for an order that cannot be understood.
        """
        self._state_file = StateFile(path)
        self._mounters = by_protocol(mounters)
        self._delays = dict(delays or {})
        self._failures = [_order(text) for text in failures]
        self._limits = Limits()
        self._is_closed = False

    def mount(self, login: Login, mount: Mount) -> Seen:
        """Write the mount onto the machine's sheet."""
        return self._do("mount", login, mount, lambda way: way.mount())

    def request(self, login: Login, mount: Mount) -> str:
        """A signing request for a key that nobody has."""
        return self._do("request", login, mount, lambda way: way.request())

    def look(self, login: Login, mount: Mount) -> Seen | None:
        """The mount as the machine's sheet has it."""
        return self._do("look", login, mount, lambda way: way.look())

    def unmount(self, login: Login, mount: Mount, *, force: bool = False) -> None:
        """Take the mount off the machine's sheet; `hold` makes it be in use."""
        return self._do("unmount", login, mount, lambda way: way.force() if force else way.unmount())

    def clear(self, login: Login, mount: Mount) -> None:
        """The same by force, where the mark of the mount stands."""
        return self._do("clear", login, mount, lambda way: way.clear())

    def remount(self, login: Login, mount: Mount, old: Mount, *, force: bool = False) -> Seen:
        """Put the other source in its place, unless it is in use."""
        return self._do("remount", login, mount, lambda way: way.mount(force=force), old)

    def probe(self, login: Login, protocol: str = "NFS", address: str = "", port: int = 0) -> list[Finding]:
        """Every machine on paper that lets one in has all that it needs."""
        try:
            paper.Machine(self._state_file, login)
        except contract.NodeError as error:
            return [Finding("key", True, login.key), *probing.refused(login, error, has_entered=False)]
        program, port = self._mounters[protocol].program, port or self._mounters[protocol].port
        there = [Finding("sudo", True, "root"), Finding("client", True, program)]
        way = [Finding("route", True, "on paper"), Finding("port", True, f"{address} port {port}")] if address else []
        return [Finding("key", True, login.key), *probing.entered(login), *there, *way]

    def many(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Do all jobs side by side."""
        if not jobs:
            return []
        with ThreadPoolExecutor(min(32, len(jobs))) as pool:
            return list(pool.map(self._outcome, jobs))

    def close(self) -> None:
        """End what is under way; the state file stays."""
        self._is_closed = True
        self._state_file.close()

    def _outcome(self, job: Job) -> Outcome:
        try:
            if job.action == "unmount":
                self.unmount(job.login, job.mount, force=job.force)
                return Outcome(job=job)
            if job.action == "clear":
                self.clear(job.login, job.mount)
                return Outcome(job=job)
            if job.action == "remount":
                return Outcome(job=job, seen=self.remount(job.login, job.mount, job.old or job.mount, force=job.force))
            seen = self.mount(job.login, job.mount) if job.action == "mount" else self.look(job.login, job.mount)
            return Outcome(job=job, seen=seen)
        except contract.NodeError as error:
            return Outcome(job=job, error=error)

    def _do(
        self,
        method: str,
        login: Login,
        mount: Mount,
        work: Callable[[Way], Coroutine[Any, Any, T]],
        old: Mount | None = None,
    ) -> T:
        mounter = checked(self._mounters, login, mount)
        delay_s = self._delays.get(method, self._delays.get("all", 0.0))
        if delay_s > 0:
            time.sleep(delay_s)
        if self._is_closed:
            raise contract.Stopping(host=login.host)
        for ordered, error, host in self._failures:
            if ordered == method and host in ("", login.host):
                raise error(host=login.host, reason=f"{method} was ordered to fail")
        machine = paper.Machine(self._state_file, login)
        guest = paper_guests.Host(self._state_file, login, mount.name, mount.guest) if mount.guest else None
        return _finished(work(way(mount, old, mounter, self._limits, machine, guest)))

    # ---------------------------------------------------------------- orders

    def tables(self) -> dict[str, dict[str, str]]:
        """What is mounted or would be after a boot, by `host port mount_point`: the attachment's `name`, the `source`.

        What is only kept has no `source`, and what is nobody's no `name`.
        """
        with paper.opened(self._state_file) as records:
            sheets = {key: msgspec.convert(one, paper.Sheet) for key, one in records.all(paper.SHEET).items()}
        return {
            f"{key} {point}": _line(sheet, point)
            for key, sheet in sheets.items()
            for point in (*sheet.mounts, *(sheet.kept.keys() - sheet.mounts.keys()))
        }

    def handed(self) -> dict[str, list[str]]:
        """What stands on hypervisors for their guests' shares, by the attachment's name; see `paper_guests.parts`."""
        found: dict[str, list[str]] = {}
        with paper.opened(self._state_file) as records:
            for one in records.all(paper.SHEET).values():
                for name, parts in paper_guests.parts(msgspec.convert(one, paper.Sheet)).items():
                    found.setdefault(name, []).extend(parts)
        return found

    def certified(self) -> set[str]:
        """The names of the mounts for which machines keep a key, and a certificate if one was issued."""
        with paper.opened(self._state_file) as records:
            sheets = [msgspec.convert(one, paper.Sheet) for one in records.all(paper.SHEET).values()]
        return {name for sheet in sheets for name in sheet.certified}

    def switch_off(self, host: str, qmp_socket: str) -> None:
        """The QEMU of a guest ends, and with it the devices and their virtiofsd."""
        with self._sheet(host) as (sheet, _):
            paper_guests.end(sheet, sheet.guest(qmp_socket))

    def switch_on(self, host: str, qmp_socket: str) -> None:
        """A guest runs again."""
        with self._sheet(host) as (sheet, _):
            sheet.guest(qmp_socket).is_off = False

    def hold_on(self, host: str, qmp_socket: str, *, is_so: bool = True) -> None:
        """A guest does not let go of its devices, or does so again."""
        with self._sheet(host) as (sheet, _):
            sheet.guest(qmp_socket).holds_on = is_so

    def give_ports(self, host: str, qmp_socket: str, number: int) -> None:
        """A guest has so many root ports, for as many devices."""
        with self._sheet(host) as (sheet, _):
            sheet.guest(qmp_socket).ports = number

    def end_virtiofsd(self, host: str, name: str) -> None:
        """Somebody there has killed an attachment's virtiofsd."""
        with self._sheet(host) as (sheet, _):
            sheet.serving.discard(name)

    def tree(self, host: str) -> dict[str, str]:
        """What is at which path of a machine, beside what every machine has."""
        with self._sheet(host) as (sheet, _):
            return dict(sorted(sheet.tree.items()))

    def hold(self, host: str, mount_point: str, who: Holder | None) -> None:
        """Let a process keep files open there, or (None) close them."""
        with self._sheet(host) as (sheet, _):
            sheet.holders.pop(mount_point, None)
            if who is not None:
                sheet.holders[mount_point] = who

    def take_away(self, host: str) -> None:
        """The machine does not answer from now on."""
        with self._sheet(host) as (sheet, _):
            sheet.is_away = True

    def bring_back(self, host: str) -> None:
        """The machine answers again."""
        with self._sheet(host) as (sheet, _):
            sheet.is_away = False

    def show_key(self, host: str, host_key: str) -> None:
        """From now on the machine lets in only those who know it by this key; by any when it is empty."""
        with self._sheet(host) as (sheet, _):
            sheet.host_key = host_key

    def reboot(self, host: str) -> None:
        """Nobody holds anything any more, and what was kept is mounted."""
        with self._sheet(host) as (sheet, _):
            paper.boot(sheet)

    def forget(self, host: str, mount_point: str) -> None:
        """Somebody there has unmounted it by hand."""
        with self._sheet(host) as (sheet, _):
            sheet.unmount(mount_point)

    def unkeep(self, host: str, mount_point: str) -> None:
        """Somebody there has taken it out of the fstab."""
        with self._sheet(host) as (sheet, _):
            sheet.kept.pop(mount_point, None)

    def occupy(self, host: str, mount_point: str, source: str) -> None:
        """Somebody there has mounted something of their own."""
        with self._sheet(host) as (sheet, _):
            sheet.make(mount_point)
            sheet.mounts.setdefault(mount_point, []).append(Mounted(source, "tmpfs", ("rw",)))

    def put(self, host: str, path: str, kind: str) -> None:
        """A `directory`, a `file`, a `link /to/somewhere`, or nothing (the empty kind) is at the path from now on."""
        with self._sheet(host) as (sheet, _):
            sheet.tree.pop(path, None)
            if kind:
                sheet.make(path.rpartition("/")[0] or "/")
                sheet.tree[path] = kind

    def uninstall(self, host: str) -> None:
        """The machine has no client of any protocol until Abaca installs one."""
        with self._sheet(host) as (sheet, _):
            sheet.has_client = False

    def scrap(self, host: str) -> None:
        """The machine is gone with all that it had; who asks next finds a new one."""
        with paper.opened(self._state_file) as records:
            records.drop(paper.SHEET, paper.key(host, SSH_PORT))

    def disable(self, source: str, reason: str, *, hangs: bool = False) -> None:
        """The server of `source` refuses every mount with a reason, or answers nothing; an empty reason ends that."""
        with paper.opened(self._state_file) as records:
            records.drop(paper.SERVER, source)
            if reason:
                records.put(paper.SERVER, source, {"reason": reason, "hangs": hangs})

    def _sheet(self, host: str) -> Any:
        return paper.changing(self._state_file, paper.key(host, SSH_PORT))


def _finished(work: Coroutine[Any, Any, T]) -> T:
    """What comes of work that waits for nothing: on paper all answers are there at once."""
    try:
        work.send(None)
    except StopIteration as end:
        found: T = end.value
        return found
    finally:
        work.close()
    raise RuntimeError("something in a rehearsal waits for an event loop")


def _order(text: str) -> tuple[str, type[contract.NodeError], str]:
    method, _, rest = text.partition(":")
    name, _, host = rest.partition(":")
    if method not in METHODS or name not in _ERRORS:
        raise ValueError(f"'{text}' is not method:Error or method:Error:host; errors are {', '.join(_ERRORS)}")
    return method, _ERRORS[name], host


def _line(sheet: paper.Sheet, point: str) -> dict[str, str]:
    kept, mounted = sheet.kept.get(point, [""]), sheet.mounted(point)
    mark = persistence.read_mark(kept[0])
    return {"name": mark[0] if mark else "", "source": mounted.source if mounted else "", "mount_point": point}
