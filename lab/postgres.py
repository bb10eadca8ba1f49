# SPDX-License-Identifier: Apache-2.0
"""A private PostgreSQL, as safe against power cuts as an installed one: fsync stays on."""

from __future__ import annotations

import os
import pathlib
import pwd
import re
import shutil
import signal
import time
from collections.abc import Mapping
from typing import Literal, Self

import psycopg
from psycopg import sql

from lab import processes, runs

_SUPERUSER = "abaca"
_HOST = "127.0.0.1"
_STOP_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}

StopMode = Literal["smart", "fast", "immediate"]


class Postgres:
    """A server on a free port of the loopback address, with its files in the run's directory.

    Started by root it runs as the user `postgres`. Raises `processes.Missing` if PostgreSQL is not installed. Files in
    a `directory` of one's own stay after the run, and the next one goes on with them. `settings` are the server's.
    """

    def __init__(
        self,
        run: runs.Run,
        name: str = "postgres",
        *,
        directory: pathlib.Path | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self._run = run
        self._name = name
        self._programs = _programs()
        self._user = _user()
        self._home = directory or run.path(name)
        self._settings = settings or {}
        self._data = self._home / "data"
        self._process: processes.Process | None = None
        self.port = processes.free_port(_HOST)
        self.started_in_s = 0.0

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    @property
    def process(self) -> processes.Process:
        """The running server; raises `LabError` when there is none."""
        if self._process is None:
            raise processes.LabError(f"{self._name} is not running")
        return self._process

    def start(self, timeout_s: float = 30.0) -> Self:
        """Return when connections are accepted; the data of an earlier start are still there."""
        begun = time.monotonic()
        if not self._data.exists():
            self._create_files()
        launch = processes.Launch(user=self._user, cwd=self._home)
        # where files stay the port is another each time
        settings = {"port": self.port, **self._settings}
        more = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        argv = [str(self._programs / "postgres"), "-D", str(self._data), *more]
        self._process = self._run.spawn(argv, log=f"{self._name}.log", launch=launch)
        processes.wait_until(self._accepts, timeout_s, self._name, self._process)
        self.started_in_s = time.monotonic() - begun
        return self

    def stop(self, mode: StopMode = "fast", timeout_s: float = 30.0) -> None:
        """Stop: `fast` ends all connections, `immediate` also leaves the database to recover, as after a power cut."""
        if self._process is not None:
            self._process.stop(timeout_s, by=_STOP_SIGNALS[mode])
            self._process = None

    def kill(self) -> None:
        """Take the whole server away at once by SIGKILL; its children notice and end."""
        children = processes.children(self.process.pid)
        self.process.kill()
        processes.wait_until(lambda: not any(map(processes.alive, children)), 10.0, f"the end of {self._name}")
        self._process = None

    def restart(self, mode: StopMode = "immediate") -> None:
        """Stop and start again on the same port."""
        self.stop(mode)
        self.start()

    def url(self, database: str = "postgres", driver: str = "postgresql+psycopg") -> str:
        """Return the SQLAlchemy address of a database; `driver="postgresql"` gives what psql and psycopg read."""
        return f"{driver}://{_SUPERUSER}@{_HOST}:{self.port}/{database}"

    def create_database(self, name: str, template: str = "template0") -> str:
        """Create a database as a copy of `template` (to which nobody may be connected) and return its address."""
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        self._execute(statement)
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, ending what is connected to it; it is no error if it does not exist."""
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(driver="postgresql"), autocommit=True, connect_timeout=10) as connection:
            connection.execute(statement)

    def _accepts(self) -> bool:
        try:
            psycopg.connect(self.url(driver="postgresql"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _create_files(self) -> None:
        if self._user:
            shutil.chown(self._home, self._user, self._user)
        self._home.chmod(0o750)
        launch = processes.Launch(user=self._user, cwd=self._home)
        options = ["--username", _SUPERUSER, "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
        argv = [str(self._programs / "initdb"), "-D", str(self._data), *options]
        initdb = self._run.spawn(argv, log=f"{self._name}-initdb.log", launch=launch)
        if initdb.wait(60.0) != 0:
            raise processes.LabError(f"initdb failed\n{initdb.log_tail()}")
        settings = {
            "listen_addresses": _HOST,
            "unix_socket_directories": "",
            "max_connections": 300,
            "fsync": "on",
            "logging_collector": "off",
            "log_line_prefix": "%m [%p] %d ",
        }
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())


def _programs() -> pathlib.Path:
    """The directory of the newest installed server: Debian does not put it on PATH."""
    versions = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=_version)
    if versions:
        return versions[-1].parent
    on_path = processes.find("postgres")
    if on_path is None:
        raise processes.Missing("postgres is missing: `make packages` installs postgresql")
    return pathlib.Path(on_path).resolve().parent


def _version(program: pathlib.Path) -> int:
    found = re.search(r"postgresql/(\d+)", str(program))
    return int(found.group(1)) if found else 0


def _user() -> str | None:
    """The user to run as: PostgreSQL refuses to be root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise processes.Missing("PostgreSQL does not run as root, and there is no user postgres")
