# SPDX-License-Identifier: Apache-2.0
"""Serve Keystone on a loopback port; run by `lab.keystone` with the Python of Keystone's own environment.

`keystone_server.py CONFIG HOST PORT`

One request after the other: Keystone has no lock around what its first requests make, so that of several at once some
end in an error of it.
"""

import os
import sys

from werkzeug import serving


class Handler(serving.WSGIRequestHandler):
    """Logs no request, and lets go of who connects and says nothing: the others wait."""

    protocol_version = "HTTP/1.1"
    timeout = 5

    def log_request(self, *_details: object) -> None:
        return


if __name__ == "__main__":
    configuration, host, port = sys.argv[1:]
    sys.argv[1:] = []  # Keystone would read them as its own
    os.environ["OS_KEYSTONE_CONFIG_FILES"] = configuration
    from keystone.wsgi.api import application

    serving.make_server(host, int(port), application, threaded=False, request_handler=Handler).serve_forever()
