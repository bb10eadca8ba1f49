# SPDX-License-Identifier: Apache-2.0
"""`abaca` asks a service elsewhere: by its address, and by a cloud in clouds.yaml."""

import json
import os
import subprocess
import sys

import pytest
import yaml


@pytest.fixture(scope="module")
def clouds(standalone):
    return yaml.safe_load(standalone.clouds.read_text())["clouds"]


@pytest.fixture
def remote(standalone, clouds):
    """Give a command as somebody, by the service's address or by their cloud; how it ended."""

    def remote(who, *words, by="url", password=None):
        said = {"ABACA_PASSWORD": password or clouds[who]["auth"]["password"], "ABACA_URL": standalone.url}
        there = ["--user", who]
        if by == "cloud":
            said, there = {"OS_CLIENT_CONFIG_FILE": str(standalone.clouds)}, ["--os-cloud", who]
        return subprocess.run(
            [sys.executable, "-m", "abaca", *words, *there],
            env={**os.environ, **said},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    return remote


@pytest.fixture(scope="module")
def share_id(admin, member, default_type):
    made = member.read("share", "create", "NFS", "1", "--name", "seen from afar", "--wait")["id"]
    yield made
    member.run("share", "delete", made, "--wait")


@pytest.mark.parametrize("by", ["url", "cloud"])
def test_operations_are_seen_from_elsewhere(remote, share_id, by):
    ended = remote("member", "operation", "list", "--all", "--resource", share_id, "--json", by=by)
    assert ended.returncode == 0, ended.stderr
    (row,) = json.loads(ended.stdout)
    assert (row["kind"], row["state"]) == ("share-create", "done")
    shown = remote("member", "operation", "show", row["id"][:30], "-o", "json", by=by)
    assert json.loads(shown.stdout)["id"] == row["id"]


def test_what_the_service_refuses_is_said_in_its_words(remote, share_id):
    (row,) = json.loads(remote("member", "operation", "list", "--all", "--resource", share_id, "--json").stdout)
    refused = remote("member", "operation", "cancel", row["id"])
    assert refused.returncode == 1
    assert "Your roles do not allow" in refused.stderr or "not allow" in refused.stderr
    unknown = remote("member", "operation", "list", password="wrong")
    assert unknown.returncode == 1
    assert "authentication" in unknown.stderr


def test_a_service_that_is_not_there_is_told_in_one_line():
    command = [sys.executable, "-m", "abaca", "operation", "list", "--url"]
    for address, says in (("http://127.0.0.1:9", "does not answer"), ("here", "is not an address")):
        ended = subprocess.run([*command, address], capture_output=True, text=True, check=False)
        assert ended.returncode == 1
        assert says in ended.stderr
        assert ended.stderr.count("\n") == 1


def test_a_password_is_never_taken_from_the_command_line(standalone):
    address = standalone.url.replace("//", "//member:pencil@")
    command = [sys.executable, "-m", "abaca", "operation", "list", "--url", address]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "is not an address" in ended.stderr
