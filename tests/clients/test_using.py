# SPDX-License-Identifier: Apache-2.0
"""The users' pages in docs/using are followed word by word, by somebody who has nothing else."""

import json
import os
import subprocess
import textwrap

import pytest

from lab import caller
from tests.clients.command import OPENSTACK, Cloud, read_clouds, write_clouds
from tests.clients.conftest import PROJECT
from tests.clients.test_compute import abaca
from tests.clients.test_server_shares import KEY
from tests.conftest import ROOT, wait_until

pytestmark = pytest.mark.system

PAGES = ROOT / "docs" / "using"


def lines_to_type(page):
    """The indented lines of the page, in its order."""
    lines = (PAGES / page).read_text().splitlines()
    return textwrap.dedent("\n".join(line for line in lines if line.startswith("    ")))


@pytest.fixture
def web_1(standalone):
    words = ("--address", "10.9.8.1", "--host-key", KEY, "--key", "file:/etc/abaca/keys/id")
    abaca(standalone, "add", "web-1", "--project", PROJECT, *words)
    yield
    (row,) = json.loads(abaca(standalone, "list", "--name", "web-1", "--json"))
    abaca(standalone, "remove", row["id"])


def follow(standalone, directory, *lines):
    """What is said to somebody who types these lines."""
    known = read_clouds(standalone.clouds)
    entry = known["member"]
    write_clouds(directory / "clouds.yaml", {"abaca": entry, "them": known["other"]})
    user = caller.basic(entry["auth"]["username"], entry["auth"]["password"])
    given = {
        "PATH": f"{OPENSTACK.parent}:{os.environ['PATH']}",
        "OS_CLIENT_CONFIG_FILE": str(directory / "clouds.yaml"),
        "ABACA": standalone.url,
        "AUTH": f"Authorization: {user['Authorization']}",
    }
    done = subprocess.run(
        ["bash", "-c", "\n".join(("set -euo pipefail", *lines))],
        env=given,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_page_about_attachments_can_be_followed_word_by_word(standalone, default_type, web_1, tmp_path):
    after = ("openstack server share list web-1", "openstack share delete data")
    said = follow(standalone, tmp_path, lines_to_type("attachments.md"), *after)
    for seen in ("web-1", "attaching", '"access_level":"ro"', '"/srv/data"', '"/net/mymount"'):
        assert seen in said


def test_so_can_that_about_handing_a_share_over(standalone, default_type, tmp_path):
    said = follow(standalone, tmp_path, lines_to_type("transfers.md"), "echo then", "openstack share list")
    before, _, after = said.partition("then")
    assert before.count("thesis") >= 2
    assert "handover" in before
    assert "thesis" not in after
    other = Cloud(standalone.clouds, "other")
    wait_until(lambda: other.read("share", "show", "thesis")["status"] == "available")
    other.run("share", "delete", "thesis")


def test_so_can_that_about_snapshots(standalone, default_type, tmp_path):
    said = follow(standalone, tmp_path, lines_to_type("snapshots.md"), "openstack share list")
    for seen in ("monday", "papers", "restored"):
        assert seen in said
    assert "reverting" not in said
