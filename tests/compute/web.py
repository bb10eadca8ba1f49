# SPDX-License-Identifier: Apache-2.0
"""HTTP on loopback for the tests of the plug-in that asks a Nova."""

import contextlib
import socketserver
import threading
from wsgiref import simple_server


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True


class _Handler(simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        """Tests say what went wrong by themselves."""


@contextlib.contextmanager
def serving(application):
    """The address at which a WSGI application is served."""
    server = simple_server.make_server("127.0.0.1", 0, application, _Server, _Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
