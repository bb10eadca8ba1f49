# SPDX-License-Identifier: Apache-2.0
"""What a process does not need it does not load: start time and memory are promises."""

import json
import subprocess
import sys

import pytest

from abaca.api import own_door, routes

LOADED = """
import json, sys
from abaca import app, settings

settings = settings.read([], environ={}, overrides={"state_path": sys.argv[1]}).settings
CODE
print(json.dumps(sorted(sys.modules)))
"""
API = "app.api(settings)\nimport abaca.cli.serving"
WORKER = "app.worker(settings)"

# everywhere: what only upgrades, only PostgreSQL, only tests and only people at a terminal need
NOBODY = {"alembic", "psycopg", "sqlalchemy.orm", "sqlalchemy.dialects.postgresql", "rich", "pytest", "opentelemetry"}


def loaded(code, tmp_path):
    text = LOADED.replace("CODE", code)
    command = [sys.executable, "-c", text, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("code", "without"),
    [
        pytest.param(API, {"abaca.drivers.load", "abaca.drivers.dummy", "keystonemiddleware", "asyncssh"}, id="api"),
        pytest.param(WORKER, {"falcon", "granian", "oslo_policy", "oslo_config.cfg", "keystoneauth1"}, id="worker"),
    ],
)
def test_a_program_loads_only_what_it_needs(code, without, tmp_path):
    assert loaded(code, tmp_path) & (without | NOBODY) == set()


def test_the_supervisor_loads_hardly_anything():
    code = "import json, sys\nimport abaca.cli.supervisor\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    names = set(json.loads(done.stdout))
    assert names & (NOBODY | {"click", "msgspec", "sqlalchemy", "falcon", "asyncio", "subprocess", "sqlite3"}) == set()
    assert {name for name in names if name.startswith("abaca")} == {
        "abaca",
        "abaca.cli",
        "abaca.cli.exits",
        "abaca.cli.ports",
        "abaca.cli.state_directory",
        "abaca.cli.supervisor",
        "abaca.errors",
        "abaca.logs",
    }


ASKED = """
import json, sys
from abaca.cli.main import main

try:
    main(sys.argv[1:])
except SystemExit as end:
    assert end.code == 0
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("words", "without"),
    [
        (
            ["operation", "list", "--config-file"],
            {
                "oslo_policy",
                "oslo_config.cfg",
                "stevedore",
                "requests",
                "urllib3",
                "openstack",
                "granian",
                "rich.console",
                # its answers come from one resource of our own door, and from no other door
                "abaca.api.doors",
                "abaca.api.routes",
                "abaca.api.administration.backends",
                "abaca.api.attachments.attachments",
                "abaca.api.clusters.clusters",
                "abaca.api.compute.servers",
                "abaca.api.networks.share_networks",
                "abaca.api.shares.shares",
            },
        ),
        (["--help"], {"msgspec", "sqlalchemy", "falcon", "yaml", "logging", "asyncio"}),
    ],
    ids=["list", "help"],
)
def test_a_command_loads_only_what_it_needs(abaca, config, words, without):
    file = config()
    abaca("db", "upgrade", "--config-file", file)
    given = [*words, str(file)] if words[-1] == "--config-file" else words
    done = subprocess.run([sys.executable, "-c", ASKED, *given], capture_output=True, text=True, timeout=60, check=True)
    assert set(json.loads(done.stderr)) & (without | NOBODY - {"rich"}) == set()


# Of the API each command imports what answers it, and what that needs of others.
AREAS = {
    "attachment": {"administration", "attachments", "shares"},
    "backend": {"administration"},
    "cluster": {"attachments", "clusters", "shares"},
    "event": {"administration"},
    "operation": {"administration"},
    "server": {"attachments", "shares"},
    "service": {"administration"},
    "share-network": {"networks"},
    "share-server": {"networks"},
}


@pytest.mark.parametrize("name", AREAS)
def test_a_command_imports_only_its_area_of_the_api(abaca, config, name):
    file = config()
    abaca("db", "upgrade", "--config-file", file)
    command = [sys.executable, "-c", ASKED, name, "list", "--config-file", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    parts = [module.split(".") for module in json.loads(done.stderr) if module.startswith("abaca.api.")]
    assert {part[2] for part in parts if len(part) > 3} <= AREAS[name]
    assert {part[2] for part in parts if len(part) == 3} <= {*AREAS[name], "naming", "own_door", "permissions"}


def test_commands_know_where_each_collection_of_the_own_door_is():
    there = {}
    for resource in routes.OWN:
        for route in resource.routes:
            there.setdefault(route.path.split("/")[1], set()).add(resource)
    assert {name: set(own_door.resources(name)) for name in own_door.PLACES} == there
