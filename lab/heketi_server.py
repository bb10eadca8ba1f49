# SPDX-License-Identifier: Apache-2.0
"""A real Heketi 9.0.0 on loopback, which logs in to real nodes; `make packages` builds it (heketi_build/)."""

from __future__ import annotations

import hashlib
import http.client
import json
import pathlib
import re
import secrets
import time
from collections.abc import Sequence
from typing import Any

from abaca.drivers.clients import heketi
from lab import gluster_machines, processes, runs

CACHE = pathlib.Path("/var/cache/abaca-lab/heketi")
"""Where heketi_build/build.sh keeps it."""
_SOURCES = pathlib.Path(__file__).with_name("heketi_build")
_HOST = "127.0.0.1"
# How often Heketi looks at its nodes; by itself it does every 120 s.
REFRESH_S = 10
_LOG = "heketi.log"
_LOOKED_AT = "Check Glusterd service status in node {}"
_FOUND = re.compile(r"Periodic health check status: node \w+ up=(true|false)")


class NotBuilt(processes.LabError):
    """There is no Heketi: it could not be built, since its release or its compiler cannot be had here."""


def program() -> pathlib.Path:
    """Return the server's program; raises `NotBuilt`."""
    return _built("heketi")


def command_line() -> pathlib.Path:
    """Return `heketi-cli`; raises `NotBuilt`."""
    return _built("heketi-cli")


def _built(name: str) -> pathlib.Path:
    whole = b"".join(path.read_bytes() for path in sorted(_SOURCES.iterdir()))
    place = CACHE / hashlib.sha256(whole).hexdigest()[:16] / name
    if not place.exists():
        raise NotBuilt(f"{place} is missing: `make packages` builds it with Go, and says why it could not")
    return place


class HeketiServer:
    """Heketi with its database in `directory`; it logs in to nodes as root by the private key `ssh_key`.

    Without a key it only says that it does: its own mock executor takes every node and every volume for real. It looks
    at its nodes every `refresh_s` seconds, and makes no volume meanwhile.
    """

    def __init__(
        self, run: runs.Run, directory: pathlib.Path, ssh_key: pathlib.Path | None, refresh_s: int = REFRESH_S
    ) -> None:
        self._program = program()
        self._run = run
        self._directory = directory
        self._port = processes.free_port(_HOST)
        self._process: processes.Process | None = None
        self.url = f"http://{_HOST}:{self._port}"
        self.key_file = directory / "heketi.key"
        self.database = directory / "heketi.db"
        self._key = secrets.token_hex(16)
        self.key_file.write_text(f"{self._key}\n")
        ssh = {"keyfile": str(ssh_key), "user": "root", "port": "22", "fstab": gluster_machines.FSTAB}
        settings = {
            "use_auth": True,
            "jwt": {"admin": {"key": self._key}, "user": {"key": self._key}},
            "glusterfs": {
                "executor": "ssh" if ssh_key else "mock",
                "db": str(self.database),
                "loglevel": "debug",
                "refresh_time_monitor_gluster_nodes": refresh_s,
                "start_time_monitor_gluster_nodes": 1,
                "sshexec": ssh,
            },
        }
        self._configuration = directory / "heketi.json"
        self._configuration.write_text(json.dumps(settings))

    def start(self) -> None:
        """Return when it answers."""
        argv = [str(self._program), str(self._configuration), f"{_HOST}:{self._port}"]
        self._process = self._run.spawn(argv, log=_LOG)
        processes.wait_for_port(_HOST, self._port, 60.0, self._process)

    def kill(self) -> None:
        """End it at once; what it was at stays begun."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def environment(self) -> dict[str, str]:
        """What `heketi-cli` needs to be found, and to ask this Heketi as its administrator."""
        who = {"HEKETI_CLI_SERVER": self.url, "HEKETI_CLI_USER": "admin", "HEKETI_CLI_KEY": self._key}
        return {"PATH": f"{command_line().parent}:/usr/bin:/bin", **who}

    def load(self, hosts: Sequence[str], disks: Sequence[str] = (gluster_machines.DISK,)) -> str:
        """Make a cluster of nodes that have these disks each, as `heketi-cli topology load` does; return its id."""
        cluster = str(self._asked("/clusters", {"file": True, "block": False})["id"])
        for zone, host in enumerate(hosts, 1):
            names = {"manage": [host], "storage": [host]}
            node = self._asked("/nodes", {"zone": zone, "cluster": cluster, "hostnames": names})
            for disk in disks:
                self._asked("/devices", {"node": node["id"], "name": disk})
        return cluster

    def is_at(self, kind: str) -> bool:
        """Whether it has begun work of the kind, such as `create-volume`, and not ended it."""
        status, _, text = self._send("GET", "/operations/pending")
        found = json.loads(text)["pendingoperations"] if status == 200 else []
        return any(one["type_name"] == kind for one in found)

    def misses(self, host: str) -> bool:
        """Whether it found the node away when it last looked; until then it puts bricks there."""
        log = (self._run.directory / _LOG).read_text(errors="replace")
        _, looked_at, since = log.rpartition(_LOOKED_AT.format(host))
        found = _FOUND.search(since) if looked_at else None
        return found is not None and found[1] == "false"

    def _asked(self, path: str, body: object) -> Any:
        status, place, text = self._send("POST", path, body)
        if place.startswith("/queue/"):
            queue = place
            status, place, text = processes.wait_until(lambda: self._ended(queue), processes.PATIENCE_S, path)
        if status == 303:
            status, _, text = self._send("GET", place)
        if status >= 400:
            raise processes.LabError(f"Heketi, {path}: {status}: {text.strip()}")
        return json.loads(text) if text.strip() else None

    def _ended(self, queue: str) -> tuple[int, str, str] | None:
        """What came of its work, told once; None while that goes on."""
        answer = self._send("GET", queue)
        return None if answer[0] == 200 else answer

    def _send(self, method: str, path: str, body: object = None) -> tuple[int, str, str]:
        token = heketi.token(self._key.encode(), method, path, time.time())
        connection = http.client.HTTPConnection(_HOST, self._port, timeout=60.0)
        try:
            content = None if body is None else json.dumps(body)
            headers = {"Authorization": f"bearer {token}", "Content-Type": "application/json"}
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
            return answer.status, answer.headers.get("Location", ""), answer.read().decode()
        finally:
            connection.close()
