# SPDX-License-Identifier: Apache-2.0
"""What Abaca counts and times, for Prometheus.

All processes of a host write into files of one directory, and whichever process is scraped answers for all of them: a
scrape of the API shows the worker too, and does not depend on which of several API processes took it. A process that
comes back goes on with its file, so counters survive restarts. What the database knows is asked from it at the scrape.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from abaca import errors

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

    from prometheus_client.metrics_core import Metric

REQUEST_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
WORK_S = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800)
# Anybody may send any word as a method; each of them would be a series of its own for ever.
METHODS = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"))
# Who connects and says nothing is let go after so long.
SILENT_S = 10
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# The kinds of metrics below, each kept in a file; there is room for some thousand series.
KINDS, RESERVED_BYTES = ("counter", "histogram"), 1 << 20


class Collector(Protocol):
    """Gives metrics at the scrape."""

    def collect(self) -> Iterable[Metric]: ...


class Metrics:
    """One process's part. `name` tells it from the others of the host and stays the same when it restarts."""

    def __init__(self, directory: Path, name: str) -> None:
        """Raises `OSError` when the directory cannot be written or has no room."""
        directory.mkdir(parents=True, exist_ok=True)
        for kind in KINDS:
            _reserve(directory / f"{kind}_{name}.db")
        # the library looks here for the directory, in all of its parts
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(directory)
        import prometheus_client
        from prometheus_client import values

        values.ValueClass = values.MultiProcessValue(lambda: name)  # type: ignore[no-untyped-call]
        own = prometheus_client.CollectorRegistry()
        self._requests = prometheus_client.Counter(
            "abaca_api_requests", "Requests answered.", ("method", "route", "status"), registry=own
        )
        self._request_s = prometheus_client.Histogram(
            "abaca_api_request_seconds", "Time to answer.", ("method", "route"), registry=own, buckets=REQUEST_S
        )
        self._operations = prometheus_client.Counter(
            "abaca_worker_operations", "Runs of operations by how they ended.", ("kind", "outcome"), registry=own
        )
        self._operation_s = prometheus_client.Histogram(
            "abaca_worker_operation_seconds", "Time of one run.", ("kind",), registry=own, buckets=WORK_S
        )
        self._change_s = prometheus_client.Histogram(
            "abaca_change_seconds",
            "Time from the acceptance of a change to its end.",
            ("change", "outcome"),
            registry=own,
            buckets=WORK_S,
        )
        self._ensured = prometheus_client.Counter(
            "abaca_ensured_shares", "Share instances by what ensuring found.", ("backend", "found"), registry=own
        )
        self._ensure_s = prometheus_client.Histogram(
            "abaca_ensure_page_seconds", "Time to ensure one page.", ("backend",), registry=own, buckets=WORK_S
        )
        self._driver_s = prometheus_client.Histogram(
            "abaca_driver_call_seconds", "Time of driver calls.", ("backend", "call"), registry=own, buckets=WORK_S
        )
        self._driver_errors = prometheus_client.Counter(
            "abaca_driver_errors", "Driver calls that failed.", ("backend", "call", "error"), registry=own
        )
        self._events = prometheus_client.Counter(
            "abaca_events", "Tries to deliver events, by how they ended.", ("target", "outcome"), registry=own
        )
        self._directory = directory
        self._collectors: list[Collector] = []
        # finding the labels' child takes longer than counting
        self._request = functools.lru_cache(4096)(
            lambda method, route, status: (
                self._requests.labels(method, route, status),
                self._request_s.labels(method, route),
            )
        )

    def request(self, method: str, route: str, status: str, seconds: float) -> None:
        """Count an answered request."""
        count, timing = self._request(method if method in METHODS else "other", route, status)
        count.inc()
        timing.observe(seconds)

    def operation(self, kind: str, outcome: str, seconds: float) -> None:
        """Count a run of an operation."""
        self._operations.labels(kind, outcome).inc()
        self._operation_s.labels(kind).observe(seconds)

    def change(self, name: str, outcome: str, seconds: float) -> None:
        """Count a change, such as `share.attach`, that has ended `done`, `failed` or `cancelled`."""
        self._change_s.labels(name, outcome).observe(seconds)

    def ensured(self, backend: str, counts: Mapping[str, int], seconds: float) -> None:
        """Count a page of shares that were ensured, by what was found."""
        for found, number in counts.items():
            self._ensured.labels(backend, found).inc(number)
        self._ensure_s.labels(backend).observe(seconds)

    def driver_call(self, backend: str, call: str, seconds: float, error: BaseException | None) -> None:
        """Count a call of a driver's method, and the error it ended with if it did."""
        self._driver_s.labels(backend, call).observe(seconds)
        if error is not None:
            self._driver_errors.labels(backend, call, type(error).__name__).inc()

    def events(self, target: str, delivered: int, failed: int) -> None:
        """Count events that a target has got, and tries that were in vain."""
        if delivered:
            self._events.labels(target, "delivered").inc(delivered)
        if failed:
            self._events.labels(target, "failed").inc(failed)

    def also(self, collector: Collector) -> None:
        """Ask `collector` too at each scrape."""
        self._collectors.append(collector)

    def text(self) -> bytes:
        """Everything, in Prometheus's text form."""
        from prometheus_client import CollectorRegistry, generate_latest, multiprocess

        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry, path=str(self._directory))  # type: ignore[no-untyped-call]
        for collector in self._collectors:
            registry.register(collector)
        return bytes(generate_latest(registry))

    def serve(self, address: str, port: int) -> None:
        """Answer scrapes on a port of this process's own, in threads. Raises `ConfigError`."""
        import socket
        import socketserver
        from wsgiref import simple_server

        class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
            daemon_threads = True
            address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

            def server_bind(self) -> None:
                """The usual one asks for the host's name, for as long as name servers are silent."""
                socketserver.TCPServer.server_bind(self)
                self.server_name, self.server_port = address, port
                self.setup_environ()

            def handle_error(self, *_args: object) -> None:
                """Whoever went away in the middle asks again."""

        class Quiet(simple_server.WSGIRequestHandler):
            timeout = SILENT_S

            def log_message(self, format: str, *args: object) -> None:
                """Scrapes are no news."""

        def answer(_environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
            body = self.text()
            start_response("200 OK", [("content-type", CONTENT_TYPE), ("content-length", str(len(body)))])
            return [body]

        try:
            server = simple_server.make_server(address, port, answer, Server, Quiet)
        except OSError as error:
            raise errors.ConfigError(
                problem=f"{address} port {port} cannot be listened on for metrics: {error.strerror}",
                mend="Stop what listens there, or set metrics_listen and metrics_port in [worker]",
            ) from None
        threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()


def _reserve(file: Path) -> None:
    """Take the file's room now. It is mapped: a page that the disk has no room for later would kill the process."""
    with file.open("ab") as opened:
        os.posix_fallocate(opened.fileno(), 0, RESERVED_BYTES)
