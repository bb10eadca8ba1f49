# SPDX-License-Identifier: Apache-2.0
"""What machine.sh does on a machine, done to one on paper: a sheet in a state file that any number of workers share.

As there, nothing is decided here: `mounts.Visit` decides for real machines and for these.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from abaca.domain.attachments.servers import Login
from abaca.drivers import contract as drivers
from abaca.drivers.dummy.state_file import Records, StateFile
from abaca.nodes import contract, distributions, persistence, signing_requests
from abaca.nodes.contract import Holder
from abaca.nodes.machine import Mounted, State
from abaca.nodes.shell import Answer

SHEET, SERVER = "machine", "server"
_TOP = frozenset({"/", "/home", "/media", "/mnt", "/opt", "/run", "/srv", "/var"})

_BY_FUSE = {"glusterfs"}
_NOT_SHOWN = {"nofail", "_netdev"}  # words for whoever mounts at boot


class PaperGuest(msgspec.Struct):
    """A guest of a machine; what its QEMU has goes by name, devices with their tags."""

    is_off: bool = False
    holds_on: bool = False
    ports: int = 32
    devices: dict[str, str] = msgspec.field(default_factory=dict)
    chardevs: set[str] = msgspec.field(default_factory=set)


class Sheet(msgspec.Struct):
    """All that is known of one machine. `mounts` has for each mount point what is mounted there, the topmost last."""

    boot_id: str = msgspec.field(default_factory=lambda: str(uuid.uuid4()))
    host_key: str = ""
    is_away: bool = False
    has_client: bool = True
    # What is at a path beside the directories that every machine has: `directory`, `file`, or `link` to somewhere.
    tree: dict[str, str] = msgspec.field(default_factory=dict)
    mounts: dict[str, list[Mounted]] = msgspec.field(default_factory=dict)
    # The fstab's lines for a mount point, with the mark above them if there is one.
    kept: dict[str, list[str]] = msgspec.field(default_factory=dict)
    holders: dict[str, Holder] = msgspec.field(default_factory=dict)
    # As what storages know the machine, the mounts that need that, its signing request, and what was issued for it.
    identity: str = ""
    certified: set[str] = msgspec.field(default_factory=set)
    request: str = ""
    certificates: list[str] = msgspec.field(default_factory=list)
    # Of a hypervisor: the attachments whose virtiofsd runs, and its guests by their QMP sockets.
    serving: set[str] = msgspec.field(default_factory=set)
    guests: dict[str, PaperGuest] = msgspec.field(default_factory=dict)

    def guest(self, qmp_socket: str) -> PaperGuest:
        return self.guests.setdefault(qmp_socket, PaperGuest())

    def mounted(self, point: str) -> Mounted | None:
        pile = self.mounts.get(point)
        return pile[-1] if pile else None

    def kind(self, path: str) -> str:
        """The kind of what is at a path; empty where nothing is."""
        return "directory" if path in _TOP or path in self.mounts else self.tree.get(path, "")

    def is_filled(self, path: str) -> bool:
        """Whether a directory holds something."""
        return any(one.startswith(f"{path}/") for one in (*self.tree, *self.mounts))

    def make(self, path: str) -> None:
        """Make the directory, and those above it."""
        while not self.kind(path):
            self.tree[path] = "directory"
            path = _above(path)

    def remove(self, path: str, made: str) -> None:
        """Remove the directories from `path` up to `made`, as long as they are empty."""
        if not f"{path}/".startswith(f"{made}/"):
            return
        while not (path in self.mounts or self.is_filled(path) or self.kind(path) not in {"directory", ""}):
            self.tree.pop(path, None)
            if path == made:
                break
            path = _above(path)

    def unmount(self, point: str) -> None:
        """Take away the topmost mount there, if there is one."""
        pile = self.mounts.get(point, [])
        if pile:
            pile.pop()
        if not pile:
            self.mounts.pop(point, None)

    def missing(self, path: str) -> str:
        """The topmost directory that would have to be made; empty where none is missing."""
        found = ""
        while not self.kind(path):
            found, path = path, _above(path)
        return found


class Machine:
    """A `machine.Hand` on the machine that `login` leads to.

    Raises what a login raises: `MachineUnreachable`, `HostKeyMismatch`.
    """

    def __init__(self, state_file: StateFile, login: Login) -> None:
        self.host = login.host
        self._state_file = state_file
        self._key = key(login.host, login.port)
        with changing(state_file, self._key) as (sheet, _):
            if sheet.is_away:
                raise contract.MachineUnreachable(host=self.host, reason="it was taken away on purpose")
            if sheet.host_key and sheet.host_key.split()[:2] != login.host_key.split()[:2]:
                reason = "it shows another host key; if the machine was made anew, register its new key"
                raise contract.HostKeyMismatch(host=self.host, reason=reason)

    async def act(self, action: str, values: Mapping[str, str]) -> State:
        with changing(self._state_file, self._key) as (sheet, records):
            said: dict[str, Any] = {}
            if action == "request":
                said.update(_request(sheet, values))
            elif action == "mount":
                said = _mount(sheet, values, records.get(SERVER, values["source"]) or {})
            elif action == "unmount":
                said = _unmount(sheet, values)
            return _state(sheet, values, said)

    async def install(self, command: Sequence[str]) -> Answer:
        """Every client is in some repository here."""
        with changing(self._state_file, self._key) as (sheet, _):
            sheet.has_client = True
        return Answer(0, "", "")


def key(host: str, port: int) -> str:
    """What a machine's sheet is kept under."""
    return f"{host} {port}"


@contextlib.contextmanager
def changing(state_file: StateFile, key: str) -> Iterator[tuple[Sheet, Records]]:
    """A machine's sheet and the records that it is in; written back unless an exception comes.

    Raises `MachineUnreachable`.
    """
    with opened(state_file, key.split(" ", maxsplit=1)[0]) as records:
        found = records.get(SHEET, key)
        sheet = msgspec.convert(found, Sheet) if found else Sheet()
        yield sheet, records
        after = msgspec.to_builtins(sheet)
        if after != found:
            records.put(SHEET, key, after)


@contextlib.contextmanager
def opened(state_file: StateFile, host: str = "") -> Iterator[Records]:
    """The records of all machines. Raises `MachineUnreachable` for the machine that they were opened for."""
    try:
        state_file.open()
        with state_file.change() as records:
            yield records
    except drivers.Unreachable as error:
        raise contract.MachineUnreachable(host=host, reason=str(error)) from error


def boot(sheet: Sheet) -> None:
    """The machine starts anew: what is kept is mounted, and nothing else."""
    sheet.boot_id = str(uuid.uuid4())
    for point in list(sheet.mounts):
        while point in sheet.mounts:
            sheet.unmount(point)
    sheet.holders.clear()
    sheet.serving.clear()
    for guest in sheet.guests.values():
        guest.devices.clear()
        guest.chardevs.clear()
    for lines in sheet.kept.values():
        source, point, fstype, options, *_ = map(persistence.read_from_table, lines[-1].split())
        sheet.make(point)
        shown = tuple(one for one in options.split(",") if one not in _NOT_SHOWN)
        sheet.mounts[point] = [Mounted(source, _shown(fstype), shown)]


def _shown(fstype: str) -> str:
    """What the mount table says of what `mount -t` was given."""
    return f"fuse.{fstype}" if fstype in _BY_FUSE else fstype


def _request(sheet: Sheet, values: Mapping[str, str]) -> dict[str, str]:
    for place in ("/etc/ssl/glusterfs.key", "/etc/ssl/glusterfs.pem", "/etc/ssl/glusterfs.ca"):
        if sheet.kind(place):
            return {"problem": f"{place} is there already, and not Abaca's: move it away"}
    others = sheet.certified - {values["name"], values["former"]}
    if others and sheet.identity != values["identity"]:
        return {"problem": f"this machine is known as {sheet.identity} already, so it has two entries"}
    if not sheet.request:
        sheet.request = signing_requests.fresh()
    sheet.identity = values["identity"]
    sheet.certified.add(values["name"])
    return {"request": sheet.request}


def _drop_certificate(sheet: Sheet, name: str) -> None:
    sheet.certified.discard(name)
    if not sheet.certified:
        sheet.identity, sheet.request, sheet.certificates = "", "", []


def _put_certificate(sheet: Sheet, values: Mapping[str, str]) -> str:
    """What is in the way of it; empty for nothing."""
    if not sheet.request:
        return "its key is gone, and is made anew"
    is_known = sheet.certificates and sheet.certificates[1] != values["ca"]
    if is_known and sheet.certified - {values["name"], values["former"]}:
        return "it has mounts of another certificate authority: a machine can have one for all its volumes"
    sheet.certified.discard(values["former"])
    sheet.certified.add(values["name"])
    sheet.certificates = [values["pem"], values["ca"]]
    return ""


def _mount(sheet: Sheet, values: Mapping[str, str], server: Mapping[str, Any]) -> dict[str, Any]:
    point, said = values["mount_point"], dict[str, Any]()
    if values["identity"] and (problem := _put_certificate(sheet, values)):
        return {"problem": problem}
    sheet.kept[point] = values["text"].splitlines()
    if values["replace"] and (busy := _release(sheet, point, is_forced=bool(values["force"]))):
        return busy
    if not sheet.mounted(point):
        sheet.make(point)
        if server:
            said = {"has_hung": server["hangs"], "problem": server["reason"]}
        else:
            options = tuple(values["options"].split(","))
            sheet.mounts[point] = [Mounted(values["source"], _shown(values["fstype"]), options)]
    if not sheet.mounted(point) and values["fresh"]:
        sheet.remove(point, values["made"] or point)
        sheet.kept.pop(point)
        _drop_certificate(sheet, values["name"])
    return said


def _unmount(sheet: Sheet, values: Mapping[str, str]) -> dict[str, Any]:
    point = values["mount_point"]
    if values["ours"] and (busy := _release(sheet, point, is_forced=bool(values["force"]))):
        return busy
    if values["made"]:
        sheet.remove(point, values["made"])
    if values["own_fstab"]:
        sheet.kept.pop(point, None)
    _drop_certificate(sheet, values["name"])
    return {}


def _release(sheet: Sheet, point: str, *, is_forced: bool = False) -> dict[str, Any]:
    """The topmost mount goes, and nothing is said; or what is in its way."""
    below = [Holder(0, f"a mount at {one}") for one in sheet.mounts if one.startswith(f"{point}/")]
    holders = (*([sheet.holders[point]] if point in sheet.holders else []), *below)
    if holders and not is_forced:
        return {"problem": "target is busy", "holders": holders}
    sheet.unmount(point)
    sheet.holders.pop(point, None)
    return {}


def _state(sheet: Sheet, values: Mapping[str, str], said: Mapping[str, Any]) -> State:
    point = values["mount_point"]
    missing = sheet.missing(point)
    exists = _above(missing) if missing else point
    kind = sheet.kind(exists)
    real = kind.removeprefix("link ") if kind.startswith("link ") else exists
    directory = "file" if kind == "file" else "filled" if sheet.is_filled(point) else "empty"
    lines = sheet.kept.get(point, [])
    return State(
        boot_id=sheet.boot_id,
        distribution=distributions.read(["ID=debian"]),
        has_systemd=False,
        has_program=sheet.has_client,
        is_plain=False,
        mounted=sheet.mounted(point),
        real=real,
        exists=exists,
        missing=missing,
        directory="" if missing else directory,
        unit="",
        is_enabled=False,
        fstab=tuple(lines[-1:]),
        fstab_mark=lines[0] if len(lines) > 1 else "",
        is_certified=values["name"] in sheet.certified,
        certificate=sheet.certificates[0] if sheet.certificates and values["name"] in sheet.certified else "",
        **said,
    )


def _above(path: str) -> str:
    return path.rpartition("/")[0] or "/"
