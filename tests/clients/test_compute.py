# SPDX-License-Identifier: Apache-2.0
"""The unmodified clients of compute see the servers that shares are attached to."""

import contextlib
import json
import subprocess
import sys

import openstack
import pytest
from openstack import exceptions

from tests.clients.command import Cloud, Refused, read_clouds, write_clouds
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


ALL = ["web-2", "web-1"]
QUERIES = {
    "name": ({"name": "web"}, ALL),
    "a name that is a regular expression": ({"name": "^WEB-[23]$"}, ["web-2"]),
    "an IPv4 address": ({"ip": "10.9.0.1"}, ["web-1"]),
    "an IPv6 address": ({"ipv6_address": "2001:db8::1"}, ["web-1"]),
    "a status": ({"status": "ACTIVE"}, ALL),
    "a status that none has": ({"status": "SHUTOFF"}, []),
    "changes since long ago": ({"changes_since": "2020-01-01T00:00:00Z"}, ALL),
    "changes since never": ({"changes_since": "2099-01-01T00:00:00Z"}, []),
    "changes before long ago": ({"changes_before": "2020-01-01T00:00:00Z"}, []),
    "a lock": ({"is_locked": True}, []),
    "tags": ({"tags": "red"}, []),
    "tags that it lacks": ({"not_tags": "red"}, ALL),
    "a virtual machine's state": ({"vm_state": "active"}, ALL),
    "a zone": ({"availability_zone": "elsewhere"}, []),
    "an order": ({"sort_key": "display_name", "sort_dir": "asc"}, ["web-1", "web-2"]),
    "pages of one": ({"limit": 1}, ALL),
    "pages of one by name": ({"limit": 1, "sort_key": "name", "sort_dir": "asc"}, ["web-1", "web-2"]),
    "deleted, which users may not ask for": ({"deleted_only": True}, ALL),
}


@pytest.fixture(params=["", f"/{PROJECT}"], ids=["plain", "with the project's id"])
def compute(request, standalone, tmp_path):
    """The library's view of compute at either form of the address."""
    entry = read_clouds(standalone.clouds)["member"]
    entry["compute_endpoint_override"] += request.param
    write_clouds(tmp_path / "clouds.yaml", {"this": entry})
    config = openstack.config.OpenStackConfig(config_files=[str(tmp_path / "clouds.yaml")], load_envvars=False)
    with openstack.connection.Connection(
        config=config.get_one(cloud="this", compute_default_microversion="2.97")
    ) as connection:
        yield connection.compute


@pytest.mark.parametrize("asked", QUERIES)
def test_the_library_lists_servers_by(compute, servers, asked):
    query, found = QUERIES[asked]
    assert [server.name for server in compute.servers(**query)] == found


def test_the_library_finds_flavors_and_zones(compute, servers):
    assert [flavor.name for flavor in compute.flavors()] == ["inventory"]
    assert [flavor.name for flavor in compute.flavors(details=False)] == ["inventory"]
    assert compute.find_flavor("inventory", ignore_missing=False).ram == 0
    zones = {server.availability_zone for server in compute.servers()} - {""}
    assert {zone.name for zone in compute.availability_zones()} == zones


def test_both_forms_of_the_address_show_and_attach(compute, servers):
    assert compute.get_server(servers["web-1"]).name == "web-1"
    assert list(compute.share_attachments(servers["web-1"])) == []
    with pytest.raises(exceptions.NotFoundException, match="could not be found"):
        compute.create_share_attachment(servers["web-1"], "00000000-0000-0000-0000-000000000000")


@pytest.mark.parametrize("query", [{"limit": 1, "marker": "nobody"}, {"changes_since": "yesterday"}, {"name": "("}])
def test_what_makes_no_sense_is_a_bad_request(compute, servers, query):
    with pytest.raises(exceptions.BadRequestException):
        list(compute.servers(**query))


def test_a_name_in_two_projects_is_ambiguous_for_whoever_sees_both(standalone, servers, connect):
    abaca(standalone, "add", "web-1", "--project", OTHER_PROJECT, "--address", "10.9.0.9")
    twin = connect("other").find_server("web-1")
    try:
        assert connect("admin").find_server("web-1").id == servers["web-1"]
        with pytest.raises(exceptions.DuplicateResource):
            connect("admin").find_server("web-1", all_projects=True)
    finally:
        abaca(standalone, "remove", twin.id)


def test_before_the_version_that_has_them_a_server_has_no_shares(member, connect, servers):
    compute = connect("member", compute_default_microversion="2.96")
    with pytest.raises(exceptions.NotFoundException):
        list(compute.share_attachments(servers["web-1"]))
    with pytest.raises(exceptions.NotFoundException):
        compute.create_share_attachment(servers["web-1"], "00000000-0000-0000-0000-000000000000")
    with pytest.raises(Refused, match=r"2\.97 or greater is required"):
        member.run("--os-compute-api-version", "2.96", "server", "share", "list", "web-1")


def test_the_command_lists_all_projects_at_length(admin, servers):
    page = ("--limit", "2", "--marker", servers["elsewhere"])
    rows = admin.read(*NEWEST, "server", "list", "--all-projects", "--long", *page)
    shown = {row["Name"]: (row["Project ID"], row["Power State"]) for row in rows}
    assert shown == {"web-2": (PROJECT, 1), "web-1": (PROJECT, 1)}


def test_what_does_not_exist_is_refused_in_words(member, connect, servers):
    with pytest.raises(exceptions.ForbiddenException, match="get_all_tenants"):
        list(connect("member").servers(all_projects=True))
    with pytest.raises(Refused, match="No Server found for nobody"):
        member.run(*NEWEST, "server", "add", "share", "nobody", "nothing")
    with pytest.raises(Refused, match="No Share found for nothing"):
        member.run(*NEWEST, "server", "add", "share", "web-1", "nothing")
