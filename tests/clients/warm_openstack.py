# SPDX-License-Identifier: Apache-2.0
"""A process that has read the `openstack` command once, and runs it in a child of its own for each request.

Most of a command's second is reading modules. What runs is the command's own entry point, unmodified, in a process
that ends with it; where it waits it looks more often than every five seconds. `python -m tests.clients.warm_openstack
SOCKET` serves until its standard input ends.
"""

import contextlib
import importlib.metadata
import inspect
import json
import os
import socketserver
import sys
import tempfile
import threading
import traceback
from pathlib import Path

from cliff import command
from openstackclient import shell
from osc_lib import utils

LOOKS_EVERY_S = 0.2


class Ran(socketserver.StreamRequestHandler):
    """One request in a child: words and environment in; code, output and errors out."""

    def handle(self):
        asked = json.loads(self.rfile.readline())
        os.environ.clear()
        os.environ.update(asked["environ"])
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            code = _ended(asked["words"])
            sys.stdout.flush()
            sys.stderr.flush()
            out.seek(0)
            err.seek(0)
            said = {"code": code, "out": out.read().decode(), "err": err.read().decode()}
        self.wfile.write(json.dumps(said).encode())


def _ended(words):
    sys.argv = ["openstack", *words]
    try:
        return shell.main(words)
    except SystemExit as end:
        return end.code
    except Exception:  # noqa: BLE001 - the interpreter would say it so
        traceback.print_exc()
        return 1


class Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    """Gives each request a child."""


class _Any(command.Command):
    """A command that does nothing: what cliff looks up for one is known for all."""

    def take_action(self, parsed_args):
        return None


def _read_all():
    """Import what the command finds by entry points, and what is looked up about them once."""
    found = importlib.metadata.entry_points()
    for group in found.groups:
        if group.startswith(("openstack.", "cliff.", "keystoneauth1.")):
            for one in found.select(group=group):
                with contextlib.suppress(Exception):  # one that cannot be read is not for this command
                    one.load()
    _Any(None, None).get_epilog()


def _look_often(wait):
    """Have a function of the command's library ask so often; for how long it asks stays as it is."""
    usual = [name for name, one in inspect.signature(wait).parameters.items() if one.default is not one.empty]
    pairs = zip(usual, wait.__defaults__, strict=True)
    wait.__defaults__ = tuple(LOOKS_EVERY_S if name == "sleep_time" else value for name, value in pairs)


def serve(address):
    with Server(f"{address}.new", Ran) as server:
        Path(f"{address}.new").rename(address)  # it is there when it listens, not before
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 60}, daemon=True).start()
        sys.stdin.read()


if __name__ == "__main__":
    _read_all()
    for each in (utils.wait_for_status, utils.wait_for_delete):
        _look_often(each)
    serve(sys.argv[1])
