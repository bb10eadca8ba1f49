# SPDX-License-Identifier: Apache-2.0
"""What stands before the pipeline: it times every request and answers the load balancer and Prometheus.

These two are asked every few seconds, without a token, and must answer when the rest cannot: when the database is away
`/healthcheck` says so with a 503 and `/metrics` leaves out what only the database knows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy import exc

from abaca import metrics as figures
from abaca.db.engine.database import Database
from abaca.http import waiting

log = logging.getLogger(__name__)

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

# Where the pipeline leaves the route's template, so that figures are kept by route and not by address.
ROUTE = "abaca.route"
_BEGAN = "abaca.began"

# A server answers these beside all others: they are asked for when it has too much to do.
PATHS = frozenset(("/healthcheck", "/metrics"))


class Health:
    """Whether the database answers; asked at most once a second."""

    def __init__(self, db: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._db = db
        self._clock = clock
        self._until = 0.0
        self._reason: str | None = None

    def problem(self) -> str | None:
        """What is wrong, or None."""
        if self._clock() >= self._until:
            self._until = self._clock() + 1.0
            before, self._reason = self._reason, self._look()
            if self._reason != before:
                log.warning("health: %s", self._reason or "the database answers again")
        return self._reason

    def _look(self) -> str | None:
        try:
            with self._db.read() as tx:
                tx.scalar(sa.text("SELECT 1"))
        except exc.SQLAlchemyError:
            return "The database does not answer"
        return None


def front(application: Application, health: Health, metrics: figures.Metrics | None) -> Application:
    """The application with its front; without `metrics` nothing is counted and there is no `/metrics`."""

    def answer_health(start_response: Callable[..., Any]) -> Iterable[bytes]:
        problem = health.problem()
        body = msgspec.json.encode({"detailed": False, "reasons": [problem or "OK"]})
        status = "503 Service Unavailable" if problem else "200 OK"
        headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
        if problem:
            headers.append(("retry-after", "5"))
        start_response(status, headers)
        return [body]

    def answer_metrics(start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = metrics.text() if metrics else b""
        start_response("200 OK", [("content-type", figures.CONTENT_TYPE), ("content-length", str(len(body)))])
        return [body]

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/healthcheck":
            return answer_health(start_response)
        if metrics is None:
            return application(environ, start_response)
        if path == "/metrics":
            return answer_metrics(start_response)
        begin = environ.setdefault(_BEGAN, time.perf_counter())
        seen = "500"

        def watch(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            nonlocal seen
            seen = status[:3]
            return start_response(status, headers, *rest)

        try:
            return application(environ, watch)
        finally:
            if not waiting.is_waiting(environ):
                route = environ.get(ROUTE, "other")
                metrics.request(environ["REQUEST_METHOD"], route, seen, time.perf_counter() - begin)

    return answer
