# SPDX-License-Identifier: Apache-2.0
"""The unmodified `openstack` command against Abaca on PostgreSQL with a real Keystone; and what tokens are worth."""

import subprocess
import sys

import pytest

from tests.clients import command
from tests.clients.command import Cloud, Refused
from tests.clients.conftest import BACKEND
from tests.clients.datacentre import Datacentre
from tests.conftest import wait_until

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def site(run):
    with Datacentre(run, BACKEND) as site:
        yield site


@pytest.fixture(scope="module")
def admin(site):
    return Cloud(site.clouds, "admin")


@pytest.fixture(scope="module")
def demo(site):
    return Cloud(site.clouds, "demo")


@pytest.fixture(scope="module")
def docs(admin, demo):
    """A share of the project `demo`."""
    admin.run("share", "type", "create", "default", "false")
    return demo.read("share", "create", "NFS", "1", "--name", "docs", "--wait")


def test_the_service_is_found_in_the_catalog_and_says_its_versions(site, demo):
    (row,) = demo.read("versions", "show", "--service", "shared-file-system")
    assert (row["Version"], row["Status"], row["Min Microversion"]) == ("2.0", "CURRENT", "2.0")
    assert row["Endpoint"] == f"{site.url}/v2/"


def test_a_share_lives_its_life(site, demo, docs):
    assert (docs["status"], docs["project_id"]) == ("available", site.keystone.project_id("demo"))
    assert docs["user_id"] == site.keystone.user_id("demo")
    demo.run("share", "resize", "docs", "2", "--wait")
    made = demo.read("share", "access", "create", "docs", "ip", "10.0.0.0/8", "--wait")
    assert made["state"] == "active"
    demo.run("share", "access", "delete", "docs", made["id"], "--wait")
    made = demo.read("share", "create", "NFS", "1", "--name", "brief", "--wait")
    demo.run("share", "delete", "brief", "--wait")
    (row,) = demo.read("share", "list")
    assert (row["ID"], row["Size"]) == (docs["id"], 2)


def test_quotas_are_set_for_a_project_by_its_name(admin, docs):
    assert admin.read("share", "quota", "show", "demo")["shares"] == 50
    admin.run("share", "quota", "set", "demo", "--shares", "9", "--gigabytes", "90")
    shown = admin.read("share", "quota", "show", "demo", "--detail")
    assert shown["shares"].split("\n") == ["in_use = 1", "limit = 9", "reserved = 0"]
    admin.run("share", "quota", "set", "demo", "--shares", "3", "--user", "demo")
    assert admin.read("share", "quota", "show", "demo", "--user", "demo")["shares"] == 3
    admin.run("share", "quota", "delete", "demo")
    assert admin.read("share", "quota", "show", "demo")["shares"] == 50


def test_administrators_list_the_shares_of_all_projects(admin, docs):
    assert admin.read("share", "list") == []
    (row,) = admin.read("share", "list", "--all-projects")
    assert (row["ID"], row["Host"]) == (docs["id"], "here@alpha#pool1")


def test_servers_are_found_by_the_catalog(site, demo, admin):
    project = site.keystone.project_id("demo")
    argv = [sys.executable, "-m", "abaca", "server", "add", "web-1", "--config-file", str(site.configuration)]
    argv += ["--project", project, "--address", "10.9.0.1"]
    subprocess.run(argv, capture_output=True, timeout=60, check=True)
    (row,) = demo.read("server", "list")
    assert (row["Name"], row["Networks"]) == ("web-1", {"default": ["10.9.0.1"]})
    assert demo.read("--os-compute-api-version", "2.97", "server", "show", "web-1")["project_id"] == project
    assert admin.read("server", "list") == []
    assert [row["Name"] for row in admin.read("server", "list", "--all-projects")] == ["web-1"]


def test_another_project_sees_nothing(site, docs):
    other = Cloud(site.clouds, "other")
    assert other.read("share", "list") == []
    with pytest.raises(Refused, match=r"(?i)no share"):
        other.run("share", "show", docs["id"])


def test_a_reader_looks_and_does_not_touch(site, docs):
    reader = Cloud(site.clouds, "demo-reader")
    assert reader.read("share", "show", "docs")["id"] == docs["id"]
    with pytest.raises(Refused, match="HTTP 403"):
        reader.run("share", "create", "NFS", "1")
    with pytest.raises(Refused, match="HTTP 403"):
        reader.run("share", "delete", docs["id"])


def test_a_wrong_password_gets_no_token(site):
    clouds = site.directory / "stranger.yaml"
    command.write_clouds(clouds, {"stranger": site.cloud("demo", password="guessed")})
    with pytest.raises(Refused, match="HTTP 401"):
        Cloud(clouds, "stranger").run("share", "list")


@pytest.mark.parametrize(
    "token", [None, "", "gAAAAABunknown", "x" * 6000, "a b\tc"], ids=["no", "empty", "unknown", "long", "odd"]
)
def test_a_token_that_keystone_does_not_know_is_no_token(site, token):
    status, headers, body = site.ask(token)
    assert status == 401
    assert headers["www-authenticate"] == f'Keystone uri="{site.keystone.auth_url}"'
    assert body["error"]["code"] == 401


def test_a_token_of_another_project_opens_nothing_of_this_one(site, docs):
    token = site.keystone.token("other")
    assert site.ask(token, path=f"/v2/shares/{docs['id']}")[0] == 404
    assert site.ask(token, path=f"/v2/{site.keystone.project_id('demo')}/shares")[0] == 400


def test_a_revoked_token_is_refused(site):
    token = site.keystone.token("demo")
    site.keystone.revoke(token)
    assert site.ask(token)[0] == 401


def test_a_token_is_good_until_its_time_has_come_remembered_or_not(site):
    token = site.keystone.brief_token("demo", lives_s=5)
    assert site.ask(token)[0] == 200
    wait_until(lambda: site.ask(token)[0] == 401)


def test_keystone_may_be_away_for_a_moment(site, docs):
    """Who was known stays known for a minute; who is new is asked to come back."""
    known, new = site.keystone.token("demo"), site.keystone.token("demo")
    assert site.ask(known)[0] == 200
    site.keystone.stop()
    try:
        status, headers, body = site.ask(new)
        assert (status, headers["retry-after"]) == (503, "5")
        assert (
            body["serviceUnavailable"]["message"]
            == "Keystone does not answer at the moment; try again in some seconds."
        )
        assert site.ask(known)[0] == 200
    finally:
        site.keystone.start()
    assert site.ask(new)[0] == 200
