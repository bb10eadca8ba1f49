# SPDX-License-Identifier: Apache-2.0
"""What commands say of, and do to, a GlusterFS back end over doubles of Heketi and of its nodes."""

import subprocess
import sys

import pytest

from abaca.drivers.authority import Authority
from tests.drivers.harness import GlusterfsHarness


@pytest.fixture(scope="module")
def rig():
    made = GlusterfsHarness()
    made.driver = made.build()
    yield made
    made.close()


def run(rig, config, *words, **options):
    """How a command ends for a back end with these options over those that are right."""
    lines = "".join(f"{name} = {value}\n" for name, value in (rig.section | options).items())
    section = f"[gold]\ndriver = glusterfs\ndriver_handles_share_servers = false\n{lines}"
    file = config(f"enabled_share_backends = gold\n{section}")
    command = [sys.executable, "-m", "abaca", *words, "--config-file", str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def check(rig, config, *words, **options):
    return run(rig, config, "config", "check", *words, **options)


def test_what_a_back_end_misses_is_said_and_a_start_goes_on_all_the_same(rig, config):
    done = check(rig, config, durability="disperse 8+4")
    assert "abaca: note: [gold] the pool" in done.stderr
    assert "disperse 8+4 needs 12" in done.stderr
    assert done.returncode == 0, done


def test_a_back_end_that_misses_nothing_is_not_spoken_of(rig, config):
    assert "[gold]" not in check(rig, config).stderr


def test_offline_nobody_is_asked(rig, config):
    rig.bed.heketi.requests.clear()
    assert "[gold]" not in check(rig, config, "--offline", durability="disperse 8+4").stderr
    assert rig.bed.heketi.requests == []


def test_new_certificates_come_to_all_nodes_by_one_command(rig, config, tmp_path):
    own = tmp_path / "state" / "backends" / "gold" / "authority"
    Authority(own / "ca.pem", own / "ca.key").make()
    done = run(rig, config, "certificate", "renew")
    assert done.returncode == 0, done
    assert [line.partition(": ")[2] for line in done.stdout.splitlines()] == ["a new certificate, it had none"] * 3
    assert "repeat it with --restart" in done.stderr
    places = [rig.bed.nodes.ssl(host) for host in rig.bed.nodes.hosts]
    assert [(place / "glusterfs.ca").read_text() for place in places] == [(own / "ca.pem").read_text()] * 3
    again = run(rig, config, "certificate", "renew", "--restart")
    assert again.stdout.count("it had one for 1825 days") == 3
    assert again.stderr == ""


def test_nobodys_certificates_are_renewed_by_an_authority_that_is_not_there(rig, config):
    refused = run(rig, config, "certificate", "renew")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "No such file" in refused.stderr
