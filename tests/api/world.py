# SPDX-License-Identifier: Apache-2.0
"""A whole Abaca: configuration file, users file, database, the real application, and a worker process when asked.

Requests go through the WSGI application as a server would call it.
"""

import base64
import contextlib
import functools
import io
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import sqlalchemy

from abaca import app, settings
from abaca.api import doors
from abaca.api.versions import MAXIMUM
from abaca.db.engine.database import Database
from abaca.http import health, pipeline, users_file
from abaca.journal import questions, wakeup
from abaca.scheduler.known_pools import KnownPools
from tests.conftest import wait_until
from tests.databases import new_sqlite

PROJECT = "a1" * 16
OTHER_PROJECT = "b2" * 16
PASSWORD = "pencil"
NEWEST = f"2.{MAXIMUM}"
# who: project, roles
PEOPLE = {
    "admin": (PROJECT, "admin"),
    "member": (PROJECT, "member"),
    "reader": (PROJECT, "reader"),
    "service": (PROJECT, "service"),
    "other": (OTHER_PROJECT, "member"),
}
CONFIG = """
[DEFAULT]
host = testhost
state_path = {directory}
auth_strategy = http_basic
http_basic_auth_user_file = {directory}/users
default_share_type = default
enabled_share_backends = {enabled}
enabled_share_protocols = NFS,CIFS
{more}
[api]
metrics = false
[nodes]
plugin = rehearsal
mount_roots = /net
[alpha]
driver = dummy
export_ips = 10.0.0.10, 10.0.0.20
admin_export_ips = 11.0.0.11
{backend}
"""

# A back end of a worker that is not here.
ELSEWHERE = "testhost@elsewhere"
_LIVE = f"SELECT count(*) FROM operations WHERE finished_at IS NULL AND queue <> '{ELSEWHERE}'"  # noqa: S608


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: Any


@dataclass
class World:
    """An installation with its people."""

    directory: Path
    application: Any
    db: Database
    settings: settings.Settings
    has_worker: bool = False
    has_changed: bool = False
    passwords: dict[str, str] = field(default_factory=dict)

    def ask(self, who: str, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send one request; `path` is below /v2/{project} unless it starts with // (then one slash is cut)."""
        self.has_changed |= method != "GET"
        project = PEOPLE.get(who, (PROJECT, ""))[0]
        full = path[1:] if path.startswith("//") else f"/v2/{project}{path}"
        if who != "none":
            headers.setdefault("authorization", self.passwords[who])
        if body is not None:
            headers.setdefault("content-type", "application/json")
        raw = body.encode() if isinstance(body, str) else json.dumps(body).encode() if body is not None else b""
        return call(self.application, method, full, raw, headers)

    def serving_by(self, changed: settings.Settings, compute: Any = None) -> "World":
        """The same with an API that has other settings, and servers from elsewhere if that is said."""
        return replace(self, application=_application(changed, self.db, compute), settings=changed)

    def settle(self) -> None:
        """Wait until the worker has nothing left to do; what is queued for another worker is not its work."""
        if self.has_worker and self.has_changed:
            self.has_changed = False
            wait_until(lambda: self.number(_LIVE) == 0)

    def number(self, query: str) -> int:
        """The one number that a query gives."""
        with self.db.read() as tx:
            return int(tx.scalar(sqlalchemy.text(query)))


def call(
    application: Any,
    method: str,
    url: str,
    raw: bytes,
    headers: Mapping[str, str],
    *,
    says_length: bool = True,
    address: str = "127.0.0.1",
) -> Answer:
    """One request from `address` as a WSGI server makes it."""
    parts = urlsplit(url)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(parts.path).decode("latin-1"),
        "QUERY_STRING": parts.query,
        "SERVER_NAME": "share.example",
        "SERVER_PORT": "8786",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "share.example:8786",
        "REMOTE_ADDR": address,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(raw),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    if raw and says_length:
        environ["CONTENT_LENGTH"] = str(len(raw))
    for name, value in headers.items():
        key = name.upper().replace("-", "_")
        environ[key if key in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{key}"] = value
    started: list[Any] = []
    chunks = application(environ, lambda status, headers, exc_info=None: started.append((status, headers)))
    text = b"".join(chunks).decode()
    status, sent = started[0]
    found = {name.lower(): value for name, value in sent}
    is_json = found.get("content-type", "").startswith("application/json")
    return Answer(int(status[:3]), found, json.loads(text) if text and is_json else text or None)


def _application(loaded: settings.Settings, db: Database, compute: Any = None) -> Any:
    asked = questions.Questions(db, wakeup.NoListener)
    known = compute or app.compute(loaded, db)
    application = pipeline.make_app(loaded, db, doors.every(), compute=known, questions=asked, known_pools=KnownPools())
    return health.front(application, health.Health(db), None)


@functools.cache
def hashed(password: str, cost: int = users_file.CHEAPEST) -> str:
    """What a users file says of a password; each is made once."""
    return users_file.hashed(password, cost).decode()


@contextlib.contextmanager
def world(
    directory: Path, *, worker: bool, more: str = "", backend: str = "", enabled: str = "alpha"
) -> Iterator[World]:
    """A world in an empty directory; with `worker`, one that carries operations out.

    `enabled` names back ends beside alpha too, whose sections follow the lines of alpha's own in `backend`.
    """
    lines = [f"{name}:{hashed(PASSWORD)}:{project}:{roles}" for name, (project, roles) in PEOPLE.items()]
    (directory / "users").write_text("\n".join(lines))
    (directory / "abaca.conf").write_text(
        CONFIG.format(directory=directory, more=more, backend=backend, enabled=enabled)
    )
    loaded = settings.read([directory / "abaca.conf"], environ={}).settings
    file = directory / "abaca.sqlite"
    if loaded.database_url == f"sqlite:///{file}" and not file.exists():
        new_sqlite(file)
    db = app.ready_database(loaded, for_requests=True)
    made = World(directory, _application(loaded, db), db, loaded)
    for name in PEOPLE:
        secret = base64.b64encode(f"{name}:{PASSWORD}".encode()).decode()
        made.passwords[name] = f"Basic {secret}"
    with contextlib.ExitStack() as stack:
        stack.callback(made.db.close)
        if worker:
            made.has_worker = True
            stack.enter_context(working(made))
        yield made


@contextlib.contextmanager
def working(made: World) -> Iterator[None]:
    """A worker process of that world, serving its back end."""
    config = made.directory / "abaca.conf"
    with (made.directory / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "abaca", "worker", "--config-file", str(config)], stdout=log, stderr=log
        )
        try:
            wait_until(lambda: process.poll() is not None or made.number("SELECT count(*) FROM pools"))
            assert process.poll() is None, (made.directory / "worker.log").read_text()
            yield
        finally:
            process.terminate()
            process.wait(60)
