# SPDX-License-Identifier: Apache-2.0
"""What scripts find on nodes on paper (gluster_nodes.py): `gluster`, and mounts of its volumes.

The scripts are real, run by a real shell, and so is what copies. A mount puts the volume's content into a file of the
directory, `umount` reads it from there and leaves the directory empty. Who mounts is the node's certificate.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import socketserver
import stat
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

from cryptography import x509
from cryptography.x509.oid import NameOID

FILE = "file"
NODE = "ABACA_LAB_NODE"
"""In the environment of scripts: on which node they run."""
_ALLOW = "auth.ssl-allow"
_NAMES = ("gluster", "mount", "umount", "mountpoint", "sync", "cp", "sleep", "mount.glusterfs")
_PROGRAM = f"""#!{sys.executable} -IS
import json, os, socket, sys
name = os.path.basename(sys.argv[0])
asked = [os.environ["{NODE}"], os.getcwd(), name, sys.argv[1:]]
with socket.socket(socket.AF_UNIX) as line:
    line.connect(os.path.join(os.path.dirname(sys.argv[0]), "socket"))
    line.sendall(json.dumps(asked).encode() + b"\\n")
    code, said = json.loads(line.makefile().readline())
if name == "cp" and not code:
    os.execv("/bin/cp", ["cp", *sys.argv[1:]])
print(said, file=sys.stderr if code else sys.stdout)
sys.exit(code)
"""


class Volume(Protocol):
    """What is mounted."""

    options: dict[str, str]
    is_started: bool
    content: str
    root: tuple[int, int, int]


class Cluster(Protocol):
    """What the nodes of a cluster know together, as far as programs use it."""

    volumes: Any
    frozen: Any
    activated: set[str]

    def run(self, words: list[str]) -> tuple[int, str]:
        """The exit code of `gluster WORDS`, and what it says."""


class Programs:
    """The programs of all nodes, in `bin`; what is mounted on them, by the directories.

    Nobody sleeps, and nothing is copied unless `copies` is set. `fails` is what a program says when it fails, by its
    name, or by its name and a node's. `gluster` is what a node's gluster says. `path` is where scripts find all others.
    """

    def __init__(self, cluster: Cluster, directory: pathlib.Path) -> None:
        self._cluster = cluster
        self._directory = directory
        self.bin = directory / "bin"
        self.mounts: dict[pathlib.Path, Volume] = {}
        self.copies = threading.Event()
        self.copies.set()
        self.fails: dict[str, str] = {}
        self.path = os.environ["PATH"]
        self.gluster: Callable[[str, list[str]], tuple[int, str]] = lambda _host, words: cluster.run(words)
        self._server: socketserver.BaseServer | None = None

    def start(self) -> None:
        self.bin.mkdir()
        for name in _NAMES:
            (self.bin / name).write_text(_PROGRAM)
            (self.bin / name).chmod(0o755)
        answer = self._answer

        class Line(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError, ValueError):  # who asked was killed
                    self.wfile.write(json.dumps(answer(*json.loads(self.rfile.readline()))).encode() + b"\n")

        self._server = socketserver.ThreadingUnixStreamServer(str(self.bin / "socket"), Line)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.copies.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _answer(self, host: str, directory: str, name: str, words: list[str]) -> tuple[int, str]:
        said = self.fails.get(f"{name} {host}", self.fails.get(name))
        if said is not None:
            return 1, said
        if name == "gluster":
            return self.gluster(host, words)
        if name == "cp":
            self.copies.wait()
        elif name not in {"sync", "sleep"}:
            return getattr(self, f"_{name}")(host, pathlib.Path(directory, words[-1]), words)
        return 0, ""

    def _mount(self, host: str, place: pathlib.Path, words: list[str]) -> tuple[int, str]:
        path = words[-2].partition(":/")[2]
        volume = self._mountable(path)
        if volume is None or not place.is_dir() or self._name_of(host) not in volume.options[_ALLOW].split(","):
            return 1, "Mount failed. Check the log file for more details."
        self.mounts[place] = volume
        if volume.content:
            (place / FILE).write_text(volume.content)
        mode, owner, group = volume.root
        if os.geteuid() == 0:
            os.chown(place, owner, group)
            place.chmod(mode)
        return 0, ""

    def _mountable(self, path: str) -> Volume | None:
        if path.startswith("snaps/"):
            snapshot = path.split("/")[1]
            return self._cluster.frozen[snapshot] if snapshot in self._cluster.activated else None
        volume = self._cluster.volumes.get(path)
        return volume if volume is not None and volume.is_started else None

    def _name_of(self, host: str) -> Any:
        pem = (self._directory / host / "ssl" / "glusterfs.pem").read_bytes()
        return x509.load_pem_x509_certificate(pem).subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value

    def _mountpoint(self, host: str, place: pathlib.Path, words: list[str]) -> tuple[int, str]:
        return (0 if place in self.mounts else 32), ""

    def _umount(self, host: str, place: pathlib.Path, words: list[str]) -> tuple[int, str]:
        volume = self.mounts.pop(place, None)
        if volume is None:
            return 32, f"umount: {place}: not mounted."
        if not any(volume is one for one in self._cluster.frozen.values()):
            volume.content = (place / FILE).read_text() if (place / FILE).exists() else ""
            seen = place.stat()
            volume.root = (stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid)
        for path in place.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return 0, ""
