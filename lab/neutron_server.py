# SPDX-License-Identifier: Apache-2.0
"""Serve Neutron's API on a loopback port; run by `lab.neutron` with the Python of the OpenStack services' environment.

`neutron_server.py CONFIG HOST PORT`

The tables are those of Neutron's own models, made at once: its migrations are for other databases than SQLite.
"""

import os
import pathlib
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from werkzeug import serving

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


class Handler(serving.WSGIRequestHandler):
    """Keeps connections open and logs none of them."""

    protocol_version = "HTTP/1.1"

    def log_request(self, *_details: object) -> None:
        return


def one_at_a_time(application: Application) -> Application:
    """The application without requests beside each other: SQLite has one writer, for which Neutron does not wait."""
    lock = threading.Lock()

    def ask(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with lock:
            return list(application(environ, start_response))

    return ask


def make_tables() -> None:
    """The tables that are not there yet."""
    from neutron.db.migration.models import head
    from neutron_lib.db import api

    with api.CONTEXT_WRITER.using(_context()) as session:
        head.get_metadata().create_all(session.connection())


def _context() -> object:
    from neutron_lib import context

    return context.get_admin_context()


if __name__ == "__main__":
    configuration, host, port = sys.argv[1:]
    sys.argv[1:] = []  # Neutron would read them as its own
    os.environ["OS_NEUTRON_CONFIG_DIR"] = str(pathlib.Path(configuration).parent)
    os.environ["OS_NEUTRON_CONFIG_FILES"] = pathlib.Path(configuration).name
    from neutron import server
    from neutron.server import api

    def serve() -> Application:
        """Neutron's own application, over tables that are there."""
        make_tables()
        return api.api_server()

    application = one_at_a_time(server.boot_server(serve, prog="neutron-api"))
    serving.make_server(host, int(port), application, threaded=True, request_handler=Handler).serve_forever()
