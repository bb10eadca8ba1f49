# SPDX-License-Identifier: Apache-2.0
"""The NFS-Ganesha process and its private message bus, detached from whoever starts them.

They outlive the worker: a worker that starts takes over the pair that it finds, recognised by the bus's answer, its
configuration file, its network and its mount namespace. Only a pair that is not what is wanted is replaced.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple

from abaca import errors
from abaca.drivers import contract
from abaca.drivers.clients import commands
from abaca.drivers.clients.names import safe_path
from abaca.drivers.exports import blocks, nfs_call
from abaca.drivers.exports.bus import Bus, Dead

log = logging.getLogger(__name__)

BUS_CONFIGURATION = """\
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <pidfile>{directory}/bus.pid</pidfile>
  <policy user="root"><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/></policy>
</busconfig>
"""
_LONGEST_SOCKET = 107
# A log of that size is put aside; so many are kept beside it.
LOG_BYTES, LOGS = 16 << 20, 4
GFAPI_LOG = "gfapi.log"
"""What NFS-Ganesha says of volumes of GlusterFS, in its directory."""
_LISTEN = "0A"  # the state of such a socket in /proc/net/tcp


class Limits(NamedTuple):
    """The most that NFS-Ganesha may take. At its end of memory it dies, and is started again."""

    memory_mib: int
    open_files: int

    @property
    def words(self) -> list[str]:
        """What starts a program under them: limits of the process, which every host has and no other program counts."""
        return ["prlimit", f"--data={self.memory_mib << 20}", f"--nofile={self.open_files}"]


class Shown(NamedTuple):
    """A directory of ours that NFS-Ganesha, and nobody else on this host, finds in `place` of what is there.

    Where `own` is a link, one that leads elsewhere makes it another daemon.
    """

    own: Path
    place: Path

    @property
    def words(self) -> list[str]:
        """What starts a program that finds it there."""
        script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
        return [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            "sh",
            str(self.own),
            str(self.place),
        ]

    def is_shown_to(self, pid: int) -> bool:
        """Whether that process finds it there. Raises OSError."""
        return os.path.samestat(Path(f"/proc/{pid}/root{self.place}").stat(), self.own.stat())


class Settings(NamedTuple):
    """How NFS-Ganesha serves; `netns` is the path of a network namespace, or empty."""

    port: int
    netns: str = ""
    grace_s: int = 10
    minor_versions: Sequence[int] = (1, 2)
    limits: Limits | None = None
    # Where the message bus listens, in place of its directory, whose path may be too long for a socket.
    socket: Path | None = None
    # It mounts volumes of GlusterFS, and finds their certificates here; without, it serves directories of this host.
    certificates: Shown | None = None


class Daemon:
    """Files, log and, by default, socket are in `directory`; `prepare` makes what it stands on."""

    def __init__(self, directory: Path, settings: Settings, prepare: Callable[[], None] = lambda: None) -> None:
        self.directory = directory
        self.socket = settings.socket or directory / "bus.sock"
        self._netns = settings.netns
        self._prepare = prepare
        self._configuration = directory / "ganesha.conf"
        self._bus_configuration = directory / "bus.conf"
        self._settings = settings
        # Whether a call by NFS was answered since one was last killed; who was before us is given the benefit.
        self._is_heard = True

    def check(self) -> None:
        """Raises `contract.Refused` with the mend when the host cannot run it."""
        if self._settings.certificates is None:
            check_programs()
        else:
            check_programs("gluster")
        safe_path(self.directory)
        if len(str(self.socket)) > _LONGEST_SOCKET:
            raise contract.Refused(reason=f"{self.socket} is too long for a socket: choose a shorter state_dir")

    def pid(self) -> int | None:
        """The process that is up and is what is wanted, None when it has to be started."""
        bus = Bus(self.socket, timeout_s=5.0)
        try:
            pid = bus.owner_pid()
        finally:
            bus.close()
        if pid is None or not self._is_wanted(pid):
            return None
        return pid

    def _answers(self) -> bool:
        """Whether it has read its exports and takes calls."""
        bus = Bus(self.socket)
        try:
            bus.paths()
        except (Dead, contract.Refused):
            return False
        finally:
            bus.close()
        return True

    def answers_within(self, seconds: float) -> bool:
        """Whether it answers, each in that time, a question about its exports and a call by NFS.

        One that is not there has not answered.
        """
        with ThreadPoolExecutor(1) as pool:
            call = pool.submit(nfs_call.answers, self._settings.port, seconds, self._netns)
            return self._bus_answers(seconds) and not self._is_silent(call, seconds)

    def _is_silent(self, call: Future[bool | None], seconds: float) -> bool:
        """Whether it hangs, going by what comes of a call by NFS."""
        has_answered = call.result()
        if has_answered:
            self._is_heard = True
        # Where no call ever gets through, not the server is to blame.
        if has_answered is not False or not self._is_heard:
            return False
        # One whose storage hangs would hang again.
        is_waiting = _waits_for_storage(self.directory / "ganesha.pid")
        why = "waits for its storage" if is_waiting else "answers on its bus alone"
        log.warning("NFS-Ganesha of %s has left a call by NFS for %g s: it %s", self.directory, seconds, why)
        return not is_waiting

    def _bus_answers(self, seconds: float) -> bool:
        bus = Bus(self.socket, timeout_s=seconds)
        try:
            bus.paths()
        except (Dead, errors.BackendError):
            return False
        finally:
            bus.close()
        return True

    def kill_silent(self, answer_s: float) -> str:
        """End at once whichever of the two does not answer, and say which; empty when none of them runs.

        What clients hold is on disk, and given back to them by the next one.
        """
        bus = Bus(self.socket, timeout_s=answer_s)
        try:
            bus.owner_pid()
            name, pid = "NFS-Ganesha", _running(self.directory / "ganesha.pid", self._configuration)
        except contract.Unreachable:
            name, pid = "the message bus of NFS-Ganesha", self.bus_pid()
        finally:
            bus.close()
        if pid is None:
            return ""
        self._is_heard = False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return name

    def rotate_log(self) -> None:
        """Begin a new log when it has grown large; some old ones are kept. It is opened anew for each line."""
        log_file = self.directory / "ganesha.log"
        held_open = self.directory / GFAPI_LOG
        with contextlib.suppress(OSError):  # it serves no volumes
            if held_open.stat().st_size >= LOG_BYTES:
                shutil.copyfile(held_open, held_open.with_suffix(".log.1"))
                os.truncate(held_open, 0)
        with contextlib.suppress(OSError):  # none is there; and a log is no reason to serve nobody
            if log_file.stat().st_size < LOG_BYTES:
                return
            for number in range(LOGS - 1, 0, -1):
                older = log_file.with_suffix(f".log.{number}")
                if older.exists():
                    older.replace(log_file.with_suffix(f".log.{number + 1}"))
            log_file.replace(log_file.with_suffix(".log.1"))

    def _is_wanted(self, pid: int) -> bool:
        try:
            if self._settings.certificates is not None:
                same_mounts = self._settings.certificates.is_shown_to(pid)
            else:
                same_mounts = os.path.samestat(_namespace(pid, "mnt"), _namespace("self", "mnt"))
            wanted = Path(self._netns).stat() if self._netns else _namespace("self", "net")
            same_network = os.path.samestat(_namespace(pid, "net"), wanted)
            return same_mounts and same_network and self._configuration.read_text() == self._wanted_configuration()
        except OSError:
            return False

    def _wanted_configuration(self) -> str:
        how = self._settings
        text = blocks.configuration(
            self.directory, port=how.port, grace_s=how.grace_s, minor_versions=how.minor_versions
        )
        # One that runs under other limits is another one.
        return text if how.limits is None else f"{text}# {' '.join(how.limits.words)}\n"

    def bus_pid(self) -> int | None:
        """The message bus's process, if it runs."""
        return _running(self.directory / "bus.pid", self._bus_configuration)

    def start(self, timeout_s: float = 120.0) -> int:
        """Replace whatever runs by a new pair; its pid once it answers. Raises `contract.Unreachable`."""
        try:
            self._prepare()
            if self._netns and not Path(self._netns).exists():
                raise contract.Unreachable(reason=f"there is no network namespace {self._netns}")
            return self._start(timeout_s)
        except OSError as error:
            raise contract.Unreachable(reason=f"NFS-Ganesha cannot be started: {error}") from error

    def _start(self, timeout_s: float) -> int:
        self.stop()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        (self.directory / "recovery").mkdir(exist_ok=True)
        self._bus_configuration.write_text(BUS_CONFIGURATION.format(directory=self.directory, socket=self.socket))
        self._configuration.write_text(self._wanted_configuration())
        enter = ["nsenter", f"--net={self._netns}"] if self._netns else []
        self._spawn([*enter, "dbus-daemon", f"--config-file={self._bus_configuration}", "--fork"], timeout_s=10)
        self.rotate_log()
        log_file = self.directory / "ganesha.log"
        log_end = log_file.stat().st_size if log_file.exists() else 0
        if self._settings.limits is not None:
            enter += self._settings.limits.words
        if self._settings.certificates is not None:
            enter += self._settings.certificates.words
        pid_file = self.directory / "ganesha.pid"
        self._spawn(
            [*enter, "ganesha.nfsd", "-f", str(self._configuration), "-L", str(log_file), "-p", str(pid_file)],
            timeout_s=30,
        )
        deadline = time.monotonic() + timeout_s
        born = time.monotonic()
        while time.monotonic() < deadline:
            pid = self.pid()
            if pid is not None and self._answers():
                self._check_listens(pid)
                return pid
            if time.monotonic() > born + 2 and _running(pid_file, self._configuration) is None:
                break
            time.sleep(0.01)
        raise contract.Unreachable(reason=f"NFS-Ganesha did not start: {_complaint(log_file, log_end)}")

    def _check_listens(self, pid: int) -> None:
        """It goes on without its port when somebody took that between its choosing and its listening."""
        if not _listens(pid, self._settings.port):
            self.stop()
            reason = f"NFS-Ganesha did not start: it does not listen on port {self._settings.port}; see who else does"
            raise contract.Unreachable(reason=reason)

    def _spawn(self, argv: list[str], timeout_s: float) -> None:
        """Start a program that leaves for the background by itself; it keeps nothing of ours open."""
        environment = commands.plain() | {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={self.socket}"}
        output = self.directory / "start.log"
        with output.open("wb") as log_file:
            try:
                done = subprocess.run(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log_file,
                    stderr=log_file,
                    env=environment,
                    cwd="/",
                    start_new_session=True,
                    timeout=timeout_s,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise contract.Unreachable(reason=f"{argv[0]} did not start within {timeout_s:g} s") from error
        if done.returncode:
            said = " ".join(output.read_text(errors="replace").split())
            raise contract.Unreachable(reason=f"{argv[0]} ended with {done.returncode}: {said[-500:]}")

    def stop(self) -> None:
        """Neither of the two runs any more, and their pid files and socket are gone."""
        pid_file, bus_pid_file = self.directory / "ganesha.pid", self.directory / "bus.pid"
        _end(_running(pid_file, self._configuration))
        _end(_running(bus_pid_file, self._bus_configuration))
        for left in (pid_file, bus_pid_file, self.socket):
            left.unlink(missing_ok=True)


def check_programs(storage: Literal["vfs", "gluster"] = "vfs") -> None:
    """Raises `contract.Refused` with the package that the host lacks to serve that kind of storage."""
    commands.need("dbus-daemon", "dbus-daemon")
    commands.need("ganesha.nfsd", "nfs-ganesha")
    plugins = [place for pattern in ("ganesha", "*/ganesha") for place in Path("/usr/lib").glob(pattern)]
    if not any((place / f"libfsal{storage}.so").exists() for place in plugins):
        part, package = storage.upper(), f"nfs-ganesha-{storage}"
        raise contract.Refused(reason=f"NFS-Ganesha lacks its {part} part: apt-get install {package}")


def _namespace(pid: int | str, kind: str) -> os.stat_result:
    return Path(f"/proc/{pid}/ns/{kind}").stat()


def _running(pid_file: Path, mentions: Path) -> int | None:
    """The process of the pid file, if it lives and was started with this configuration file."""
    try:
        pid = int(pid_file.read_text().strip() or "0")
        line = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, ValueError):
        return None
    return pid if str(mentions) in line and state != "Z" else None


def _waits_for_storage(pid_file: Path) -> bool:
    """Whether one of its threads is inside the kernel and cannot be interrupted."""
    with contextlib.suppress(OSError, ValueError):  # it has ended
        for stat in Path(f"/proc/{int(pid_file.read_text())}/task").glob("*/stat"):
            with contextlib.suppress(OSError):  # this thread has
                if stat.read_text().rpartition(")")[2].split()[0] == "D":
                    return True
    return False


def _listens(pid: int, port: int) -> bool:
    """Whether the process has a TCP socket on which it waits for clients at the port."""
    rows, held = [], set()
    for table in (Path(f"/proc/{pid}/net/{name}") for name in ("tcp", "tcp6")):
        with contextlib.suppress(OSError):  # it has ended, or this kernel has no IPv6
            rows += [line.split() for line in table.read_text().splitlines()]
    with contextlib.suppress(OSError):
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                held.add(str(file.readlink()))
    return any(row[3] == _LISTEN and row[1].endswith(f":{port:04X}") and f"socket:[{row[9]}]" in held for row in rows)


def _end(pid: int | None, patience_s: float = 10.0) -> None:
    """End a process, by force when it does not end within `patience_s`."""
    if pid is None:
        return
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(handle, number)
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            if poll.poll(patience_s * 1000):
                return
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def _complaint(log_file: Path, start: int) -> str:
    """The worst that the daemon logged since `start`."""
    try:
        with log_file.open("rb") as file:
            file.seek(start)
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return "it wrote no log"
    bad = [line.rpartition(" :")[2] for line in lines if ":CRIT :" in line or ":FATAL :" in line or ":MAJ :" in line]
    return "; ".join((bad or lines)[-3:])[-500:] or "it wrote no log"
