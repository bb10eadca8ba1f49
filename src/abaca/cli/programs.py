# SPDX-License-Identifier: Apache-2.0
"""`abaca run`, `abaca api`, `abaca worker`: the programs that keep running.

`run` is a supervisor of the other two. Its own process stays small: it reads the settings, holds the lock and waits.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import click

from abaca import app, errors
from abaca.cli import exits, ports, processes, signals, supervisor
from abaca.cli.options import Given, configured
from abaca.cli.state_directory import StateDirectory
from abaca.db.migrations import HEAD

if TYPE_CHECKING:
    from abaca.settings import Settings

log = logging.getLogger(__name__)

# A worker ends its steps in `[worker] stop_s`; then it may still take a moment to let go of the rest, and to end.
MARGIN_S = 5.0
END_S = 1.0
supervised = click.option("--supervisor", "supervisor_pid", type=int, hidden=True)


@click.command()
@configured
def run(given: Given) -> None:
    """Run everything on this host: the API, a worker, and SQLite in the state directory unless another is configured.

    Nothing else is needed. TERM or ^C stops it within seconds; work under way goes on at the next start. HUP has the
    worker take the changed options of drivers. USR2 stops it and starts it again, as it is installed and configured by
    then; clients that connect meanwhile wait, and none is refused.
    """
    _end_when_told()
    supervisor.hold_hup()
    loaded = given.load().settings
    state = StateDirectory(loaded.state_path)
    state.prepare()
    state.lock("run", "Stop that `abaca run` first, or choose another --state-path")
    app.set_up_logs(loaded)
    os.umask(0o027)
    listening = _listen(loaded)
    if loaded.uses_sqlite:
        state.claim_sqlite()
        _upgrade_sqlite(loaded, given)
        state.make_sqlite(loaded.sqlite_file)
    else:
        app.refuse_database(loaded)
    shutil.rmtree(loaded.state_path / "metrics", ignore_errors=True)
    _supervise(loaded, given, Programs(_names(loaded), listening, is_run=True), state)


@click.command()
@configured
@supervised
@click.option("--process", default="api", hidden=True)
@click.option("--listening", type=int, hidden=True)
def api(given: Given, supervisor_pid: int | None, process: str, listening: int | None) -> NoReturn:
    """Run the API; `osapi_share_workers` processes of it."""
    _end_when_told()
    loaded = given.load().settings
    app.set_up_logs(loaded)
    if supervisor_pid is not None and listening is not None:
        processes.die_with(supervisor_pid)
        port = socket.socket(fileno=listening)
    else:
        port = _listen(loaded)
        state = _alone(loaded)
        if loaded.osapi_share_workers > 1:
            app.refuse_database(loaded)
            names = [name for name in _names(loaded) if name != "worker"]
            _supervise(loaded, given, Programs(names, port), state)
        if loaded.uses_sqlite:
            state.keep_sqlite()
    _serve(loaded, process, port)
    if supervisor_pid is None:
        state.release()
    # Granian's threads may still be letting go of their things, and must not meet the end of the interpreter
    atexit._run_exitfuncs()
    os._exit(0)


@click.command()
@configured
@supervised
def worker(given: Given, supervisor_pid: int | None) -> int:
    """Run the worker of this host's back ends.

    TERM lets running steps end, hands everything else back and exits; another ends it at once, which harms nothing:
    the next start goes on where this one was. HUP has it read its configuration again and take the changed options of
    drivers; when anything is wrong with them all stays as it was, and the log says why.
    """
    _end_when_told()
    supervisor.hold_hup()
    loaded = given.load().settings
    app.set_up_logs(loaded)
    if supervisor_pid is not None:
        processes.die_with(supervisor_pid)
        state = StateDirectory(loaded.state_path)
    else:
        state = _alone(loaded)
    state.lock(
        f"worker-{loaded.worker_name}", "Stop the worker of that name first, or give this one another [worker] name"
    )
    made = app.worker(loaded)
    asked = supervisor.Stop()

    def stop() -> None:
        asked.asked()
        if asked.is_urgent:
            os._exit(exits.EX_FAILED)
        made.stop()

    changes = Changes(lambda: app.reload(made, loaded, given.load().settings))
    hup = {signal.SIGHUP: changes.request} if supervisor.is_told_of_changes() else {}
    signals.follow({signal.SIGTERM: stop, signal.SIGINT: stop, **hup})
    supervisor.take_hup()
    processes.give_back_memory()
    made.run()
    # Python would wait for calls that hang in a pool's threads; the lock stays until they are gone
    end = threading.Timer(END_S, os._exit, args=(0,))
    end.daemon = True
    end.start()
    return 0


class Changes:
    """What HUP asks for, done in a thread, one after the other."""

    def __init__(self, take: Callable[[], None]) -> None:
        self._take = take
        self._asked: queue.SimpleQueue[None] = queue.SimpleQueue()
        threading.Thread(target=self._follow, name="changes", daemon=True).start()

    def request(self) -> None:
        """There are changes: they are taken; what is refused of them is logged."""
        self._asked.put(None)

    def _follow(self) -> None:
        while True:
            self._asked.get()
            try:
                self._take()
            except errors.ConfigError as error:
                log.error("the changed configuration is refused and all stays as it was: %s", error.message)
            except Exception:
                log.exception("the changed configuration was not taken")


def _end_when_told(end: Callable[[], object] = lambda: os._exit(0)) -> None:
    """End at TERM or ^C while nothing has begun; a container's first process that says nothing would not hear TERM.

    Not by an exception: Python drops one that is raised while it collects what nobody needs, and TERM would be lost.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end())


def _listen(loaded: Settings) -> socket.socket:
    return ports.listen(loaded.osapi_share_listen, loaded.osapi_share_listen_port, loaded.api.backlog)


def _serve(loaded: Settings, process: str, listening: socket.socket) -> None:
    from abaca.cli import answering, serving

    made = app.api(loaded, process=process)
    address, port, said = loaded.osapi_share_listen, loaded.osapi_share_listen_port, loaded.api
    bounds = answering.Bounds(loaded.api_threads, said.waiting, said.body_timeout_s)
    limits = serving.Limits(said.backlog, said.connections, said.head_timeout_s, loaded.worker.stop_s)
    server = serving.Server(listening, answering.Answering(made.application, bounds, made.refuse), limits)
    processes.give_back_memory()
    signals.follow({signal.SIGTERM: server.stop, signal.SIGINT: server.stop, signal.SIGHUP: _gone(server.stop)})
    supervisor.take_hup()
    shown = f"[{address}]" if ":" in address else address

    def ready() -> None:
        log.info("the API answers at http://%s:%d/v2", shown, port)
        threading.Thread(target=made.warm_up, name="warm-up", daemon=True).start()

    server.serve(ready)


def _gone(stop: Callable[[], None]) -> Callable[[], None]:
    """What HUP does to an API: its terminal is gone, or it means changes, which wait for its next start."""
    return stop if not supervisor.is_told_of_changes() else lambda: None


def _alone(loaded: Settings) -> StateDirectory:
    """The state directory for a program that no supervisor has prepared it for."""
    state = StateDirectory(loaded.state_path)
    state.prepare()
    if loaded.uses_sqlite:
        state.claim_sqlite()
        state.make_sqlite(loaded.sqlite_file)
    return state


class Programs(NamedTuple):
    """What is supervised, and the socket that the API's processes answer at; `is_run`: of `abaca run`."""

    names: list[str]
    listening: socket.socket
    is_run: bool = False


def _supervise(loaded: Settings, given: Given, programs: Programs, state: StateDirectory) -> NoReturn:
    app.refuse_callers(loaded)  # once, before a worker takes up work beside an API that cannot start
    supervisor.become(
        supervisor.Plan(
            programs={name: _child(name, given) for name in programs.names},
            grace_s=loaded.worker.stop_s + MARGIN_S,
            sqlite_in=str(loaded.state_path) if loaded.uses_sqlite else None,
            logging=app.log_options(loaded),
            listening=programs.listening.fileno(),
            again=[sys.executable, "-m", "abaca", "run" if programs.is_run else "api", *given.again()],
        ),
        state.locks,
    )


def _names(loaded: Settings) -> list[str]:
    return [*(f"api-{number}" for number in range(loaded.osapi_share_workers)), "worker"]


def _child(name: str, given: Given) -> list[str]:
    command, _, number = name.partition("-")
    process = ["--process", name, "--listening", str(ports.HANDED_ON)] if number else []
    return [sys.executable, "-m", "abaca", command, "--supervisor", str(os.getpid()), *process, *given.again()]


def _upgrade_sqlite(loaded: Settings, given: Given) -> None:
    """Bring an older SQLite file to this release's revision; an empty one is made by whoever opens it first."""
    import sqlite3
    from urllib.parse import quote

    try:
        connection = sqlite3.connect(f"file:{quote(str(loaded.sqlite_file))}?mode=ro", uri=True)
        try:
            found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        finally:
            connection.close()
    except sqlite3.Error:
        # not there, without tables, or broken: who knows the difference costs more to load
        if loaded.sqlite_file.exists():
            app.refuse_database(loaded)
        return
    if found is not None and found[0] < HEAD:
        import subprocess

        log.info("upgrading the database from %s to %s", found[0], HEAD)
        upgrading = subprocess.Popen([sys.executable, "-m", "abaca", "db", "upgrade", *given.again()])
        _end_when_told(upgrading.terminate)
        status = upgrading.wait()
        _end_when_told()
        if status:
            sys.exit(0 if status == -signal.SIGTERM else status)
