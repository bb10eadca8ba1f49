# SPDX-License-Identifier: Apache-2.0
"""Start, watch and stop real programs; what `/proc` says of them; waiting with a deadline.

Every child is started through `setpriv --pdeathsig KILL`, so that it does not outlive this process. The kernel sends
that signal when the *thread* that started the child ends, hence the one thread here that starts all of them.
"""

from __future__ import annotations

import atexit
import collections
import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")

_STARTER = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="lab-starter")
# not the generator of all, which tests seed: two processes would draw the same ports
_RANDOM = random.SystemRandom()
_PORTS = range(20000, 32000)  # below the range that the kernel gives to outgoing connections
_RESERVED: collections.deque[socket.socket] = collections.deque()
_RESERVATIONS = 200
atexit.register(lambda: [mark.close() for mark in _RESERVED])
_DEATH_S = 30.0
PATIENCE_S = 300.0
"""How long a command may take, and how long is waited at least: machines are slow at times."""
_ADMIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class LabError(Exception):
    """Something in the lab did not do what it should; the text says what, with the end of its log."""


class Missing(LabError):
    """A program or device that a component needs is not on this machine."""


class TimedOut(LabError):
    """A deadline passed."""


def need(*programs: str, package: str) -> None:
    """Return if all `programs` can be found; raises `Missing` naming the Debian package otherwise."""
    for program in programs:
        if find(program) is None:
            raise Missing(f"{program} is missing: `make packages` installs {package}")


def find(program: str) -> str | None:
    """Return the path of `program`, looking in the administrator's directories too, or None."""
    return shutil.which(program, path=os.environ.get("PATH", "") + os.pathsep + _ADMIN_PATH)


def command(argv: Sequence[str], timeout_s: float = PATIENCE_S, stdin: str | None = None) -> str:
    """Run a short command and return its standard output; raises `LabError` when it fails, `TimedOut` when it hangs."""
    argv = [find(argv[0]) or argv[0], *argv[1:]]
    source = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False, **source)
    except subprocess.TimeoutExpired:
        raise TimedOut(f"{' '.join(argv)}: no end after {timeout_s:g} s") from None
    except OSError as problem:
        raise Missing(f"{argv[0]}: {problem}") from None
    if done.returncode:
        raise LabError(f"{' '.join(argv)}: exit {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return str(done.stdout)


def wait_until(ready: Callable[[], T], timeout_s: float, what: str, process: Process | None = None) -> T:
    """Return the first true answer of `ready`, asked ever less often up to ten times a second.

    Raises `TimedOut` after `timeout_s`, never sooner than after `PATIENCE_S`, and `LabError` as soon as `process` has
    ended, with the end of its log.
    """
    timeout_s = max(timeout_s, PATIENCE_S)
    deadline, pause_s = time.monotonic() + timeout_s, 0.002
    while True:
        answer = ready()
        if answer:
            return answer
        if process is not None and not process.alive():
            raise LabError(f"{what}: {process.name} ended with {process.wait(1)}\n{process.log_tail()}")
        if time.monotonic() > deadline:
            log = f"\n{process.log_tail()}" if process is not None else ""
            raise TimedOut(f"{what}: not within {timeout_s:g} s{log}")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.1)


def wait_for_port(host: str, port: int, timeout_s: float, process: Process | None = None) -> None:
    """Return when a TCP connection to `host` and `port` is accepted; raises as `wait_until` does."""

    def accepted() -> bool:
        try:
            with socket.create_connection((host, port), timeout=1.0):
                return True
        except OSError:
            return False

    wait_until(accepted, timeout_s, f"{host} port {port}", process)


def free_port(host: str = "127.0.0.1", among: Sequence[int] = _PORTS) -> int:
    """Return a TCP port on which nobody listens, at any address, and that no outgoing connection will take.

    No other process of the lab gets the same one until this process has asked for many more.
    """
    everywhere = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
    for port in _RANDOM.sample(among, min(len(among), 200)):
        if is_free(host, port) and is_free(everywhere, port) and _reserved(port):
            return port
    raise LabError(f"no free port on {host}")


def _reserved(port: int) -> bool:
    """Take the port's name among the machine's abstract sockets, which ends with this process at the latest."""
    mark = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        mark.bind(f"\0abaca-lab-port-{port}")
    except OSError:
        mark.close()
        return False
    _RESERVED.append(mark)
    if len(_RESERVED) > _RESERVATIONS:
        _RESERVED.popleft().close()
    return True


def is_free(host: str, port: int) -> bool:
    """Say whether one could listen on a TCP port of `host`; `::` means all addresses, those of IPv4 included."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
        except OSError:
            return False
        return True


def state(pid: int) -> str | None:
    """Return the state letter of a process (`Z` is a zombie: dead, not yet reaped), None if there is none."""
    fields = _stat(pid)
    return fields[0] if fields else None


def started(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; with the pid it names a process for good."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def parent(pid: int) -> int | None:
    """Return the pid of the parent of a process, None if the process is gone."""
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def children(pid: int) -> list[int]:
    """Return the pids of the children of a process, none if it is gone."""
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def alive(pid: int, since: int | None = None) -> bool:
    """Say whether a thread of a process runs. A reused pid differs in `since` (see `started`)."""
    fields = _stat(pid)
    # the process is shown as a zombie once its first thread has ended, and keeps its files open until its last has
    runs = bool(fields) and (fields[0] not in "ZX" or int(fields[17]) > 1)
    return runs and since in (None, int(fields[19]))


def freeze(*pids: int) -> None:
    """Stop processes without ending them, and return when no thread of theirs runs; raises `TimedOut`.

    The kernel gives SIGSTOP to one thread, and the others go on until that one has had its turn on a CPU.
    """
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: not any(map(_runs, pids)), PATIENCE_S, f"processes {pids} stand still")


def thaw(*pids: int) -> None:
    """Let processes go on that `freeze` stopped; one that has ended meanwhile is left alone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def frozen(*pids: int) -> Iterator[None]:
    """Freeze processes meanwhile."""
    try:
        freeze(*pids)
        yield
    finally:
        thaw(*pids)


def _runs(pid: int) -> bool:
    """Say whether a thread of the process is neither stopped, nor dead, nor held inside the kernel by a disk."""
    try:
        threads = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return False
    states = (_stat_of(thread / "stat")[:1] for thread in threads)
    return any(state and state[0] not in "TtDZX" for state in states)


def _stat(pid: int) -> list[str]:
    return _stat_of(pathlib.Path(f"/proc/{pid}/stat"))


def _stat_of(path: pathlib.Path) -> list[str]:
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


@dataclasses.dataclass(frozen=True)
class Launch:
    """How a program is started."""

    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Added to the environment of this process."""
    cwd: pathlib.Path | None = None
    user: str | None = None
    """Run as this user with its groups; only root can."""
    netns: str | None = None
    """Run in this named network namespace; the mounts stay the host's (`ip netns exec` would not see later ones)."""
    pass_fds: tuple[int, ...] = ()

    def argv(self, argv: Sequence[str]) -> list[str]:
        """Return `argv` with the programs in front of it that bring it into this shape."""
        inside = ["nsenter", f"--net=/run/netns/{self.netns}"] if self.netns else []
        user = [f"--reuid={self.user}", f"--regid={self.user}", "--init-groups"] if self.user else []
        return [*inside, "setpriv", "--pdeathsig", "KILL", *user, "--", *argv]


class Process:
    """A running child; its output goes to the file `log`."""

    def __init__(self, argv: Sequence[str], log: pathlib.Path, launch: Launch | None = None, name: str = "") -> None:
        launch = launch or Launch()
        self.name = name or pathlib.Path(argv[0]).name
        self.log = log
        need("setpriv", "nsenter", package="util-linux")
        self._child = _STARTER.submit(self._start, launch.argv(argv), launch).result()
        self.pid = self._child.pid
        self.started = started(self.pid)

    def _start(self, argv: list[str], launch: Launch) -> subprocess.Popen[bytes]:
        path = os.environ.get("PATH", "") + os.pathsep + _ADMIN_PATH
        with self.log.open("ab") as log:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PATH": path, **launch.env},
                cwd=launch.cwd,
                pass_fds=launch.pass_fds,
                start_new_session=True,  # Ctrl-C is for the lab, which then stops its children in order
            )

    def alive(self) -> bool:
        """Say whether the child still runs."""
        return self._child.poll() is None

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit code (negative: the signal), None if it still runs after `timeout_s`."""
        try:
            return self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal; none is sent to a child that has ended."""
        self._child.send_signal(number)

    def kill(self) -> int:
        """End the child at once, as a power cut would, and return its exit code; raises `LabError` if it stays."""
        self._child.kill()
        code = self.wait(_DEATH_S)
        if code is None:
            raise LabError(f"{self.name} (process {self.pid}) does not die: the kernel holds it")
        return code

    def stop(self, timeout_s: float = 10.0, by: signal.Signals = signal.SIGTERM) -> int:
        """Ask the child to end, kill it after `timeout_s`, and return its exit code."""
        self.send_signal(by)
        code = self.wait(timeout_s)
        return self.kill() if code is None else code

    def log_tail(self, lines: int = 25) -> str:
        """Return the last lines of the log."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""
