# SPDX-License-Identifier: Apache-2.0
"""The users' pages in docs/using are followed word by word, by somebody who has nothing else."""

import json
import subprocess
import textwrap

import pytest
import yaml

from lab import caller
from tests.clients.command import Cloud, on_path, read_clouds, write_clouds
from tests.clients.conftest import PROJECT
from tests.clients.test_compute import abaca
from tests.clients.test_server_shares import KEY
from tests.conftest import ROOT, wait_until

pytestmark = pytest.mark.system

PAGES = ROOT / "docs" / "using"


# What a page's reader asks at its end.
AFTERWARDS = ("echo then", "openstack share list -f value -c Name")


def lines_to_type(page):
    """The indented lines of the page, in its order; what stands between fences is shown only."""
    shown = (PAGES / page).read_text().split("\n```")[::2]
    lines = [line for text in shown for line in text.splitlines() if line.startswith("    ")]
    return textwrap.dedent("\n".join(lines))


def test_every_page_with_lines_to_type_is_followed():
    tests = "".join(path.read_text() for path in (ROOT / "tests" / "clients").glob("test_*.py"))
    typed = [page.name for page in PAGES.glob("*.md") if lines_to_type(page.name)]
    assert [page for page in typed if f'"{page}"' not in tests] == []


@pytest.fixture
def web_1(standalone):
    words = ("--address", "10.9.8.1", "--host-key", KEY, "--key", "file:/etc/abaca/keys/id")
    abaca(standalone, "add", "web-1", "--project", PROJECT, *words)
    yield
    (row,) = json.loads(abaca(standalone, "list", "--name", "web-1", "--json"))
    abaca(standalone, "remove", row["id"])


@pytest.fixture
def nodes(standalone):
    """The servers of which the page about clusters tells."""
    users = read_clouds(standalone.clouds)["admin"]["auth"]
    asking = caller.Caller(standalone.url, caller.basic(users["username"], users["password"]))
    named = [(f"node{number:03}", {}) for number in range(1, 41)]
    named += [(f"pool-{number}", {"nodepool": "blue"}) for number in (1, 2, 3)]
    named += [(f"spark-{number}", {"role": "worker"}) for number in (1, 2, 3)]
    way_in = {"project_id": PROJECT, "host_key": KEY, "key": "file:/etc/abaca/keys/id"}
    said = [
        {"name": name, "metadata": pairs, "addresses": [{"ip": f"10.9.6.{place}"}], **way_in}
        for place, (name, pairs) in enumerate(named, 1)
    ]
    made = asking.call("POST", "//abaca/v1/servers/register", {"servers": said}).body["servers"]
    yield
    for one in made:
        asking.call("DELETE", f"//abaca/v1/servers/{one['id']}")


def follow(standalone, directory, *lines):
    """What is said to somebody who types these lines."""
    known = read_clouds(standalone.clouds)
    entry = known["member"]
    clouds = {"abaca": entry, "abaca-admin": known["admin"], "them": known["other"]}
    write_clouds(directory / "clouds.yaml", clouds)
    (directory / "bin").mkdir()
    user = caller.basic(entry["auth"]["username"], entry["auth"]["password"])
    given = {
        "PATH": on_path(directory / "bin"),
        "OS_CLIENT_CONFIG_FILE": str(directory / "clouds.yaml"),
        "ABACA": standalone.url,
        "AUTH": f"Authorization: {user['Authorization']}",
        "ABACA_URL": standalone.url,
        "ABACA_USER": entry["auth"]["username"],
        "ABACA_PASSWORD": entry["auth"]["password"],
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


def test_so_can_that_about_clusters(standalone, default_type, nodes, tmp_path):
    after = ("openstack share delete data scratch", "echo then", "abaca cluster list --json")
    said = follow(standalone, tmp_path, lines_to_type("clusters.md"), *after)
    for seen in ("32 of 32 ready: active", "39 of 39 ready: active", "3 of 3 ready: active", "/jobs/wordcount.jar"):
        assert seen in said
    assert json.loads(said.partition("then\n")[2]) == []
    assert "kind: PersistentVolume\n" in (tmp_path / "volumes.yaml").read_text()
    part = yaml.safe_load((tmp_path / "shares.yaml").read_text())
    assert [mount[1] for mount in part["mounts"]] == ["/srv/data"]


# What the page lets its reader see, and what of it must be gone at its end.
PAGES_OF_SHARES = {
    "shares.md": (("first", "second", "beside", "10.0.0.10:/"), ("first", "second", "beside")),
    "rules.md": (("10.9.8.7", "10.9.0.0/16", "2001:db8:7::/64", "rw"), ("minutes",)),
    "locks.md": (("until the audit is over", "the lock keeps it", "its lock keeps it"), ("ledger",)),
    "sizes.md": (("maxTotalShareGigabytes", "+\n2\n"), ("notes",)),
    "states.md": (("available",), ("watched",)),
    "taking-over.md": (("here@alpha#pool1", "last-june", "/accounts", "+\n3\n"), ("accounts", "accounts-again")),
}


@pytest.mark.parametrize("page", PAGES_OF_SHARES)
def test_so_can_that_about_what_else_shares_are(standalone, default_type, tmp_path, page):
    seen, gone = PAGES_OF_SHARES[page]
    before, _, after = follow(standalone, tmp_path, lines_to_type(page), *AFTERWARDS).partition("then\n")
    for word in seen:
        assert word in before
    assert set(gone).isdisjoint(after.splitlines())


def test_so_can_that_about_a_lost_file(standalone, default_type, web_1, tmp_path):
    before, _, after = follow(standalone, tmp_path, lines_to_type("restoring.md"), *AFTERWARDS).partition("then\n")
    for word in ("diary", "evening", "rescue", "active"):
        assert word in before
    assert {"diary", "rescue"}.isdisjoint(after.splitlines())
