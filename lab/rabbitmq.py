# SPDX-License-Identifier: Apache-2.0
"""A private RabbitMQ: one node on the loopback address, its files and its name service in the run's directory."""

from __future__ import annotations

import os
import pathlib
import pwd
import secrets
import shutil
from typing import Self

from lab import processes, runs

_HOST = "127.0.0.1"
_SERVER = pathlib.Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_USER = "abaca"


class RabbitMQ:
    """A broker on a free port. Started by root it runs as the user `rabbitmq`. Raises `processes.Missing`."""

    def __init__(self, run: runs.Run, name: str = "rabbitmq") -> None:
        if not _SERVER.exists():
            raise processes.Missing("rabbitmq-server is missing: `make packages` installs it")
        processes.need("epmd", package="rabbitmq-server")
        self._run = run
        self._name = name
        self._home = run.path(name)
        self._launch = processes.Launch(user=_user(), cwd=self._home, env=self._environment())
        self._process: processes.Process | None = None
        self._names: processes.Process | None = None
        self.password = secrets.token_urlsafe(18)

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

    @property
    def url(self) -> str:
        """The broker as oslo.messaging is told of it."""
        return f"rabbit://{_USER}:{self.password}@{_HOST}:{self.port}/"

    def start(self, timeout_s: float = 90.0) -> Self:
        """Return when it takes connections; durable queues of an earlier start are still there."""
        if self._names is None:
            self._write_files()
            epmd = ["epmd", "-port", str(self._names_port), "-address", _HOST]
            self._names = self._run.spawn(epmd, log=f"{self._name}-epmd.log", launch=self._launch)
            processes.wait_for_port(_HOST, self._names_port, 10.0, self._names)
        self._process = self._run.spawn([str(_SERVER)], log=f"{self._name}.log", launch=self._launch)
        processes.wait_for_port(_HOST, self.port, timeout_s, self._process)
        return self

    def stop(self, timeout_s: float = 30.0) -> None:
        """Stop it as TERM does; its name service goes with the run."""
        if self._process is not None:
            self._process.stop(timeout_s)
            self._process = None

    def _environment(self) -> dict[str, str]:
        self.port, self._names_port = processes.free_port(_HOST), processes.free_port(_HOST)
        node_port = processes.free_port(_HOST)
        return {
            "HOME": str(self._home),
            "ERL_EPMD_PORT": str(self._names_port),
            "ERL_EPMD_ADDRESS": _HOST,
            "RABBITMQ_NODENAME": f"{self._run.prefix}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": _HOST,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(node_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none",
            "RABBITMQ_MNESIA_BASE": str(self._home / "data"),
            "RABBITMQ_LOG_BASE": str(self._home / "logs"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": str(self._home / "pid"),
            "RABBITMQ_CONF_ENV_FILE": str(self._home / "environment"),
            "RABBITMQ_CONFIG_FILE": str(self._home / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self._home / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._home / "plugins"),
        }

    def _write_files(self) -> None:
        files = {
            "environment": "",
            "plugins": "[].\n",
            "rabbitmq.conf": f"default_user = {_USER}\ndefault_pass = {self.password}\n",
        }
        for name, text in files.items():
            (self._home / name).write_text(text)
        (self._home / "rabbitmq.conf").chmod(0o640)
        self._home.chmod(0o750)
        if self._launch.user:
            for path in (self._home, *(self._home / name for name in files)):
                shutil.chown(path, self._launch.user, self._launch.user)


def _user() -> str | None:
    """The user to run as; nobody but root can choose."""
    if os.geteuid() != 0:
        return None
    for name in ("rabbitmq", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise processes.Missing("RabbitMQ shall not run as root, and there is no user rabbitmq")
