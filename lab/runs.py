# SPDX-License-Identifier: Apache-2.0
"""A run of the lab: a directory, a prefix, and the promise that nothing of it is left behind.

What belongs to a run can be found again without its memory: processes carry its mark in their environment (those that
daemons start inherit it), interfaces and namespaces carry its prefix in their name or its directory in their alias,
mounts and loop devices lie in its directory. So the same `clear` serves the normal end, the warden (a process that
waits for the owner to die, by whatever signal), and the next run on this machine, which clears after owners that are
gone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from lab import processes

MARK = "ABACA_LAB_RUN"
_ROOT = pathlib.Path(__file__).resolve().parent.parent
_SEQUENCE = itertools.count()
_DAEMONS = ("ganesha.nfsd", "dbus-daemon", "linux.uml")
"""Programs that are of a run when their command line names its directory, even if their environment was cleaned."""
_FORBIDDEN = (
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
)
_STATE_FILE = ".abaca-lab"


def records_directory() -> pathlib.Path:
    """Return where runs are recorded on this machine; made on first use, private to this user."""
    place = pathlib.Path("/run/abaca-lab")
    if os.geteuid() != 0:
        place = pathlib.Path(tempfile.gettempdir()) / f"abaca-lab-{os.geteuid()}"
    place.mkdir(mode=0o700, exist_ok=True)
    if place.stat().st_uid != os.geteuid():
        raise processes.LabError(f"{place} belongs to another user")
    return place


class Run:
    """Owns a directory, a name prefix (9 characters: interface names have 15) and the processes of one use.

    Use it as a context manager, or call `close()`.
    """

    def __init__(self) -> None:
        sweep()
        self.prefix = _free_prefix()
        self.mark = f"{self.prefix}-{secrets.token_hex(6)}"
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix=f"abaca-lab-{self.prefix}-"))
        self.directory.chmod(0o711)  # daemons that run as another user have their own directories below
        self.record = records_directory() / f"{self.mark}.json"
        # machines are started from several threads
        self._writing = threading.Lock()
        self._facts: dict[str, Any] = {
            "mark": self.mark,
            "prefix": self.prefix,
            "directory": str(self.directory),
            "kept": [],
            "owner": os.getpid(),
            "owner_started": processes.started(os.getpid()),
            "boot": _boot(),
            "namespaces_before": sorted(_namespaces()),
            "pids": [],
        }
        self._write()
        self._processes: list[processes.Process] = []
        self._endings = contextlib.ExitStack()
        self._warden = self._start_warden()
        self._facts["warden"] = self._warden.pid
        self._write()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def path(self, *parts: str) -> pathlib.Path:
        """Return a new directory below the run's own, made with all parents."""
        place = self.directory.joinpath(*parts)
        place.mkdir(parents=True, exist_ok=True)
        return place

    def keep(self, directory: pathlib.Path) -> pathlib.Path:
        """Return `directory`, absolute and made if missing, for this run alone; its files stay after the run.

        Raises `LabError` if it holds somebody else's files or another run uses it.
        """
        directory = _claim(directory)
        self._facts["kept"].append(str(directory))
        self._write()
        return directory

    def spawn(self, argv: Sequence[str], *, log: str, launch: processes.Launch | None = None) -> processes.Process:
        """Start a program that belongs to this run; its output goes to the file `log` in the run's directory."""
        launch = launch or processes.Launch()
        launch = dataclasses.replace(launch, env={MARK: self.mark, **launch.env})
        process = processes.Process(argv, self.directory / log, launch, name=pathlib.Path(log).stem)
        self._processes.append(process)
        self._facts["pids"].append([process.pid, process.started])
        self._write()
        return process

    def at_end(self, ending: Callable[[], object]) -> None:
        """Have `ending` called when the run closes, before its processes are stopped; the last given comes first."""
        self._endings.callback(ending)

    def environment(self) -> dict[str, str]:
        """Return what a program that is started otherwise needs in its environment to be found as part of this run."""
        return {MARK: self.mark}

    def close(self) -> None:
        """Stop everything, newest first, and remove all traces; files stay only in directories given to `keep`."""
        if self._closed:
            return
        self._closed = True
        try:
            self._endings.close()
        finally:
            for process in reversed(self._processes):
                if process.alive():
                    process.stop(timeout_s=5.0)
            clear(self._facts)
            self.record.unlink(missing_ok=True)
            self._warden.kill()
            self._warden.wait()

    def leftovers(self) -> list[str]:
        """Return what of this run is still there, a line each; empty after `close`."""
        return leftovers(self._facts)

    def _write(self) -> None:
        with self._writing:
            draft = self.record.with_suffix(".new")
            draft.write_text(json.dumps(self._facts))
            draft.replace(self.record)

    def _start_warden(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "lab.warden", str(self.record)],
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _free_prefix() -> str:
    # Of one length for all runs, so that none is the start of another; no pid needs more than five digits.
    ours = f"abl{_base36(os.getpid()):0>5}"
    # one digit is left for the runs of a process: a long-lived one keeps its own while others come and go
    for number in itertools.islice(_SEQUENCE, 36):
        prefix = f"{ours}{_base36(number % 36)}"
        if not any(records_directory().glob(f"{prefix}-*.json")):
            return prefix
    raise processes.LabError("this process has 36 runs; close one")


def _claim(directory: pathlib.Path) -> pathlib.Path:
    directory = directory.expanduser().resolve()
    if str(directory) in _FORBIDDEN or directory == pathlib.Path.home():
        raise processes.LabError(f"{directory} cannot be a state directory")
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()) and not (directory / _STATE_FILE).exists():
        raise processes.LabError(f"{directory} is not empty and not a state directory of the lab; name a new one")
    for record in records_directory().glob("*.json"):
        facts = read(record)
        if facts and str(directory) in facts["kept"] and _owner_lives(facts):
            raise processes.LabError(f"{directory} is in use by process {facts['owner']}")
    (directory / _STATE_FILE).touch()
    return directory


def sweep() -> None:
    """Clear after all runs of this machine whose owner is gone."""
    for record in records_directory().glob("*.json"):
        facts = read(record)
        if facts is not None and not _owner_lives(facts):
            clear(facts)
            record.unlink(missing_ok=True)


def watch(record: pathlib.Path) -> None:
    """Wait for the owner of a recorded run to die, then clear after it (see `lab.warden`)."""
    facts = read(record)
    if facts is None:
        return
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(facts["owner"])
        if _owner_lives(facts):
            select.select([handle], [], [])
    facts = read(record)
    if facts is not None:
        clear(facts)
        record.unlink(missing_ok=True)


def clear(facts: dict[str, Any]) -> None:
    """Remove all that belongs to a run: processes, mounts, namespaces, interfaces, loop devices, files."""
    if facts["boot"] == _boot():
        namespaces = _namespaces_of(facts)
        _kill_all(facts)
        _unmount_all(facts)
        for name in namespaces | _namespaces_of(facts):
            _attempt("ip", "netns", "delete", name)
        for name in _links(facts):
            _attempt("ip", "link", "delete", name)
        for device in _loops(facts):
            _attempt("losetup", "-d", device)
    if not _mounts(facts):
        shutil.rmtree(facts["directory"], ignore_errors=True)


def leftovers(facts: dict[str, Any]) -> list[str]:
    """Return what of a run is still there, a line each."""
    found = [f"process {pid}: {_command_line(pid)}" for pid in _members(facts)]
    found += [f"mount {place}" for place in _mounts(facts)]
    found += [f"namespace {name}" for name in sorted(_namespaces_of(facts))]
    found += [f"interface {name}" for name in _links(facts)]
    found += [f"loop device {device}" for device in _loops(facts)]
    if pathlib.Path(facts["directory"]).exists():
        found.append(f"directory {facts['directory']}")
    return found


def _kill_all(facts: dict[str, Any]) -> None:
    def gone() -> bool:
        members = list(_members(facts))
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not members

    with contextlib.suppress(processes.TimedOut):
        processes.wait_until(gone, processes.PATIENCE_S, "the end of all processes of the run")


def _members(facts: dict[str, Any]) -> Iterator[int]:
    mark, places = f"{MARK}={facts['mark']}".encode(), [place.encode() for place in _places(facts)]
    recorded = {tuple(entry) for entry in facts["pids"]}
    for pid in (int(name) for name in _names("/proc") if name.isdigit()):
        if pid == os.getpid() or not processes.alive(pid):
            continue
        line = _bytes(f"/proc/{pid}/cmdline")
        daemon = pathlib.PurePath(line.split(b"\0")[0].decode(errors="replace")).name in _DAEMONS
        daemon = daemon and any(place in line for place in places)
        marked = mark in _bytes(f"/proc/{pid}/environ").split(b"\0")
        if marked or daemon or (pid, processes.started(pid)) in recorded:
            yield pid


def _unmount_all(facts: dict[str, Any]) -> None:
    for place in _mounts(facts):
        _attempt("umount", place)
    # A loop device keeps the disk of its file busy, and could not be found by its path once that is unmounted lazily.
    for device in _loops(facts):
        _attempt("losetup", "-d", device)
    for place in _mounts(facts):
        _attempt("umount", place)
    for place in _mounts(facts):
        _attempt("umount", "-f", "-l", place)


def _mounts(facts: dict[str, Any]) -> list[str]:
    places = [line.split()[4].encode().decode("unicode_escape") for line in _lines("/proc/self/mountinfo")]
    return [place for place in reversed(places) if place.startswith(_places(facts))]


def _places(facts: dict[str, Any]) -> tuple[str, ...]:
    """The starts of all paths in the directories of a run."""
    return tuple(f"{directory}/" for directory in (facts["directory"], *facts["kept"]))


def _loops(facts: dict[str, Any]) -> list[str]:
    found = []
    for backing in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if backing.read_text().startswith(_places(facts)):
                found.append(f"/dev/{backing.parent.parent.name}")
    return found


def _links(facts: dict[str, Any]) -> list[str]:
    """Those with the run's prefix, and those whose alias names one of its directories."""
    return [
        name
        for name in _names("/sys/class/net")
        if name.startswith(facts["prefix"])
        or any(place in f"{line}/" for line in _lines(f"/sys/class/net/{name}/ifalias") for place in _places(facts))
    ]


def _namespaces() -> set[str]:
    return set(_names("/run/netns"))


def _namespaces_of(facts: dict[str, Any]) -> set[str]:
    """Named network namespaces with the run's prefix, and those made meanwhile in which a process of the run lives."""
    inhabited = {_inode(f"/proc/{pid}/ns/net") for pid in _members(facts)} - {_inode("/proc/1/ns/net"), None}
    new = _namespaces() - set(facts["namespaces_before"])
    return {name for name in new if name.startswith(facts["prefix"]) or _inode(f"/run/netns/{name}") in inhabited}


def _attempt(*argv: str) -> None:
    with contextlib.suppress(processes.LabError):
        processes.command(argv, timeout_s=10.0)


def _owner_lives(facts: dict[str, Any]) -> bool:
    return facts["boot"] == _boot() and processes.alive(facts["owner"], facts["owner_started"])


def read(record: pathlib.Path) -> dict[str, Any] | None:
    """Return the facts of a recorded run, None if it is over."""
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads(record.read_text()))
    return None


def _base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    return (_base36(number // 36) if number >= 36 else "") + digits[number % 36]


def _boot() -> str:
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _inode(path: str) -> int | None:
    with contextlib.suppress(OSError):
        return pathlib.Path(path).stat().st_ino
    return None


def _names(directory: str) -> list[str]:
    with contextlib.suppress(OSError):
        return sorted(place.name for place in pathlib.Path(directory).iterdir())
    return []


def _bytes(path: str) -> bytes:
    with contextlib.suppress(OSError):
        return pathlib.Path(path).read_bytes()
    return b""


def _lines(path: str) -> list[str]:
    with contextlib.suppress(OSError):
        return pathlib.Path(path).read_text(errors="replace").splitlines()
    return []


def _command_line(pid: int) -> str:
    return _bytes(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
