# SPDX-License-Identifier: Apache-2.0
"""`abaca run` as a component, with the configuration that a test or the tour wants."""

from __future__ import annotations

import http.client
import os
import pathlib
import secrets
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Self

import bcrypt

from lab import processes, runs

_HOST = "127.0.0.1"
_KEEP_BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}

Sections = Mapping[str, Mapping[str, object]]


def check_port(port: int) -> None:
    """Return if the API can listen there; raises `LabError` with the mend: another one there might seem healthy."""
    if not processes.is_free(_HOST, port):
        other = next((one for one in range(port + 1, 65536) if processes.is_free(_HOST, one)), 8787)
        mend = f"Stop what listens there, or take another: `make run PORT={other}`"
        raise processes.LabError(f"{_HOST} port {port} is taken. {mend}")


class Service:
    """An API and a worker on loopback. `sections` are those of the configuration file, over the defaults given here.

    `url` is known before it starts. `directory` (the run's own if not given) holds all state and the configuration.
    """

    def __init__(
        self, run: runs.Run, sections: Sections, *, directory: pathlib.Path | None = None, port: int | None = None
    ) -> None:
        self._run = run
        self.directory = directory or run.path("abaca")
        self.port = port or processes.free_port(_HOST)
        self.url = f"http://{_HOST}:{self.port}"
        self.configuration = self.directory / "abaca.conf"
        self._sections = {section: dict(options) for section, options in sections.items()}
        self._process: processes.Process | None = None
        self.started_in_s = 0.0

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    @property
    def process(self) -> processes.Process:
        """The supervisor of the API and the worker; raises `LabError` when there is none."""
        if self._process is None:
            raise processes.LabError("abaca is not running")
        return self._process

    def start(self, timeout_s: float = 60.0, before: Sequence[str] = ()) -> Self:
        """Return when the API is healthy; raises `LabError` with the end of the log when it does not come up.

        `before` are programs that start it in their way: `["env", "PATH=/nowhere"]`.
        """
        check_port(self.port)
        begun = time.monotonic()
        self._process = self.spawn("run", before=before)
        processes.wait_until(self.is_healthy, timeout_s, "abaca", self._process)
        self.started_in_s = time.monotonic() - begun
        return self

    def spawn(self, program: str, before: Sequence[str] = ()) -> processes.Process:
        """Start one of the programs that keep running (`run`, `api`, `worker`) and do not wait for it."""
        argv = [*before, *self._argv(program)]
        name = self.directory.name if program == "run" else f"{self.directory.name}-{program}"
        return self._run.spawn(argv, log=f"{name}.log", launch=processes.Launch(env=_KEEP_BYTECODE))

    def configure(self, section: str, **options: object) -> None:
        """Change options in the file, or take out those that are None; who reads it, and when, is another matter."""
        known = self._sections.setdefault(section, {}) | options
        self._sections[section] = {option: value for option, value in known.items() if value is not None}
        self._write_configuration()

    def reload(self) -> None:
        """Say that the file has changed."""
        os.kill(self.process.pid, signal.SIGHUP)

    def command(self, *words: str) -> str:
        """Run a command such as `operation list --json` and return its output; raises `LabError` when it fails."""
        return processes.command(self._argv(*words), timeout_s=120.0)

    def upgrade_database(self) -> None:
        """Make the tables in a database that is not SQLite, which needs it before the first start."""
        self.command("db", "upgrade")

    def stop(self, timeout_s: float = 30.0) -> None:
        """Let what runs end, as TERM does. What users have mounted stays served."""
        if self._process is not None:
            self._process.stop(timeout_s)
            self._process = None

    def kill(self) -> None:
        """Kill the supervisor, and with it the API and the worker, as a power cut would."""
        children = processes.children(self.process.pid)
        self.process.kill()
        processes.wait_until(lambda: not any(map(processes.alive, children)), 10.0, "the end of abaca")
        # a process counts as ended when its first thread has, and what it listened on goes with the last of them
        processes.wait_until(lambda: processes.is_free(_HOST, self.port), 10.0, f"the end of who has port {self.port}")
        self._process = None

    def is_healthy(self) -> bool:
        """Say whether the API answers and reaches its database."""
        connection = http.client.HTTPConnection(_HOST, self.port, timeout=5.0)
        try:
            connection.request("GET", "/healthcheck")
            return connection.getresponse().status == http.client.OK
        except OSError:
            return False
        finally:
            connection.close()

    def _argv(self, *words: str) -> list[str]:
        self._write_configuration()
        return [sys.executable, "-m", "abaca", *words, "--config-file", str(self.configuration)]

    def _write_configuration(self) -> None:
        sections: dict[str, dict[str, object]] = {
            "DEFAULT": {
                "state_path": self.directory / "state",
                "osapi_share_listen": _HOST,
                "osapi_share_listen_port": self.port,
            }
        }
        for section, options in self._sections.items():
            sections.setdefault(section, {}).update(options)
        text = ""
        for section, options in sections.items():
            lines = [f"{option} = {str(value).replace('$', '$$')}\n" for option, value in options.items()]
            text += f"[{section}]\n{''.join(lines)}\n"
        self.configuration.touch(mode=0o600)
        if self.configuration.read_text() != text:
            self.configuration.write_text(text)


def write_users(file: pathlib.Path, users: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Write the users file of `http_basic` and return a new password for each user.

    `users` maps a name to a project id and roles with commas between.
    """
    passwords = {name: secrets.token_urlsafe(12) for name in users}
    file.touch(mode=0o600)
    hashes = {name: bcrypt.hashpw(passwords[name].encode(), bcrypt.gensalt(10)).decode() for name in users}
    file.write_text("".join(f"{name}:{hashes[name]}:{project}:{roles}\n" for name, (project, roles) in users.items()))
    return passwords
