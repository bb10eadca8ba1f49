# SPDX-License-Identifier: Apache-2.0
"""The unmodified clients of compute see the servers that shares are attached to."""

import contextlib
import json
import subprocess
import sys

import openstack
import pytest
from openstack import exceptions

from tests.clients.command import Cloud, Refused
from tests.clients.conftest import OTHER_PROJECT, PROJECT

pytestmark = [
    pytest.mark.system,
    # the library's, of its own future
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]

NEWEST = ("--os-compute-api-version", "2.97")
MACHINES = (
    ("web-1", PROJECT, ["10.9.0.1", "2001:db8::1"]),
    ("web-2", PROJECT, ["10.9.0.2"]),
    ("elsewhere", OTHER_PROJECT, ["10.9.0.3"]),
)


@pytest.fixture(scope="module")
def servers(standalone):
    """Ids of the registered machines, by name."""
    for name, project, addresses in MACHINES:
        words = [word for address in addresses for word in ("--address", address)]
        abaca(standalone, "add", name, "--project", project, *words, "--property", "team=paper")
    rows = json.loads(abaca(standalone, "list", "--json"))
    yield {row["name"]: row["id"] for row in rows}
    for row in rows:
        abaca(standalone, "remove", row["id"])


def abaca(standalone, verb, *words):
    """What the operator's command prints."""
    argv = [sys.executable, "-m", "abaca", "server", verb, "--config-file", str(standalone.configuration), *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.fixture(scope="module")
def connect(standalone):
    """Says to a user's name how the library sees compute."""
    with contextlib.ExitStack() as stack:

        def connect(name, **more):
            config = openstack.config.OpenStackConfig(config_files=[str(standalone.clouds)], load_envvars=False)
            connection = openstack.connection.Connection(config=config.get_one(cloud=name, **more))
            stack.callback(connection.close)
            return connection.compute

        yield connect


@pytest.mark.parametrize("version", [(), NEWEST], ids=["default", "newest"])
def test_servers_are_listed(member, servers, version):
    rows = member.read(*version, "server", "list")
    assert {(row["Name"], row["ID"], row["Status"]) for row in rows} == {
        ("web-1", servers["web-1"], "ACTIVE"),
        ("web-2", servers["web-2"], "ACTIVE"),
    }
    (row,) = member.read(*version, "server", "list", "--name", "web-1$", "--long")
    assert row["Networks"] == {"default": ["10.9.0.1", "2001:db8::1"]}


@pytest.mark.parametrize("version", [(), NEWEST], ids=["default", "newest"])
def test_a_server_is_shown_by_name_and_by_id(member, servers, version):
    for words in ("web-1", servers["web-1"]):
        shown = member.read(*version, "server", "show", words)
        assert (shown["id"], shown["name"], shown["status"]) == (servers["web-1"], "web-1", "ACTIVE")
        assert (shown["project_id"], shown["properties"]) == (PROJECT, {"team": "paper"})
        assert shown["addresses"] == {"default": ["10.9.0.1", "2001:db8::1"]}


def test_administrators_list_the_servers_of_all_projects(admin, servers):
    assert {row["Name"] for row in admin.read("server", "list", "--all-projects")} == {"web-1", "web-2", "elsewhere"}


def test_a_server_of_another_project_is_not_there(standalone, servers):
    other = Cloud(standalone.clouds, "other")
    with pytest.raises(Refused, match=r"(?i)no server"):
        other.run("server", "show", servers["web-1"])


def test_the_library_lists_servers_page_by_page(connect, servers):
    compute = connect("member")
    assert [server.name for server in compute.servers(limit=1, sort_key="name", sort_dir="asc")] == ["web-1", "web-2"]
    assert [server.name for server in compute.servers(details=False, name="2$")] == ["web-2"]


def test_the_library_gets_and_finds_servers(connect, servers):
    compute = connect("member")
    shown = compute.get_server(servers["web-1"])
    assert (shown.name, shown.status, shown.project_id) == ("web-1", "ACTIVE", PROJECT)
    assert [one["addr"] for one in shown.addresses["default"]] == ["10.9.0.1", "2001:db8::1"]
    assert compute.find_server("web-2", ignore_missing=False).id == servers["web-2"]
    assert compute.find_server("web") is None
    with pytest.raises(exceptions.NotFoundException):
        compute.get_server(servers["elsewhere"])


def test_the_library_speaks_the_newest_version(connect, servers):
    compute = connect("member", compute_default_microversion="2.97")
    shown = compute.get_server(servers["web-1"])
    assert (shown.flavor.original_name, shown.is_locked, shown.description) == ("inventory", False, None)
