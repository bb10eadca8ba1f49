# SPDX-License-Identifier: Apache-2.0
"""The API: the doors, with health and figures before them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from abaca.app.checks import check
from abaca.app.databases import listener, ready_database
from abaca.app.observability import open_metrics, set_up_logs, tracing
from abaca.app.servers import compute

if TYPE_CHECKING:
    from collections.abc import Callable
    from wsgiref.types import WSGIApplication

    from abaca import errors
    from abaca.http import faults
    from abaca.settings import Settings

# The id of what no request was made of.
NO_REQUEST = "-"
SYSTEM_CONFIG = Path("/etc/abaca/abaca.conf")


class Api(NamedTuple):
    """The WSGI application, and what its process does beside the first requests, so that they need not wait for it.

    `refuse` answers a path with an error where the application is not asked.
    """

    application: WSGIApplication
    warm_up: Callable[[], None]
    refuse: Callable[[str, errors.AbacaError], faults.Fault]


def api(settings: Settings, *, process: str = "api") -> Api:
    """The API. Raises `ConfigError`."""
    from abaca.api import doors, warming
    from abaca.app import figures
    from abaca.http import health, pipeline, waiting
    from abaca.journal import questions
    from abaca.scheduler.known_pools import KnownPools

    db = ready_database(settings, for_requests=True)
    db.keep_time()
    metrics = open_metrics(settings, f"{process}-{settings.osapi_share_listen_port}") if settings.api.metrics else None
    if metrics is not None:
        metrics.also(figures.Queues(db))
        metrics.also(figures.Attachments(db))
        metrics.also(figures.Certificates(db))
        metrics.also(figures.Devices(db))
        if settings.event_targets:
            metrics.also(figures.Events(db))
    asked = questions.Questions(db, lambda: listener(settings, db, process))
    placing = KnownPools()
    parts = pipeline.make_parts(
        settings, db, doors.every(), compute=compute(settings, db), questions=asked, known_pools=placing
    )
    application = pipeline.application(parts)
    spans = tracing(settings)
    traced = spans.requests(application, health.ROUTE, waiting.is_waiting) if spans is not None else application
    front = health.front(traced, health.Health(db), metrics)
    return Api(
        front, lambda: warming.warm_up(parts), lambda path, error: pipeline.refusal(parts, path, error, NO_REQUEST)
    )


def wsgi() -> WSGIApplication:
    """The application for any WSGI server that takes a factory: `abaca.app:wsgi()`, with the system's configuration."""
    from abaca import settings

    named = os.environ.get("ABACA_CONFIG")
    loaded = settings.read([named] if named else [SYSTEM_CONFIG] if SYSTEM_CONFIG.is_file() else []).settings
    check(loaded)
    set_up_logs(loaded)
    return api(loaded, process=f"api-{os.getpid()}").application
