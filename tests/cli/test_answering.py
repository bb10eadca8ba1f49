# SPDX-License-Identifier: Apache-2.0
"""Whoever is slow, or never ends, holds no thread: requests as clients send them, to the real server."""

import contextlib
import http.client
import json
import socket
import subprocess
import sys
import threading
import time

import pytest

from abaca.cli import answering, ports, serving
from abaca.http import waiting
from tests.conftest import wait_until

MOST = 1000


class Application:
    """Answers with the body that it was sent; a request to /held waits in its thread until `release`."""

    def __init__(self):
        self.release = threading.Event()
        self.held = 0

    def __call__(self, environ, start_response):
        if environ["PATH_INFO"] == "/held":
            self.held += 1
            assert self.release.wait(60)
        waits = environ[waiting.KEY]
        status, body = "200 OK", repr(environ.get("HTTP_X_SAID", "")).encode()
        if environ["REQUEST_METHOD"] == "POST":
            if waits.body is None and waits.error is None:
                waits.wanted = waiting.Body(MOST)
                return []
            error = waits.error
            status, body = (f"{error.status} No", error.message.encode()) if error else (status, waits.body)
        start_response(status, [("content-length", str(len(body)))])
        return [body]


class Served:
    """A server of that application, with two threads."""

    def __init__(self, *, waiting=1000, body_s=30.0, head_s=30.0, connections=500, listening=None):
        self.application = Application()
        self.listening = listening or ports.listen("127.0.0.1", 0, 1024)
        self.port = self.listening.getsockname()[1]
        answers = answering.Answering(self.application, answering.Bounds(2, waiting, body_s))
        self.server = serving.Server(self.listening, answers, serving.Limits(1024, connections, head_s, 30.0))
        self._thread = threading.Thread(target=self.server.serve, args=(lambda: None,))
        self._open = contextlib.ExitStack()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._open.close()
        self.application.release.set()
        self.server.stop()
        self._thread.join(60)
        assert not self._thread.is_alive()

    @property
    def is_alive(self):
        return self._thread.is_alive()

    def connect(self, raw=b""):
        connection = socket.create_connection(("127.0.0.1", self.port), 10)
        self._open.callback(connection.close)
        connection.sendall(raw)
        return connection

    def ask(self, method="GET", path="/", body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers, encode_chunked=True)
            answer = connection.getresponse()
            return answer.status, answer.read()


@pytest.fixture
def serve():
    with contextlib.ExitStack() as opened:
        yield lambda **options: opened.enter_context(Served(**options))


HEAD = b"POST / HTTP/1.1\r\nHost: here\r\n"
WITH_LENGTH = HEAD + b"Content-Length: 100\r\n\r\nx"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n64\r\nx"


def status_of(connection):
    """What a connection was answered; 0 when it was closed without an answer."""
    said = connection.recv(100)
    return int(said.split()[1]) if said else 0


@pytest.mark.parametrize("raw", [WITH_LENGTH, CHUNKED, b"POST / HTT"], ids=["length", "chunked", "head"])
def test_a_hundred_requests_that_never_end_hold_nobody_up(serve, raw):
    served = serve()
    assert all(served.connect(raw) for _ in range(100))
    took_s = []
    for _ in range(20):
        began_s = time.monotonic()
        assert served.ask(path="/")[0] == 200
        took_s.append(time.monotonic() - began_s)
    assert sorted(took_s)[10] < 1
    assert served.ask("POST", body=b"a body") == (200, b"a body")


@pytest.mark.parametrize("raw", [WITH_LENGTH, CHUNKED, CHUNKED.replace(b"64\r\nx", b"1\r\nx\r\n")])
def test_a_body_that_is_cut_off_is_refused(serve, raw):
    connection = serve().connect(raw)
    connection.shutdown(socket.SHUT_WR)
    assert status_of(connection) == 400


def test_a_chunked_body_is_taken_whole_and_up_to_its_bound(serve):
    served = serve()
    assert served.ask("POST", body=iter([b"a", b"bc", b"d" * (MOST - 3)])) == (200, b"abc" + b"d" * (MOST - 3))
    assert served.ask("POST", body=iter([b"a" * MOST, b"b"]))[0] == 413


@pytest.mark.parametrize("raw", [WITH_LENGTH, CHUNKED], ids=["length", "chunked"])
def test_a_body_that_does_not_come_in_time_is_told_so(serve, raw):
    assert status_of(serve(body_s=0.2).connect(raw)) == 408


@pytest.mark.parametrize("raw", [b"", b"GET / HTTP/1.1\r\nHo", b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"])
def test_a_connection_on_which_no_request_comes_is_closed(serve, raw):
    """At first, in the middle of a head, and after an answer."""
    connection = serve(head_s=0.2).connect(raw)
    connection.settimeout(60)
    said = b"".join(iter(lambda: connection.recv(1000), b""))
    assert said.count(b"HTTP/1.1 200") == raw.count(b"Host: here")


def test_requests_beyond_those_that_may_wait_are_told_to_come_again(serve):
    served = serve(waiting=3)
    held = [served.connect(b"GET /held HTTP/1.1\r\nHost: here\r\n\r\n") for _ in range(2)]
    wait_until(lambda: served.application.held == 2)
    waiting = [served.connect(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n") for _ in range(3)]
    refused = wait_until(lambda: [answer for answer in [served.ask()] if answer[0] == 503])
    assert json.loads(refused[0][1])["serviceUnavailable"]["code"] == 503
    served.application.release.set()
    assert [status_of(connection) for connection in [*held, *waiting]] == [200] * 5


def test_health_is_answered_while_all_threads_are_taken(serve):
    served = serve()
    [served.connect(b"GET /held HTTP/1.1\r\nHost: here\r\n\r\n") for _ in range(5)]
    wait_until(lambda: served.application.held == 2)
    assert served.ask(path="/healthcheck")[0] == 200


def test_who_does_not_read_the_answer_holds_nobody_up(serve):
    served = serve(connections=100)
    ask = b"GET / HTTP/1.1\r\nHost: here\r\nX-Said: " + b"x" * 4000 + b"\r\n\r\n"
    for _ in range(50):
        connection = served.connect()
        connection.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            connection.sendall(ask * 500)
    assert served.ask()[0] == 200


def test_a_request_comes_to_the_application_as_any_wsgi_server_brings_it(serve):
    served = serve()
    seen = {}

    def application(environ, start_response):
        seen.update(environ)
        start_response("204 No Content", [])
        return []

    served.server._answers._application = application
    path = "/a%20b/%C3%A9/%ff?x=%20&y"
    raw = f"GET {path} HTTP/1.1\r\nHost: here:1\r\nX-Two: 1\r\nX-Two: 2\r\nContent-Type: text/x\r\n\r\n"
    assert status_of(served.connect(raw.encode())) == 204
    assert seen["PATH_INFO"].encode("latin-1") == "/a b/é/\ufffd".encode()
    assert (seen["QUERY_STRING"], seen["CONTENT_TYPE"], seen["HTTP_X_TWO"]) == ("x=%20&y", "text/x", "1,2")
    assert (seen["REMOTE_ADDR"], seen["SERVER_PROTOCOL"], seen["HTTP_HOST"]) == ("127.0.0.1", "HTTP/1.1", "here:1")


GET = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


def test_who_was_connected_when_the_end_came_is_answered_for_the_last_time(serve):
    served = serve()
    quiet, kept = served.connect(), served.connect(GET)
    assert status_of(kept) == 200  # so both are accepted
    served.server.stop()
    for connection in (quiet, kept):
        connection.sendall(GET)
        with http.client.HTTPResponse(connection) as answer:
            answer.begin()
            assert (answer.status, answer.getheader("connection")) == (200, "close")


def test_who_connects_after_the_end_is_answered_by_the_next_on_that_socket(serve):
    with ports.listen("127.0.0.1", 0, 1024) as listening:
        first = serve(listening=listening.dup())
        assert first.ask()[0] == 200
        first.server.stop()
        connections = []
        wait_until(lambda: connections.append(first.connect(GET)) or not first.is_alive)
        serve(listening=listening.dup())
        assert {status_of(connection) for connection in connections} == {200}


AT_ONCE = """
from tests.cli.test_answering import Served

server = Served().server
server.stop()
server.serve(lambda: print("it serves"))
"""


def test_an_end_that_comes_before_the_beginning_is_orderly():
    """Granian's thread begins when it has its turn, which on a busy machine is after that."""
    ended = subprocess.run([sys.executable, "-c", AT_ONCE], check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "it serves\n", "")
