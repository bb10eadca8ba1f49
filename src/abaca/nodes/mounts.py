# SPDX-License-Identifier: Apache-2.0
"""Mounting, looking, unmounting and remounting on machines, many at once.

`Nodes` is the blocking door: one event loop in a thread of its own, at most `max_connections` machines at a time. What
is done on one machine is decided here, from what it says of itself; machine.sh there does it and decides nothing.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from abaca.domain.attachments.servers import Login
from abaca.nodes import contract, distributions, guests, persistence, probing, shell, virtiofs
from abaca.nodes.contract import Finding, InUse, Job, Mount, Mounter, MountRefused, Outcome, Seen, TimedOut, Unsupported
from abaca.nodes.judging import Judge
from abaca.nodes.machine import Hand, Remote, State
from abaca.nodes.nfs import Nfs
from abaca.nodes.shell import Limits
from abaca.nodes.virtiofs import Way

MAX_STACKED = 4
"""How many mounts of one share on top of each other are taken off."""

T = TypeVar("T")
_COMMON_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Nodes:
    """Machines by SSH; see `contract.Machines` for what each call promises and raises."""

    def __init__(
        self, mounters: Sequence[Mounter] = (), *, limits: Limits | None = None, max_connections: int = 48
    ) -> None:
        """Without `mounters` NFS is served. Constructing starts nothing; the first call does."""
        self._mounters = by_protocol(mounters)
        self._limits = limits or Limits()
        self._max_connections = max_connections
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._free = asyncio.Semaphore(max_connections)
        # Rounds of many machines, some of them away perhaps, leave room for those that somebody waits for.
        self._free_in_rounds = asyncio.Semaphore(max(1, max_connections // 2))
        self._is_closed = False

    def mount(self, login: Login, mount: Mount) -> Seen:
        return self._wait(self._on(login, mount, None, _mount))

    def request(self, login: Login, mount: Mount) -> str:
        return self._wait(self._on(login, mount, None, _request))

    def look(self, login: Login, mount: Mount) -> Seen | None:
        return self._wait(self._on(login, mount, None, _look))

    def unmount(self, login: Login, mount: Mount, *, force: bool = False) -> None:
        return self._wait(self._on(login, mount, None, _force if force else _unmount))

    def clear(self, login: Login, mount: Mount) -> None:
        return self._wait(self._on(login, mount, None, _clear))

    def remount(self, login: Login, mount: Mount, old: Mount, *, force: bool = False) -> Seen:
        return self._wait(self._on(login, mount, old, _mount_by_force if force else _mount))

    def probe(self, login: Login, protocol: str = "NFS", address: str = "", port: int = 0) -> list[Finding]:
        mounter = self._mounters[protocol]
        return self._wait(probing.probe(login, self._limits, mounter.program, address, port or mounter.port))

    def many(self, jobs: Sequence[Job]) -> list[Outcome]:
        async def together() -> list[Outcome]:
            return list(await asyncio.gather(*(self._outcome(job) for job in jobs)))

        return self._wait(together())

    def close(self) -> None:
        with self._starting:
            self._is_closed = True
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(10.0)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10.0)
            loop.close()

    async def _outcome(self, job: Job) -> Outcome:
        try:
            async with self._free_in_rounds:
                return Outcome(job=job, seen=await self._on(job.login, job.mount, job.old, _work_of(job)))
        except contract.NodeError as error:
            return Outcome(job=job, error=error)

    async def _on(self, login: Login, mount: Mount, old: Mount | None, work: Callable[[Way], Awaitable[T]]) -> T:
        mounter = checked(self._mounters, login, mount)
        async with self._free, shell.connected(login, self._limits) as connection:
            hand = Remote(connection, self._limits)
            to = guests.Remote(connection, mount.name, mount.guest, self._limits) if mount.guest else None
            return await work(way(mount, old, mounter, self._limits, hand, to))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            loop = self._running_loop()
        except BaseException:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(_named(work), loop).result()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._is_closed:
                raise contract.Stopping(host="")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="nodes", daemon=True)
                self._thread.start()
            return self._loop


def by_protocol(mounters: Sequence[Mounter]) -> dict[str, Mounter]:
    """The mounters by the protocols that they serve; without any, the one of NFS."""
    return {name: one for one in mounters or (Nfs(),) for name in one.protocols}


def checked(mounters: Mapping[str, Mounter], login: Login, mount: Mount) -> Mounter:
    """The mounter of the mount's protocol; nothing in the mount is text that a shell or a file would misread.

    Raises `Unsupported`, `MountRefused`.
    """
    mounter = mounters.get(mount.protocol)
    if mounter is None:
        raise Unsupported(host=login.host, reason=f"no mounter serves the protocol {mount.protocol}")
    problem = persistence.path_problem(mount.mount_point)
    reason = f"{mount.mount_point!r} is no mount point: {problem}" if problem else None
    reason = reason or persistence.name_problem(mount.name) or mounter.check(mount.source)
    reason = reason or mounter.place_problem(mount.mount_point) or _identity_problem(mount)
    reason = reason or (virtiofs.problem(mount.guest) if mount.guest else None)
    if reason:
        raise MountRefused(host=login.host, reason=reason)
    return mounter


def _identity_problem(mount: Mount) -> str | None:
    """Why a certificate's subject cannot be what the machine is known as; None when it can."""
    name = mount.identity.name if mount.identity else "-"
    return None if _COMMON_NAME.fullmatch(name) else f"{name!r} is no name for a certificate"


def way(
    wanted: Mount, old: Mount | None, mounter: Mounter, limits: Limits, hand: Hand, guest: guests.Hand | None
) -> Way:
    """The way by which a mount is made on its machine, or handed to the guest that it is for."""
    if guest is None:
        return Visit(hand, wanted, mounter, limits, old)
    before = virtiofs.on_host(old) if old else None
    host = Visit(hand, virtiofs.on_host(wanted), mounter, limits, before)
    former = Visit(hand, before, mounter, limits, None) if before else None
    return virtiofs.Hypervisor(guest, wanted, host, former, limits)


async def _mount(way: Way) -> Seen:
    return await way.mount()


async def _mount_by_force(way: Way) -> Seen:
    return await way.mount(force=True)


async def _request(way: Way) -> str:
    return await way.request()


async def _look(way: Way) -> Seen | None:
    return await way.look()


async def _unmount(way: Way) -> None:
    await way.unmount()


async def _force(way: Way) -> None:
    await way.force()


async def _clear(way: Way) -> None:
    await way.clear()


def _work_of(job: Job) -> Callable[[Way], Coroutine[Any, Any, Seen | None]]:
    """What a job does on its way to the machine."""
    if job.action == "unmount":
        return _force if job.force else _unmount
    if job.action == "clear":
        return _clear
    if job.action == "look":
        return _look
    return _mount_by_force if job.action == "remount" and job.force else _mount


async def _named(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    except asyncio.CancelledError:
        raise contract.Stopping(host="") from None


async def _cancel_all() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class Visit(Judge, frozen=True):
    """One mount on one machine, for as long as the connection is open."""

    async def look(self) -> Seen | None:
        state = await self._act("look")
        if not self._is_wanted(state.mounted):
            return None
        seen = self._seen(state)
        text, _ = self._kept_text(state)
        return msgspec.structs.replace(seen, is_outdated=seen.is_persistent and not self._is_kept(state, text))

    async def request(self) -> str:
        """The signing request of the machine's key; see `contract.Machines`."""
        state = self._adopted(await self._act("look"))
        self._refuse_strangers(state)
        if not state.has_program:
            await self._install(state)
        state = await self._act("request", former=self.wanted.former)
        if not state.request:
            reason = f"it cannot be given a certificate: {state.problem or 'no signing request came'}"
            raise MountRefused(host=self.hand.host, reason=reason)
        return state.request

    async def mount(self, *, force: bool = False) -> Seen:
        if self._is_certified and not (self.wanted.identity and self.wanted.identity.certificate):
            raise MountRefused(host=self.hand.host, reason=f"no certificate was issued for {self.wanted.name}")
        found = await self._act("look")
        state = self._adopted(found)
        is_heir = state is not found
        self._refuse_strangers(state)
        if not state.has_program and not self._plain(state):
            state = self._adopted(await self._install(state))
        text, keeper = self._kept_text(state)
        is_there = self._is_wanted(state.mounted)
        # A certificate that came is put there in any case: it may have been issued anew.
        if not is_there or is_heir or not self._is_kept(state, text) or self._is_certified:
            values = self._mount_values(state, text, keeper) | {"force": "yes" if force else ""}
            state = await self._act("mount", **values)
        if not state.is_kept:
            reason = f"what brings it back after a reboot cannot be written: {state.problem}"
            raise MountRefused(host=self.hand.host, reason=reason)
        if not self._is_wanted(state.mounted):
            raise self._failure(state)
        return self._seen(state)

    async def unmount(self) -> None:
        await self._unmount(force=False)

    async def force(self) -> None:
        await self._unmount(force=True)

    async def clear(self) -> None:
        state = await self._act("look")
        if self._is_marked(state) or state.is_certified:
            await self._unmount(force=True)

    async def _unmount(self, *, force: bool) -> None:
        state = await self._act("look", waits="yes")
        if state.has_hung:
            raise self._failure(state)
        for _ in range(MAX_STACKED):
            ours = self._is_ours(state)
            if not ours and not self._is_marked(state) and not state.is_certified:
                return
            values = {
                "ours": "yes" if ours else "",
                "force": "yes" if force else "",
                "own_unit": "yes" if self._owns(state.unit.partition("\n")[0]) else "",
                "own_fstab": "yes" if self._owns(state.fstab_mark) else "",
                "made": self._made(state),
            }
            state = await self._act("unmount", **values)
            if state.has_hung or (self._is_ours(state) and (state.holders or state.problem)):
                raise self._failure(state)
        if self._is_ours(state):
            raise InUse(host=self.hand.host, holders=state.holders)
        reason = "it is unmounted, and what would bring it back after a reboot cannot be removed"
        raise MountRefused(host=self.hand.host, reason=reason)

    async def _install(self, state: State) -> State:
        """The machine with the protocol's program.

        Raises `Unsupported` with the command to run by hand, and `TimedOut` while another installation goes on.
        """
        packages = self.mounter.packages(state.distribution)
        installer = distributions.installer(state.distribution, packages, self.limits.lock_s)
        need = f"it has no {self.mounter.program.replace(' ', ' or no ')}"
        if installer is None:
            name = state.distribution.name or state.distribution.id
            reason = f"{need}, and Abaca does not know how to install packages on {name}: install its client by hand"
            raise Unsupported(host=self.hand.host, reason=reason)
        commands, failures = [*installer.commands], list[str]()
        while commands:
            answer = await self.hand.install(commands.pop(0))
            state = await self._act("look")
            if state.has_program:
                return state
            said = " ".join((answer.err or answer.out).split())[-300:]
            locked = distributions.locked(answer.code, answer.out, answer.err)
            if locked or answer.code in distributions.TIMED_OUT:
                reason = f"{need}, and installing one takes too long: {locked or said}"
                raise TimedOut(host=self.hand.host, reason=reason)
            if answer.code == distributions.ABSENT and not failures:
                commands = [*installer.instead]
            if answer.code and said not in failures:
                failures.append(said)
        hand = f"{need}, and installing it failed; run there as root: {installer.by_hand}"
        raise Unsupported(host=self.hand.host, reason=f"{hand} ({'; '.join(failures)})")

    async def _act(self, action: str, **more: str) -> State:
        values = {
            "name": self.wanted.name,
            "mount_point": self.wanted.mount_point,
            "place": persistence.escaped_for_table(self.wanted.mount_point),
            "program": self.mounter.program,
            "unit": persistence.unit_name(self.wanted.mount_point),
            "mount_s": f"{max(5, self.limits.command_s / 2):g}",
            # Whatever it is known as: with the last mount that needs it the certificate goes.
            "identity": (self.wanted.identity.name if self.wanted.identity else "-") if self._is_certified else "",
        }
        return await self.hand.act(action, values | more)

    @property
    def _is_certified(self) -> bool:
        return self.mounter.is_certified

    def _mount_values(self, state: State, text: str, keeper: str) -> dict[str, str]:
        is_there = self._is_wanted(state.mounted)
        return {
            "source": self.wanted.source,
            "fstype": self.mounter.mount_type or self.mounter.fstype,
            "options": ",".join(self._plain(state) or self.mounter.options(self.wanted)),
            "keeper": keeper,
            "text": text,
            "made": self._to_make(state),
            "fresh": "" if state.mounted or self._is_marked(state) else "yes",
            "ours": "yes" if is_there else "",
            "replace": "yes" if state.mounted and not is_there else "",
            "former": self.wanted.former,
            **self._certificate_values(),
        }

    def _certificate_values(self) -> dict[str, str]:
        identity = self.wanted.identity
        if identity is None or not self._is_certified:
            return {}
        return {"pem": identity.certificate.strip(), "ca": identity.authority.strip()}

    def _kept_text(self, state: State) -> tuple[str, str]:
        """What makes it come back after a reboot, and whether that is a unit or lines of the fstab."""
        options = self._plain(state) or self.mounter.options(self.wanted)
        made = self._to_make(state)
        fstype = self.mounter.mount_type or self.mounter.fstype
        unit = persistence.unit_name(self.wanted.mount_point)
        if state.has_systemd and len(unit.encode()) <= persistence.UNIT_NAME_BYTES and not self._owns(state.fstab_mark):
            return persistence.unit_text(self.wanted, made, fstype, options), "unit"
        return persistence.fstab_lines(self.wanted, made, fstype, options), "fstab"

    def _is_kept(self, state: State, text: str) -> bool:
        in_fstab = "\n".join((state.fstab_mark, *state.fstab[-1:]))
        return text == in_fstab or (text == state.unit and state.is_enabled)

    def _plain(self, state: State) -> tuple[str, ...] | None:
        return self.mounter.plain_options(self.wanted) if state.is_plain and not state.has_program else None
