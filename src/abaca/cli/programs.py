# SPDX-License-Identifier: Apache-2.0
"""`abaca run`, `abaca api`, `abaca worker`: the programs that keep running.

`run` is a supervisor of the other two. Its own process stays small: it reads the settings, holds the lock and waits.
"""

from __future__ import annotations

import logging
import os
import queue
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import click

from abaca import app, errors
from abaca.cli import exits, ports, processes, supervisor
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
    worker take the changed options of drivers.
    """
    _end_when_told()
    supervisor.hold_hup()
    loaded = given.load().settings
    state = StateDirectory(loaded.state_path)
    state.prepare()
    state.lock("run", "Stop that `abaca run` first, or choose another --state-path")
    app.set_up_logs(loaded)
    os.umask(0o027)
    ports.refuse_unless_free(loaded.osapi_share_listen, loaded.osapi_share_listen_port)
    if loaded.uses_sqlite:
        state.claim_sqlite()
        _upgrade_sqlite(loaded, given)
        state.make_sqlite(loaded.sqlite_file)
    else:
        app.refuse_database(loaded)
    shutil.rmtree(loaded.state_path / "metrics", ignore_errors=True)
    _supervise(loaded, given, _names(loaded), state)


@click.command()
@configured
@supervised
@click.option("--process", default="api", hidden=True)
def api(given: Given, supervisor_pid: int | None, process: str) -> int:
    """Run the API; `osapi_share_workers` processes of it."""
    _end_when_told()
    loaded = given.load().settings
    app.set_up_logs(loaded)
    if supervisor_pid is not None:
        processes.die_with(supervisor_pid)
    else:
        ports.refuse_unless_free(loaded.osapi_share_listen, loaded.osapi_share_listen_port)
        state = _alone(loaded)
        if loaded.osapi_share_workers > 1:
            app.refuse_database(loaded)
            _supervise(loaded, given, [name for name in _names(loaded) if name != "worker"], state)
        if loaded.uses_sqlite:
            state.keep_sqlite()
    _serve(loaded, process)
    if supervisor_pid is None:
        state.release()
    return 0


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
    changes = Changes()
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

    def stop(*_: object) -> None:
        asked.asked()
        if asked.is_urgent:
            os._exit(exits.EX_FAILED)
        made.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    processes.give_back_memory()
    changes.follow(lambda: app.reload(made, loaded, given.load().settings))
    made.run()
    # Python would wait for calls that hang in a pool's threads; the lock stays until they are gone
    end = threading.Timer(END_S, os._exit, args=(0,))
    end.daemon = True
    end.start()
    return 0


class Changes:
    """Handles HUP from the moment this is made. A thread makes the changes that it asks for, one after the other."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[None] = queue.SimpleQueue()
        if supervisor.is_told_of_changes():
            signal.signal(signal.SIGHUP, lambda *_: self._asked.put(None))
        supervisor.take_hup()

    def follow(self, take: Callable[[], None]) -> None:
        """Call `take` at each HUP, in a thread; a `ConfigError` that it raises is logged."""
        threading.Thread(target=self._follow, args=(take,), name="changes", daemon=True).start()

    def _follow(self, take: Callable[[], None]) -> None:
        while True:
            self._asked.get()
            try:
                take()
            except errors.ConfigError as error:
                log.error("the changed configuration is refused and all stays as it was: %s", error.message)
            except Exception:
                log.exception("the changed configuration was not taken")


def _end_when_told() -> None:
    """End at TERM while nothing has begun; the kernel keeps it from a container's first process that says nothing."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


def _serve(loaded: Settings, process: str) -> None:
    from abaca.cli import serving

    server = serving.server(
        loaded.osapi_share_listen,
        loaded.osapi_share_listen_port,
        threads=loaded.api_threads,
        backlog=loaded.api.backlog,
        stop_s=loaded.worker.stop_s,
    )
    # Granian sets up logging for itself alone and closes what was open
    app.set_up_logs(loaded)
    application = app.api(loaded, process=process)
    processes.give_back_memory()
    address = loaded.osapi_share_listen
    shown = f"[{address}]" if ":" in address else address
    url = f"http://{shown}:{loaded.osapi_share_listen_port}/v2"
    serving.serve(server, application, lambda: log.info("the API answers at %s", url))


def _alone(loaded: Settings) -> StateDirectory:
    """The state directory for a program that no supervisor has prepared it for."""
    state = StateDirectory(loaded.state_path)
    state.prepare()
    if loaded.uses_sqlite:
        state.claim_sqlite()
        state.make_sqlite(loaded.sqlite_file)
    return state


def _supervise(loaded: Settings, given: Given, names: list[str], state: StateDirectory) -> NoReturn:
    supervisor.become(
        supervisor.Plan(
            programs={name: _child(name, given) for name in names},
            grace_s=loaded.worker.stop_s + MARGIN_S,
            sqlite_in=str(loaded.state_path) if loaded.uses_sqlite else None,
            logging=app.log_options(loaded),
        ),
        state.locks,
    )


def _names(loaded: Settings) -> list[str]:
    return [*(f"api-{number}" for number in range(loaded.osapi_share_workers)), "worker"]


def _child(name: str, given: Given) -> list[str]:
    command, _, number = name.partition("-")
    process = ["--process", name] if number else []
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
        done = subprocess.run([sys.executable, "-m", "abaca", "db", "upgrade", *given.again()], check=False)
        if done.returncode:
            sys.exit(done.returncode)
