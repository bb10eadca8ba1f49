# SPDX-License-Identifier: Apache-2.0
"""What a process of the API does beside its first requests: it asks itself what most callers ask.

Else each of the first callers waits for what is made once: connections to the database, the SQL of statements, what
the policy decides, how rows are shown, modules that are loaded at their first use. The callers here have a project
without anything, and what they make is taken back: no cost grows with what there is.
"""

from __future__ import annotations

import dataclasses
import io
import logging
import sys
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import exc

from abaca import errors, logs
from abaca.api import versions
from abaca.domain.callers import Identity, with_implied
from abaca.http import auth, pipeline, reading

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

log = logging.getLogger(__name__)

# SQLAlchemy runs a statement at first, then it is compiled, and then run as it will be (db/engine/statements.py).
ROUNDS = 3
NOTHING = "00000000-0000-0000-0000-000000000000"
REQUESTS: tuple[tuple[str, str, object], ...] = (
    ("GET", "/v2/shares/detail", None),
    ("GET", "/v2/shares", None),
    ("GET", f"/v2/shares/{NOTHING}", None),
    ("GET", f"/v2/share-access-rules?share_id={NOTHING}", None),
    ("GET", "/abaca/v1/attachments", None),
    ("POST", "/v2/shares", {"share": {"share_proto": "NFS", "size": 1}}),
)


class Nobody:
    """Takes every request for one of a caller who has nothing."""

    challenge = "none"

    def __init__(self, role: str) -> None:
        nobody = uuid.uuid4().hex
        self._identity = Identity(nobody, nobody, with_implied(frozenset((role,))))

    def identify(self, environ: Mapping[str, object]) -> Identity:
        return self._identity


def warm_up(parts: pipeline.Parts) -> None:
    """Open connections and ask what is asked most; whatever fails now will tell whoever asks for it."""
    settings, db = parts.settings, parts.db.rehearsal()
    connections = min(settings.api_threads, settings.database.max_pool_size)
    with logs.quiet():
        try:
            db.open_connections(connections)
            if isinstance(parts.strategy, auth.Keystone):
                parts.strategy.reach()
        except (exc.SQLAlchemyError, errors.AbacaError):
            log.debug("not warmed up", exc_info=True)
            return
        applications = [
            pipeline.application(dataclasses.replace(parts, db=db, strategy=Nobody(role)))
            for role in ("member", "admin")
        ]
        # the pools hand out their connections in turn, so that each of them gets some
        for _ in range(max(ROUNDS, connections)):
            for application in applications:
                for method, url, body in REQUESTS:
                    _ask(application, method, url, body)


def _ask(application: WSGIApplication, method: str, url: str, body: object) -> None:
    raw = b"" if body is None else msgspec.json.encode(body)
    path, _, query = url.partition("?")
    environ = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "CONTENT_TYPE": reading.JSON,
        "CONTENT_LENGTH": str(len(raw)),
        "HTTP_X_OPENSTACK_MANILA_API_VERSION": versions.VERSIONS[versions.MAXIMUM][0],
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "0",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(raw),
        "wsgi.errors": sys.stderr,
    }
    application(environ, lambda _status, _headers, _exc_info=None: bytearray().extend)
