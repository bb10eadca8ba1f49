# SPDX-License-Identifier: Apache-2.0
"""Spans around requests, runs of operations and driver calls, for who turns `tracing` on.

Only OpenTelemetry's interface is used: what becomes of the spans is the business of the SDK that the operator starts
the programs with (`opentelemetry-instrument abaca run`). A span costs some microseconds, so nothing of this is in the
way when the option is off.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from opentelemetry.trace import TracerProvider

T = TypeVar("T")


class Tracing:
    """Makes spans with `provider`, or with the one that the SDK has set for the process."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        from opentelemetry import propagate, trace

        self._tracer = trace.get_tracer("abaca", tracer_provider=provider)
        self._kind = trace.SpanKind
        self._extract = propagate.extract

    def requests(
        self, application: WSGIApplication, route_key: str, is_waiting: Callable[[WSGIEnvironment], bool]
    ) -> WSGIApplication:
        """The application with a span around each request, named by the route that it leaves under `route_key`.

        One that was waiting has two: that of its first part says that it `abaca.waits`, and has no status.
        """

        def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            method = environ["REQUEST_METHOD"]
            sent = {
                "traceparent": environ.get("HTTP_TRACEPARENT", ""),
                "tracestate": environ.get("HTTP_TRACESTATE", ""),
            }
            context = self._extract({name: value for name, value in sent.items() if value})
            with self._tracer.start_as_current_span(method, context=context, kind=self._kind.SERVER) as span:
                span.set_attribute("http.request.method", method)

                def watch(status: str, headers: list[tuple[str, str]], *rest: Any) -> Callable[[bytes], object]:
                    if not is_waiting(environ):
                        span.set_attribute("http.response.status_code", int(status[:3]))
                    for name, value in headers:
                        if name == "x-openstack-request-id":
                            span.set_attribute("abaca.request_id", value)
                    return start_response(status, headers, *rest)

                try:
                    return application(environ, watch)
                finally:
                    if is_waiting(environ):
                        span.set_attribute("abaca.waits", True)
                    route = environ.get(route_key)
                    if route is not None:
                        span.update_name(f"{method} {route}")
                        span.set_attribute("http.route", route)

        return answer

    @contextlib.contextmanager
    def span(self, name: str, attributes: Mapping[str, str]) -> Iterator[None]:
        """A span of this name around the block."""
        with self._tracer.start_as_current_span(name, attributes=attributes):
            yield

    def driver_calls(
        self, backend: str, no_errors: tuple[type[Exception], ...] = ()
    ) -> Callable[[str, Callable[[], Any]], Any]:
        """What `drivers.wrappers.wrap` takes: a span around each call of the driver's methods.

        What it raises of `no_errors` is not an error of the span.
        """

        def around(name: str, call: Callable[[], T]) -> T:
            with self._tracer.start_as_current_span(f"driver {name}", attributes={"abaca.backend": backend}):
                try:
                    return call()
                except no_errors as raised:
                    passed = raised
            raise passed

        return around
