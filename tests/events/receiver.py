# SPDX-License-Identifier: Apache-2.0
"""Somebody who receives webhooks: a real HTTP server on the loopback address."""

import http.server
import json
import ssl
import threading

from lab import processes
from tests.conftest import wait_until


class Post:
    """One request as it arrived."""

    def __init__(self, headers, body):
        self.headers = headers
        self.body = body
        self.event = json.loads(body)

    @property
    def type(self):
        return self.event["event_type"]

    @property
    def id(self):
        return self.headers["X-Abaca-Delivery"]


class Receiver:
    """Notes every request; `answer` says what it gets, 204 unless a test decides otherwise."""

    def __init__(self):
        self.port = processes.free_port()
        self.url = f"http://127.0.0.1:{self.port}/hook?token=in-the-query"
        self.taken = []
        self.refused = []
        self.answer = lambda _post: 204
        self._lock = threading.Lock()
        self._server = None

    def open(self, tls=None):
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                post = Post(dict(self.headers), self.rfile.read(int(self.headers["Content-Length"])))
                status = receiver.answer(post)
                with receiver._lock:
                    (receiver.taken if 200 <= status < 300 else receiver.refused).append(post)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_args):
                """Senders that die are what is tested."""

        self._server = Server(("127.0.0.1", self.port), Handler)
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def close(self):
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def first(self):
        """The events that were taken, each as it came first."""
        seen = {}
        for post in list(self.taken):
            seen.setdefault(post.id, post)
        return list(seen.values())

    def types(self, resource_id=None):
        return [post.type for post in self.first() if resource_id in (None, post.event["resource_id"])]

    def until(self, number, timeout_s=60.0):
        """That many different events."""
        wait_until(lambda: len(self.first()) >= number, timeout_s)
        return self.first()
