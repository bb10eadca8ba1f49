# SPDX-License-Identifier: Apache-2.0
"""docs/using/networks.md is followed word by word, and clients do all with networks that they do elsewhere."""

import contextlib
import subprocess
import textwrap

import openstack
import pytest

from lab import caller, service
from tests.clients.command import Cloud, Refused, basic, on_path, read_clouds, write_clouds
from tests.clients.conftest import USERS
from tests.conftest import ROOT, wait_until

pytestmark = [
    pytest.mark.system,
    # the library's, of its own future
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]

PAGE = ROOT / "docs" / "using" / "networks.md"


@pytest.fixture(scope="module")
def served(run):
    """A service whose back end makes share servers, on two networks that are declared."""
    directory = run.path("served")
    passwords = service.write_users(directory / "users", USERS)
    sections = {
        "DEFAULT": {
            "host": "here",
            "auth_strategy": "http_basic",
            "http_basic_auth_user_file": directory / "users",
            "enabled_share_backends": "served",
            "enabled_share_protocols": "NFS",
        },
        "served": {"driver": "dummy", "driver_handles_share_servers": "true"},
        "networks": {"subnets": "west,east"},
        "subnet_west": {"cidr": "10.20.0.0/24", "is_default": "true"},
        "subnet_east": {"cidr": "fd20::/64", "network_id": "fields", "subnet_id": "east"},
        "nodes": {"plugin": "rehearsal"},
    }
    with service.Service(run, sections, directory=directory) as made:
        made.clouds = directory / "clouds.yaml"
        write_clouds(made.clouds, {name: basic(made.url, name, password) for name, password in passwords.items()})
        Cloud(made.clouds, "admin").run("share", "type", "create", "tenant", "true")
        yield made


@pytest.fixture(scope="module")
def admin(served):
    return Cloud(served.clouds, "admin")


@pytest.fixture(scope="module")
def member(served):
    return Cloud(served.clouds, "member")


def lines_to_type():
    """The indented lines of the page, in its order."""
    lines = PAGE.read_text().splitlines()
    return textwrap.dedent("\n".join(line for line in lines if line.startswith("    ")))


def test_the_users_page_can_be_followed_word_by_word(served, tmp_path):
    entry = read_clouds(served.clouds)["member"]
    write_clouds(tmp_path / "clouds.yaml", {"abaca": entry})
    (tmp_path / "bin").mkdir()
    user = caller.basic(entry["auth"]["username"], entry["auth"]["password"])
    given = {
        "PATH": on_path(tmp_path / "bin"),
        "OS_CLIENT_CONFIG_FILE": str(tmp_path / "clouds.yaml"),
        "ABACA": served.url,
        "AUTH": f"Authorization: {user['Authorization']}",
    }
    lines = ("set -euo pipefail", lines_to_type(), "openstack share network list -f json")
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        env=given,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for seen in ('"is_possible":true', "10.20.0.", "[fd20:", '"uses":[]'):
        assert seen in done.stdout
    assert done.stdout.endswith("[]\n"), "no share network is left"


def test_the_command_makes_networks_and_adds_subnets_to_them_while_they_serve(admin, member):
    network = member.read("share", "network", "create", "--name", "green", "--description", "Grass")
    member.run("share", "network", "set", "green", "--description", "Meadow")
    assert member.read("share", "network", "show", "green")["description"] == "Meadow"
    words = ("NFS", "1", "--name", "hay", "--share-type", "tenant", "--share-network", "green", "--wait")
    share = member.read("share", "create", *words)
    assert share["status"] == "available"
    subnet = ("share", "network", "subnet", "create", "green")
    with pytest.raises(Refused, match="no check operation was found"):
        member.run(*subnet)
    wait_until(lambda: member.read(*subnet, "--check-only")["compatible"] is True, every_s=0.1)
    made = member.read(*subnet, "--property", "for=cows")
    assert made["share_network_id"] == network["id"]
    assert "cows" in member.run("share", "network", "subnet", "show", "green", made["id"])
    wait_until(lambda: member.read("share", "network", "show", "green")["status"] == "active", every_s=0.1)
    assert len(member.read("share", "export", "location", "list", "hay")) == 2
    member.run("share", "network", "subnet", "unset", "green", made["id"], "--property", "for")
    assert "cows" not in member.run("share", "network", "subnet", "show", "green", made["id"])
    (server,) = admin.read("share", "server", "list", "--share-network", "green")
    shown = admin.read("share", "server", "show", server["ID"])
    assert (shown["status"], len(shown["share_network_subnet_ids"])) == ("active", 2)
    with pytest.raises(Refused, match="has shares"):
        member.run("share", "network", "subnet", "delete", "green", made["id"])
    member.run("share", "delete", "hay", "--wait")
    member.run("share", "network", "subnet", "delete", "green", made["id"])
    member.run("share", "network", "delete", "green")
    assert member.read("share", "network", "list") == []


def test_the_command_gives_share_servers_up_and_takes_them_over(admin, member):
    network = member.read("share", "network", "create", "--name", "old")["id"]
    words = ("NFS", "1", "--name", "barn", "--share-type", "tenant", "--share-network", "old", "--wait")
    share = member.read("share", "create", *words)
    (place,) = member.read("share", "export", "location", "list", "barn")
    (server,) = admin.read("share", "server", "list", "--share-network", network)
    identifier = admin.read("share", "server", "show", server["ID"])["identifier"]
    with pytest.raises(Refused, match="has shares"):
        admin.run("share", "server", "abandon", server["ID"])
    admin.run("share", "abandon", share["id"], "--wait")
    admin.run("share", "server", "abandon", server["ID"], "--wait")
    assert admin.read("share", "server", "list") == []
    taken = admin.read("share", "server", "adopt", "here@served", network, identifier, "--wait")
    assert (taken["status"], taken["identifier"]) == ("active", identifier)
    words = ("--share-type", "tenant", "--share-server-id", taken["id"], "--name", "barn", "--wait")
    adopted = admin.read("share", "adopt", "here@served#pool1", "NFS", place["Path"], *words)
    assert (adopted["status"], adopted["share_server_id"]) == ("available", taken["id"])
    admin.run("share", "delete", adopted["id"], "--wait")
    admin.run("share", "server", "delete", taken["id"], "--wait")
    member.run("share", "network", "delete", "old")
    assert member.read("share", "network", "list") == []


def test_the_command_knows_directories(member):
    words = ("--name", "staff", "--dns-ip", "10.20.0.9", "--domain", "farm.example", "--user", "ann")
    made = member.read("share", "security", "service", "create", "active_directory", *words)
    member.run("share", "security", "service", "set", "staff", "--domain", "barn.example")
    assert member.read("share", "security", "service", "show", "staff")["domain"] == "barn.example"
    member.run("share", "network", "create", "--name", "fenced")
    member.run("share", "network", "set", "fenced", "--new-security-service", "staff")
    (row,) = member.read("share", "security", "service", "list", "--share-network", "fenced")
    assert row["ID"] == made["id"]
    member.run("share", "network", "unset", "fenced", "--security-service", "staff")
    member.run("share", "network", "delete", "fenced")
    member.run("share", "security", "service", "delete", "staff")
    assert member.read("share", "security", "service", "list") == []


def test_the_library_makes_networks_and_subnets(served, tmp_path):
    entry = read_clouds(served.clouds)["member"] | {"shared_file_system_api_version": "2.82"}
    write_clouds(tmp_path / "sdk.yaml", {"member": entry})
    config = openstack.config.OpenStackConfig(config_files=[str(tmp_path / "sdk.yaml")], load_envvars=False)
    with contextlib.closing(openstack.connection.Connection(config=config.get_one(cloud="member"))) as connection:
        shares = connection.shared_file_system
        network = shares.create_share_network(name="sdk")
        assert shares.update_share_network(network, description="by a library").description == "by a library"
        subnet = shares.create_share_network_subnet(network.id, metadata={"for": "hens"})
        assert {one.id for one in shares.share_network_subnets(network.id)} > {subnet.id}
        assert shares.get_share_network_subnet(network.id, subnet.id).share_network_name == "sdk"
        shares.set_share_network_subnet_metadata(network.id, subnet.id, by="ann")
        assert shares.fetch_share_network_subnet_metadata_item(network.id, subnet.id, "by").metadata == {"by": "ann"}
        shares.delete_share_network_subnet_metadata(network.id, subnet.id, ["for"])
        assert shares.fetch_share_network_subnet_metadata(network.id, subnet.id).metadata == {"by": "ann"}
        assert shares.get_share_network(network.id).name == "sdk"
        shares.delete_share_network_subnet(network.id, subnet)
        shares.delete_share_network(network)
        assert [one.name for one in shares.share_networks()] == []
