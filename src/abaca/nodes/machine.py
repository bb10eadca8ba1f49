# SPDX-License-Identifier: Apache-2.0
"""Actions of machine.sh on a machine, and what the machine then says of itself as a value."""

from __future__ import annotations

import asyncio
import functools
import importlib.resources
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from abaca.nodes import contract, distributions, persistence
from abaca.nodes.contract import Holder
from abaca.nodes.shell import KILLED, Answer, Command, Limits, Shell

LOCK_PAUSE_S = 1.0
YOUNG = 0.25
"""The part of a command's time after which a shell is not given another action: that has to have time left."""
_BEGIN, _END = "abaca-answer", "abaca-end"


class Mounted(msgspec.Struct, frozen=True):
    """The topmost mount at a mount point, as the mount table has it."""

    source: str
    fstype: str
    options: tuple[str, ...]


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The state in which an action found or left a machine; of mount points it describes `mount_point` alone."""

    boot_id: str
    has_systemd: bool
    has_program: bool
    # Said where the program is missing: what the machine is, and whether busybox mounts there by itself.
    distribution: contract.Distribution
    is_plain: bool
    mounted: Mounted | None
    # Of the directory, when nothing is mounted there: the real path of what exists of it, the first that is missing.
    real: str
    exists: str
    missing: str
    directory: str
    # What a reboot brings: the unit and the fstab lines for this mount point, whoever wrote them.
    unit: str
    is_enabled: bool
    fstab: tuple[str, ...]
    fstab_mark: str
    # What went wrong, in the machine's words.
    problem: str = ""
    has_hung: bool = False
    is_kept: bool = True
    holders: tuple[Holder, ...] = ()
    # Whether the machine's certificate is there for this mount too, that, and the signing request that was asked for.
    is_certified: bool = False
    certificate: str = ""
    request: str = ""

    @property
    def marks(self) -> tuple[tuple[str, str], ...]:
        """Name and made directory of each mark that stands over what makes a mount come back here."""
        first = self.unit.partition("\n")[0]
        return tuple(found for line in (first, self.fstab_mark) if (found := persistence.read_mark(line)))


class Hand(Protocol):
    """Carries out actions on one machine: `Remote` on a real one, `paper.Machine` in rehearsals."""

    @property
    def host(self) -> str: ...

    async def act(self, action: str, values: Mapping[str, str]) -> State:
        """Do one action; the state in which it leaves the machine.

        Raises `TimedOut`, `MachineUnreachable`, `NodeError`.
        """

    async def install(self, command: Sequence[str]) -> Answer:
        """Run a package manager's command; its answer. Raises as `act` does."""


class Remote:
    """Carries out actions by machine.sh, in a shell on the machine."""

    def __init__(self, shell: Shell, limits: Limits) -> None:
        self.host = shell.host
        self._shell = shell
        self._limits = limits
        self._script = Script(shell, "machine.sh", limits)

    async def act(self, action: str, values: Mapping[str, str]) -> State:
        return read(await self._script.act({"action": action, **values}))

    async def install(self, command: Sequence[str]) -> Answer:
        """The same, repeated as long as somebody else is installing: not every package manager waits by itself."""
        deadline = time.monotonic() + self._limits.lock_s
        while True:
            answer = await self._shell.run(command, limit_s=self._limits.install_s, kill_after_s=30)
            if not distributions.locked(answer.code, answer.out, answer.err) or time.monotonic() > deadline:
                return answer
            await asyncio.sleep(LOCK_PAUSE_S)


class Script:
    """A script of ours that runs in a shell on a machine, and does one action after the other there."""

    def __init__(self, shell: Shell, name: str, limits: Limits) -> None:
        self._shell = shell
        self._name = name
        self._limits = limits
        self._command: Command | None = None

    async def act(self, values: Mapping[str, str]) -> list[str]:
        """The lines between the two marks that it says when it is given the values.

        Raises `TimedOut`, `MachineUnreachable`, `NotAllowed`, and `NodeError` when what answers is no shell of ours.
        """
        words = [f"{key}={line}" for key, value in values.items() for line in value.split("\n")]
        # Until its answer is here: one that nobody waits for any more must not be taken for the next.
        command, self._command = self._command, None
        if command is not None and command.age_s() < self._limits.command_s * YOUNG:
            command.send("\n".join([*words, "", ""]))
        else:
            command = await self._shell.start(["sh", "-s", "--", *words], limit_s=self._limits.command_s)
            command.send(_text(self._name))
        said = await command.said_until(_END)
        lines = said.splitlines()
        if _BEGIN in lines and lines[-1] == _END:
            self._command = command
            return lines[lines.index(_BEGIN) + 1 : -1]
        answer = await command.end()
        if answer.code == KILLED:
            reason = f"a command was killed after {self._limits.command_s:g} s"
            raise contract.TimedOut(host=self._shell.host, reason=reason)
        text = " ".join((answer.err or said).split())[-300:]
        raise contract.NodeError(host=self._shell.host, reason=f"its shell ended with {answer.code}: {text}")


@functools.cache
def _text(name: str) -> str:
    """The script with what all have in common, which comes last and begins."""
    files = importlib.resources.files("abaca.nodes")
    return "".join(files.joinpath(one).read_text() for one in (name, "conversation.sh"))


def read(lines: Iterable[str]) -> State:
    """The state that the lines of an answer tell."""
    values: dict[str, list[str]] = {}
    for line in lines:
        key, _, value = line.partition(" ")
        values.setdefault(key, []).append(value)

    def last(key: str) -> str:
        return values.get(key, [""])[-1]

    holders = [
        Holder(int(pid), what.strip()) for pid, _, what in (one.partition(" ") for one in values.get("holder", ()))
    ]
    below = [Holder(0, f"a mount at {persistence.read_from_table(point)}") for point in values.get("below", ())]
    return State(
        boot_id=last("boot_id"),
        distribution=distributions.read(values.get("os", ())),
        has_systemd=bool(last("systemd")),
        has_program=bool(last("program")),
        is_plain=bool(last("plain")),
        mounted=_mounted(last("mounted")),
        real=last("real"),
        exists=last("exists"),
        missing=last("missing"),
        directory=last("directory"),
        unit="\n".join(values.get("unit", ())),
        is_enabled=bool(last("enabled")),
        fstab=tuple(values.get("fstab", ())),
        fstab_mark=last("fstab_mark"),
        problem=" ".join(filter(None, values.get("problem", ()))).strip(),
        has_hung=bool(last("hung")),
        is_kept=not last("not_kept"),
        holders=(*holders, *below),
        is_certified=bool(last("certified")),
        certificate="".join(f"{line}\n" for line in values.get("certificate", ())),
        request="".join(f"{line}\n" for line in values.get("request", ())),
    )


def _mounted(rest: str) -> Mounted | None:
    """Of a line of mountinfo what follows the mount point: `rw,noatime shared:1 - nfs4 host:/path rw,vers=4.2`."""
    front, dash, back = rest.partition(" - ")
    if not dash:
        return None
    fstype, _, back = back.partition(" ")
    source, _, super_options = back.partition(" ")
    of_mount = front.split(" ", 1)[0].split(",")
    options = list(dict.fromkeys([*of_mount, *super_options.split(",")]))
    if "ro" in options:
        options = [one for one in options if one != "rw"]
    return Mounted(persistence.read_from_table(source), fstype, tuple(filter(None, options)))
