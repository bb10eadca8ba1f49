# SPDX-License-Identifier: Apache-2.0
"""What is shipped around the programs names commands, options and statuses that exist."""

import configparser
import json
import shlex

import click
import pytest

from abaca.cli import exits
from abaca.cli.main import cli
from tests.conftest import ROOT

PACKAGING = ROOT / "packaging"
UNITS = sorted((PACKAGING / "systemd").glob("*.service"))


def refuse_unless_real(words):
    """A command line of `abaca` names a command and options that it has."""
    command = cli.get_command(click.Context(cli), words[1])
    assert command is not None, words
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


@pytest.fixture(params=UNITS, ids=lambda path: path.name)
def unit(request):
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str
    parser.read(request.param)
    return parser


def test_a_unit_starts_what_exists(unit):
    refuse_unless_real(shlex.split(unit["Service"]["ExecStart"]))


def test_a_unit_does_not_start_again_what_a_person_must_mend(unit):
    assert unit["Service"]["RestartPreventExitStatus"] == str(exits.EX_CONFIG)
    assert unit["Service"]["Restart"] == "always"


def test_units_with_a_worker_leave_the_drivers_daemons_alone(unit):
    has_worker = "abaca api" not in unit["Service"]["ExecStart"]
    assert unit["Service"].get("KillMode") == ("process" if has_worker else None)


def test_the_container_runs_what_exists():
    last = (PACKAGING / "Containerfile").read_text().rstrip().splitlines()[-1]
    refuse_unless_real(json.loads(last.removeprefix("CMD ")))


def test_the_sample_configuration_is_right(abaca):
    said = abaca("config", "check", "--config-file", PACKAGING / "abaca.conf")
    assert said.status == 0
    assert "The configuration is right. Back ends: local1 (local)." in said.out
