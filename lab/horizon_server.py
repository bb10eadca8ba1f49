# SPDX-License-Identifier: Apache-2.0
"""Serve Horizon with manila-ui on loopback; run by `lab.horizon` with the Python of OpenStack's own environment.

`horizon_server.py SITE HOST PORT` serves; `horizon_server.py SITE` only makes the static files.

SITE holds the package `local` that an operator fills: `local_settings.py`. What manila-ui has for `local/enabled` is
found where it is installed, so that nothing of either package is changed.
"""

import os
import pathlib
import sys

from werkzeug import serving
from werkzeug.middleware import shared_data


class Handler(serving.WSGIRequestHandler):
    """Logs no request, and lets go of who connects and says nothing."""

    protocol_version = "HTTP/1.1"
    timeout = 5

    def log_request(self, *_details: object) -> None:
        return


def prepare(site: str) -> None:
    """Have Horizon find its settings in `site`, and the panels of manila-ui beside its own."""
    sys.path.insert(0, site)
    os.environ["DJANGO_SETTINGS_MODULE"] = "openstack_dashboard.settings"
    import manila_ui
    from openstack_dashboard.local import enabled

    enabled.__path__.append(str(pathlib.Path(manila_ui.__file__).parent / "local" / "enabled"))


def make_static() -> None:
    """Collect and compress scripts and styles, as operators do once."""
    import django
    from django.core import management

    django.setup()
    management.call_command("collectstatic", interactive=False, verbosity=0)
    management.call_command("compress", force=True, verbosity=0)


if __name__ == "__main__":
    site, *address = sys.argv[1:]
    sys.argv[1:] = []
    prepare(site)
    if not address:
        make_static()
        sys.exit()
    from django.conf import settings
    from django.core import wsgi

    application = shared_data.SharedDataMiddleware(wsgi.get_wsgi_application(), {"/static": settings.STATIC_ROOT})
    serving.make_server(
        address[0], int(address[1]), application, threaded=True, request_handler=Handler
    ).serve_forever()
