# SPDX-License-Identifier: Apache-2.0
"""What a process does not need it does not load: start time and memory are promises."""

import json
import subprocess
import sys

import pytest

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
