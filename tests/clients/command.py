# SPDX-License-Identifier: Apache-2.0
"""The `openstack` command as users have it: unmodified, a process for each command, with a clouds.yaml.

The processes are children of one that has read the command before (warm_openstack.py): a tenth of the CPU.
"""

import atexit
import functools
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from tests.conftest import wait_until

# What a shell runs for it: says words and environment to the process that has read it, and ends as the command does.
_ASKS = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    asked = {"words": sys.argv[2:], "environ": dict(os.environ)}
    connection.sendall(json.dumps(asked).encode() + b"\\n")
    with connection.makefile("rb") as answer:
        done = json.loads(answer.read())
sys.stdout.write(done["out"])
sys.stderr.write(done["err"])
sys.exit(done["code"])
"""
# A second of work each, on a machine that may be busy with other tests.
TIMEOUT_S = 120
# The newest that python-manilaclient speaks of itself.
MICROVERSION = "2.98"


class Refused(Exception):
    """The command ended with an error; the text is what it said."""


class Cloud:
    """One entry of a clouds.yaml: a user at a service."""

    def __init__(self, clouds, name):
        self.clouds = clouds
        self.name = name

    def run(self, *words):
        """What `openstack <words>` prints. Raises Refused with what it says when it fails."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        environ |= {"OS_CLIENT_CONFIG_FILE": str(self.clouds), "PYTHONDONTWRITEBYTECODE": ""}
        done = _ask({"words": ["--os-cloud", self.name, *words], "environ": environ})
        if done["code"]:
            raise Refused(done["err"].strip() or done["out"].strip())
        return done["out"]

    def read(self, *words):
        """What the command shows, as data."""
        return json.loads(self.run(*words, "-f", "json"))


def _ask(request):
    """How the command ended, and what it said."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT_S)
        connection.connect(_warm())
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as answer:
            return json.loads(answer.read())


def on_path(directory):
    """The PATH of a shell for those who type commands: `openstack` comes into that directory, for the warm process."""
    words = shlex.join([sys.executable, "-ISc", _ASKS, _warm()])
    file = directory / "openstack"
    file.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    file.chmod(0o755)
    return os.pathsep.join([str(directory), str(Path(sys.executable).parent), os.environ["PATH"]])


@functools.cache
def _warm():
    """The address of the process that runs commands for this one, and ends with it."""
    directory = tempfile.TemporaryDirectory()
    address = Path(directory.name) / "socket"
    argv = [sys.executable, "-m", "tests.clients.warm_openstack", str(address)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, cwd=Path(__file__).parents[2])
    wait_until(lambda: process.poll() is not None or address.exists())
    assert process.poll() is None, "it says why above"
    # also what keeps its standard input open until then
    atexit.register(lambda: [process.communicate(), directory.cleanup()])
    return str(address)


def write_clouds(file, clouds):
    """A clouds.yaml for this user alone."""
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump({"clouds": clouds}))


def read_clouds(file):
    """What `write_clouds` wrote."""
    return yaml.safe_load(file.read_text())["clouds"]


def basic(url, username, password):
    """A user of `http_basic`: no Keystone, and the address of the service instead of a catalog."""
    return {
        "auth_type": "http_basic",
        "auth": {"endpoint": f"{url}/v2", "username": username, "password": password},
        "shared_file_system_endpoint_override": f"{url}/v2",
        "shared_file_system_api_version": MICROVERSION,
        # `server list` insists on one, and asks it nothing
        "identity_api_version": "3",
        "identity_endpoint_override": f"{url}/v2",
        "compute_endpoint_override": f"{url}/compute/v2.1",
    }
