# SPDX-License-Identifier: Apache-2.0
"""What is shipped around the programs names commands, options and statuses that exist."""

import configparser
import json
import shlex
import shutil
import subprocess

import click
import pytest

from abaca.cli import exits, programs
from abaca.cli.main import cli
from abaca.settings import tree
from tests.conftest import ROOT

PACKAGING = ROOT / "packaging"
SYSTEM = PACKAGING / "system"
UNITS = sorted((SYSTEM / "usr/lib/systemd/system").glob("*.service"))
LOCAL = PACKAGING / "worker-local" / "local.conf"
PROGRAM = "/opt/abaca/bin/abaca"


def refuse_unless_real(words):
    """A command line of `abaca` names a command and options that it has."""
    command = cli.get_command(click.Context(cli), words[1])
    assert command is not None, words
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


def read(path):
    """A unit; of an option that stands there several times the last counts here."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str
    parser.read(path)
    return parser


@pytest.fixture(params=UNITS, ids=lambda path: path.name)
def unit(request):
    return read(request.param)


@pytest.fixture
def installed(tmp_path):
    """A root directory with the units in it, and what they start: where `systemd-analyze` looks."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is missing: apt-get install systemd")
    shutil.copytree(SYSTEM, tmp_path, dirs_exist_ok=True)
    for program in (tmp_path / PROGRAM.lstrip("/"), tmp_path / "bin" / "kill"):
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    for name in ("basic", "sysinit", "shutdown", "multi-user", "network-online"):
        (tmp_path / f"usr/lib/systemd/system/{name}.target").write_text("[Unit]\nDescription=Of the host\n")
    return tmp_path


def analyze(*arguments):
    command = ["systemd-analyze", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def exposure(root, name):
    """What `systemd-analyze security` calls the exposure of a unit: 0 to 10, below 4 is OK."""
    said = analyze("security", "--offline=yes", f"--root={root}", name)
    assert said.returncode == 0, said.stderr
    return float(said.stdout.split("Overall exposure level")[1].split(":")[1].split()[0])


@pytest.mark.parametrize("name", [path.name for path in UNITS])
def test_units_are_exposed_as_little_as_can_be(installed, name):
    assert exposure(installed, name) < 2


def test_a_worker_that_mounts_keeps_only_what_that_takes(installed):
    drop_in = installed / "etc/systemd/system/abaca-worker.service.d"
    drop_in.mkdir(parents=True)
    shutil.copy(LOCAL, drop_in)
    assert exposure(installed, "abaca-worker.service") < 7
    service = read(LOCAL)["Service"]
    # mounts must outlive the worker: nothing that makes it a view of its own of the file system
    own_view = ("ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateDevices", "ProtectControlGroups")
    assert {service[option] for option in (*own_view, "ProtectKernelTunables", "ProtectKernelModules")} == {"no"}
    assert (service["StateDirectory"], service["StateDirectoryMode"]) == ("abaca-worker", "0700")
    assert service["Environment"] == "OS_DEFAULT__DRIVERS_PATH=/var/lib/abaca-worker"


def test_systemd_finds_nothing_wrong_with_the_units(installed):
    units = [path.name for path in (*UNITS, *UNITS[0].parent.glob("*.target"))]
    said = analyze("verify", "--man=no", f"--root={installed}", *units)
    assert (said.returncode, said.stderr) == (0, "")


def test_a_unit_starts_what_exists_and_is_no_root(unit):
    words = shlex.split(unit["Service"]["ExecStart"])
    assert words[0] == PROGRAM
    refuse_unless_real(words)
    assert (unit["Service"]["User"], unit["Service"]["Group"]) == ("abaca", "abaca")


def test_a_unit_does_not_start_again_what_a_person_must_mend(unit):
    assert unit["Service"]["RestartPreventExitStatus"] == str(exits.EX_CONFIG)
    assert unit["Service"]["Restart"] == "always"


def test_a_program_has_ended_before_systemd_kills_it(unit, abaca, config):
    needs_s = tree.LONGEST_STOP_S + programs.MARGIN_S + programs.END_S
    assert needs_s < int(unit["Service"]["TimeoutStopSec"])
    said = abaca("config", "check", "--config-file", config(f"[worker]\nstop_s = {tree.LONGEST_STOP_S + 1}\n"))
    assert (said.status, "stop_s in [worker] cannot be" in said.err) == (exits.EX_CONFIG, True)


def test_units_with_a_worker_leave_the_drivers_daemons_alone(unit):
    has_worker = "abaca api" not in unit["Service"]["ExecStart"]
    assert unit["Service"].get("KillMode") == ("process" if has_worker else None)


def test_the_container_runs_what_exists():
    last = (PACKAGING / "Containerfile").read_text().rstrip().splitlines()[-1]
    refuse_unless_real(json.loads(last.removeprefix("CMD ")))


def test_the_sample_configuration_is_right(abaca):
    said = abaca("config", "check", "--offline", "--config-file", PACKAGING / "abaca.conf")
    assert said.status == 0
    assert "The configuration is right. Back ends: local1 (local)." in said.out
