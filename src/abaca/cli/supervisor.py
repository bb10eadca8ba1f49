# SPDX-License-Identifier: Apache-2.0
"""`abaca run`'s parent: it starts the programs, starts one that dies again, and stops all of them together.

It does as little as it can, because nobody restarts it but the init system; and it is a program of its own that the
command turns into (`become`), so that it does not carry what reading the settings took. Its children ask the kernel to
be killed when it dies (processes.py), so nothing is left behind however it ends.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from abaca import logs
from abaca.cli import ports
from abaca.cli.exits import EX_CONFIG
from abaca.cli.state_directory import StateDirectory

# not __name__: it runs as __main__
log = logging.getLogger("abaca.cli.supervisor")

RESTART_S = (0.2, 1.0, 2.0, 5.0, 10.0, 30.0)
STEADY_S = 60.0
AGAIN_S = 1.0
_HELD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)
_PLAN = "ABACA_SUPERVISOR_PLAN"
_LOCKS = "ABACA_SUPERVISOR_LOCKS"


class Plan(NamedTuple):
    """What to supervise: commands and pids by program; and the state directory whose SQLite file to keep, if any.

    `listening` is the socket of the API, which outlives its processes; `again` the command that starts all this.
    """

    programs: Mapping[str, Sequence[str]]
    grace_s: float
    sqlite_in: str | None
    logging: Mapping[str, Any]
    listening: int
    again: Sequence[str]
    pids: Mapping[str, int] = {}


def become(plan: Plan, locks: Sequence[int]) -> NoReturn:
    """Start the programs, and turn this process into their supervisor, which goes on holding `locks`.

    They start here and not there, because everything that they wait for is ready. Signals that come meanwhile wait
    for `run`.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    started = plan._replace(pids={name: spawn(command, plan.listening) for name, command in plan.programs.items()})
    for kept in (*locks, plan.listening):
        os.set_inheritable(kept, True)
    environ = {**os.environ, _PLAN: json.dumps(started), _LOCKS: json.dumps(list(locks))}
    os.execve(sys.executable, [sys.executable, "-m", "abaca.cli.supervisor"], environ)  # noqa: S606 - no shell is meant


def spawn(command: Sequence[str], listening: int) -> int:
    """Start a command without input; its pid. HUP is kept from it until it says that it can take it (`take_hup`).

    One that asks for the listening socket gets it.
    """
    # malloc keeps an arena a thread otherwise; a few hold idle processes small
    environ = {"MALLOC_ARENA_MAX": "2", **os.environ}
    no_input = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    files: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [no_input]
    if "--listening" in command:
        files.append((os.POSIX_SPAWN_DUP2, listening, ports.HANDED_ON))
    return os.posix_spawn(command[0], list(command), environ, file_actions=files, setsigmask=[signal.SIGHUP])


def hold_hup() -> None:
    """Keep HUP and USR2 waiting: until `take_hup`, or for the supervisor that this process turns into."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP, signal.SIGUSR2])


def take_hup() -> None:
    """Let HUP through: this process has a handler for it now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])


def is_told_of_changes() -> bool:
    """Whether HUP means that the configuration has changed; from a terminal it means that nobody is there any more."""
    return not os.isatty(0)


class Program:
    """One child: its command, its process, and when it may start again."""

    def __init__(self, name: str, command: Sequence[str], listening: int, pid: int | None = None) -> None:
        self.name = name
        self.command = command
        self.pid = pid
        self._listening = listening
        self.failures = 0
        self.started_s = time.monotonic()
        self.due_s = 0.0

    def start(self) -> None:
        """Start the program now."""
        self.started_s = time.monotonic()
        self.pid = spawn(self.command, self._listening)

    def wait_a_while(self) -> float:
        """Put the program's next start off, longer each time unless it ran for a good while; by how many seconds."""
        steady = time.monotonic() - self.started_s > STEADY_S
        self.failures = 0 if steady else self.failures + 1
        delay_s = RESTART_S[min(self.failures, len(RESTART_S) - 1)]
        self.due_s = time.monotonic() + delay_s
        return delay_s

    def has_ended(self) -> int | None:
        """The exit status of a program that has ended, negative for a signal; None before, and when asked again."""
        if self.pid is None:
            return None
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            pid, status = self.pid, 0
        if not pid:
            return None
        self.pid = None
        return os.waitstatus_to_exitcode(status)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the program, if it runs."""
        if self.pid is not None:
            os.kill(self.pid, number)


class Stop:
    """Whether to stop, and whether at once: when asked again later. Terminals and `timeout` ask twice in a breath."""

    def __init__(self) -> None:
        self.is_asked = False
        self.is_urgent = False
        # whether all starts again then
        self.is_restart = False
        self._first_s = 0.0

    def asked(self) -> None:
        """Called when a signal asks to stop."""
        now_s = time.monotonic()
        if not self.is_asked:
            self.is_asked, self._first_s = True, now_s
        elif now_s - self._first_s > AGAIN_S:
            self.is_urgent = True

    def restart_asked(self) -> None:
        """A signal came that asks for another start as well."""
        if not self.is_asked:
            self.is_restart = True
            self.asked()


class Supervisor:
    """Runs programs until it is told to stop, or until one of them cannot be helped by starting again."""

    def __init__(self, programs: Sequence[Program], listening: int, *, grace_s: float) -> None:
        self.programs = programs
        self.grace_s = grace_s
        self._listening = listening
        self._stop = Stop()
        self._has_changes = False

    def _changed(self) -> None:
        self._has_changes = True

    def run(self) -> int:
        """Supervise until the end; the exit status for the command."""
        with _signals_wake(self._stop, self._changed) as wake:
            status = self._bury()
            while not self._stop.is_asked and not status:
                pause_s = self._restart_what_is_due()
                select.select([wake], [], [], pause_s)
                _drain(wake)
                status = self._bury()
                self._tell_of_changes()
            self._stop_all(wake)
            hold_hup()
        return status

    @property
    def starts_again(self) -> bool:
        """Whether all was stopped to be started again."""
        return self._stop.is_restart

    def _tell_of_changes(self) -> None:
        if self._has_changes:
            self._has_changes = False
            for program in self.programs:
                if program.name == "worker":
                    program.send(signal.SIGHUP)

    def _bury(self) -> int:
        """Note who has ended; not 0 when starting again would not help."""
        for program in self.programs:
            code = program.has_ended()
            if code is None:
                continue
            if code == EX_CONFIG:
                return EX_CONFIG
            if self._stop.is_asked:
                continue
            delay_s = program.wait_a_while()
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
            log.warning("the %s %s; it starts again in %g s", program.name, how, delay_s)
        if os.getpid() == 1:
            _reap_orphans({program.pid for program in self.programs})
        return 0

    def _restart_what_is_due(self) -> float | None:
        """Start what is due; seconds until the next is."""
        waiting = [program for program in self.programs if program.pid is None]
        for program in waiting:
            if program.due_s <= time.monotonic():
                try:
                    program.start()
                except OSError as error:  # no memory, or a package that is just being replaced
                    delay_s = program.wait_a_while()
                    log.error("the %s cannot be started: %s; again in %g s", program.name, error.strerror, delay_s)
        waits = [program.due_s - time.monotonic() for program in waiting if program.pid is None]
        return max(0.01, min(waits)) if waits else None

    def _stop_all(self, wake: socket.socket) -> None:
        """Ask everybody to end, and insist after the grace or when asked again."""
        deadline_s = time.monotonic() + self.grace_s
        if not self.starts_again:
            os.close(self._listening)
        for program in self.programs:
            program.send(signal.SIGTERM)
        while running := self._still_running():
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or self._stop.is_urgent:
                for program in running:
                    log.warning("the %s does not end; it is killed", program.name)
                    program.send(signal.SIGKILL)
                left_s = 1.0
            select.select([wake], [], [], left_s)
            _drain(wake)

    def _still_running(self) -> list[Program]:
        for program in self.programs:
            program.has_ended()
        return [program for program in self.programs if program.pid is not None]


@contextlib.contextmanager
def _signals_wake(stop: Stop, on_change: Callable[[], None]) -> Iterator[socket.socket]:
    """A socket that becomes readable when a signal arrives, so that no signal is missed between two looks."""
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    before = {
        signal.SIGCHLD: signal.signal(signal.SIGCHLD, lambda *_: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: stop.asked()),
        signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: stop.asked()),
        signal.SIGUSR2: signal.signal(signal.SIGUSR2, lambda *_: stop.restart_asked()),
    }
    if is_told_of_changes():
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda *_: on_change())
    fd_before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(fd_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        reader.close()
        writer.close()


def _reap_orphans(ours: set[int | None]) -> None:
    """As a container's first process: bury the daemons of drivers, whose parent this is once they are on their own."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid in ours:
            return
        os.waitpid(ended.si_pid, 0)


def _drain(wake: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while wake.recv(64):
            pass


def main() -> int:
    """What `become` turns a process into."""
    plan = Plan(*json.loads(os.environ.pop(_PLAN)))
    locks = json.loads(os.environ.pop(_LOCKS))
    for lock in locks:
        os.set_inheritable(lock, False)
    logs.set_up(**plan.logging)
    state = StateDirectory(Path(plan.sqlite_in)) if plan.sqlite_in else None
    if state is not None:
        state.keep_sqlite()
    os.set_inheritable(plan.listening, False)
    programs = [Program(name, command, plan.listening, plan.pids[name]) for name, command in plan.programs.items()]
    ours = Supervisor(programs, plan.listening, grace_s=plan.grace_s)
    status = ours.run()
    if state is not None:
        state.release()
    if ours.starts_again and not status:
        log.info("starting again")
        _close(locks)
        ports.hand_on(plan.listening)
        os.execv(plan.again[0], list(plan.again))  # noqa: S606 - no shell is meant
    return status


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())
