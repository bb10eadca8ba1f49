# SPDX-License-Identifier: Apache-2.0
"""With `tracing` on, requests, runs and driver calls are spans; without it OpenTelemetry is not even loaded."""

import contextlib
import functools

import pytest
from opentelemetry import trace

from abaca.http import health, waiting
from abaca.tracing import Tracing


class Span(trace.NonRecordingSpan):
    """Keeps what it is told."""

    def __init__(self, name, context, attributes):
        super().__init__(trace.INVALID_SPAN_CONTEXT)
        self.name = name
        self.parent = trace.get_current_span(context).get_span_context()
        self.attributes = dict(attributes or {})

    def set_attribute(self, key, value):
        self.attributes[key] = value

    def update_name(self, name):
        self.name = name


class Provider(trace.TracerProvider, trace.Tracer):
    """Keeps the spans that were made."""

    def __init__(self):
        self.spans = []

    def get_tracer(self, *_args, **_options):
        return self

    def start_span(self, *_args, **_options):
        raise NotImplementedError

    @contextlib.contextmanager
    def start_as_current_span(self, name, context=None, kind=None, attributes=None, **_options):
        self.spans.append(Span(name, context, attributes))
        try:
            yield self.spans[-1]
        except Exception as error:
            self.spans[-1].attributes["error"] = str(error)
            raise


@pytest.fixture
def provider():
    return Provider()


def application(environ, start_response):
    environ[health.ROUTE] = "/v2/shares/{share_id}"
    start_response("200 OK", [("x-openstack-request-id", "req-1")])
    return [b""]


def test_a_request_is_a_span_named_by_its_route_below_that_of_the_client(provider):
    traced = Tracing(provider).requests(application, health.ROUTE, waiting.is_waiting)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    traced({"REQUEST_METHOD": "GET", "HTTP_TRACEPARENT": parent}, lambda *_: None)
    (span,) = provider.spans
    assert span.name == "GET /v2/shares/{share_id}"
    assert span.attributes == {
        "http.request.method": "GET",
        "http.response.status_code": 200,
        "http.route": "/v2/shares/{share_id}",
        "abaca.request_id": "req-1",
    }
    assert f"{span.parent.trace_id:032x}" == parent.split("-")[1]


def test_a_request_without_a_route_or_a_parent_is_a_span_too(provider):
    def missing(_environ, start_response):
        start_response("404 Not Found", [])
        return [b""]

    traced = Tracing(provider).requests(missing, health.ROUTE, waiting.is_waiting)
    traced({"REQUEST_METHOD": "GET"}, lambda *_: None)
    (span,) = provider.spans
    assert (span.name, span.attributes["http.response.status_code"]) == ("GET", 404)


def test_a_run_and_a_driver_call_are_spans(provider):
    tracing = Tracing(provider)
    with tracing.span("share-create", {"abaca.operation": "o1"}):
        assert tracing.driver_calls("alpha")("create", lambda: "made") == "made"
    outer, inner = provider.spans
    assert (outer.name, outer.attributes) == ("share-create", {"abaca.operation": "o1"})
    assert (inner.name, inner.attributes) == ("driver create", {"abaca.backend": "alpha"})


def test_what_a_driver_raises_is_an_error_of_its_span_unless_it_is_said_to_be_none(provider):
    def fail(error):
        raise error

    calls = Tracing(provider).driver_calls("alpha", (LookupError,))
    for error in (ValueError("broken"), LookupError("under way")):
        with pytest.raises(type(error)):
            calls("create", functools.partial(fail, error))
    assert [span.attributes.get("error") for span in provider.spans] == ["broken", None]


def test_a_request_that_waits_for_its_body_says_so_and_has_no_status_yet(provider):
    waits = waiting.Waits()
    traced = Tracing(provider).requests(application, health.ROUTE, waiting.is_waiting)
    waits.wanted = waiting.Body(1)
    traced({"REQUEST_METHOD": "POST", waiting.KEY: waits}, lambda *_: None)
    waits.wanted = None
    traced({"REQUEST_METHOD": "POST", waiting.KEY: waits}, lambda *_: None)
    first, second = (span.attributes for span in provider.spans)
    assert (first["abaca.waits"], "http.response.status_code" in first) == (True, False)
    assert (second.get("abaca.waits"), second["http.response.status_code"]) == (None, 200)
