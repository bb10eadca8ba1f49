# SPDX-License-Identifier: Apache-2.0
"""The unmodified clients of compute attach shares to servers, with machines on paper."""

import contextlib
import itertools
import json

import openstack
import pytest
from openstack import exceptions

from tests.clients.command import Refused
from tests.clients.conftest import PROJECT
from tests.clients.test_compute import NEWEST, abaca, pytestmark, servers  # noqa: F401 (a fixture, and marks)
from tests.conftest import wait_until

NUMBERS = itertools.count(1)
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


@pytest.fixture(scope="module")
def server(standalone):
    """The id of a machine into which workers get."""
    words = ("--address", "10.9.7.1", "--host-key", KEY, "--key", "file:/etc/abaca/keys/id")
    abaca(standalone, "add", "mounts-1", "--project", PROJECT, *words)
    (row,) = json.loads(abaca(standalone, "list", "--name", "mounts-1", "--json"))
    yield row["id"]
    abaca(standalone, "remove", row["id"])


@pytest.fixture
def share(member, default_type):
    name = f"attached-{next(NUMBERS)}"
    made = member.read("share", "create", "NFS", "1", "--name", name)
    wait_until(lambda: member.read("share", "show", made["id"])["status"] == "available")
    yield made["id"]
    member.run("share", "delete", made["id"])


@pytest.fixture
def connection(standalone):
    config = openstack.config.OpenStackConfig(config_files=[str(standalone.clouds)], load_envvars=False)
    with contextlib.closing(openstack.connection.Connection(config=config.get_one(cloud="member"))) as made:
        yield made


def test_the_command_adds_lists_shows_and_removes_a_share(member, server, share):
    member.run(*NEWEST, "server", "add", "share", "mounts-1", share, "--tag", "data")

    def shown():
        return member.read(*NEWEST, "server", "share", "show", "mounts-1", share)

    wait_until(lambda: shown()["Status"] == "active")
    assert (shown()["Share ID"], shown()["Tag"]) == (share, "data")
    (row,) = member.read(*NEWEST, "server", "share", "list", "mounts-1")
    assert (row["Share ID"], row["Status"], row["Tag"]) == (share, "active", "data")
    with pytest.raises(Refused, match="already"):
        member.run(*NEWEST, "server", "add", "share", "mounts-1", share)
    member.run(*NEWEST, "server", "remove", "share", "mounts-1", share)
    wait_until(lambda: member.read(*NEWEST, "server", "share", "list", "mounts-1") == [])


def test_the_library_attaches_shows_lists_and_detaches(connection, server, share):
    compute = connection.compute
    made = compute.create_share_attachment(server, share, tag="by-library")
    assert (made.share_id, made.tag) == (share, "by-library")
    wait_until(lambda: compute.get_share_attachment(server, share).status == "active")
    assert [one.share_id for one in compute.share_attachments(server)] == [share]
    compute.delete_share_attachment(server, share)
    wait_until(lambda: list(compute.share_attachments(server)) == [])
    with pytest.raises(exceptions.NotFoundException):
        compute.get_share_attachment(server, share)


@pytest.fixture
def locked(standalone):
    """The id of a machine to which nobody has said how to log in."""
    abaca(standalone, "add", "locked-1", "--project", PROJECT, "--address", "10.9.7.2")
    (row,) = json.loads(abaca(standalone, "list", "--name", "locked-1", "--json"))
    yield row["id"]
    abaca(standalone, "remove", row["id"])


def test_a_share_that_cannot_be_attached_leaves_a_message_that_says_what_to_do(member, connection, locked, share):
    compute = connection.compute
    compute.create_share_attachment(locked, share)
    wait_until(lambda: compute.get_share_attachment(locked, share).status == "error")
    (message,) = member.read("share", "message", "list", "--resource-id", share)
    assert (message["Resource Type"], message["Action ID"]) == ("SHARE", "901")
    for said in ("attach to a server", locked, "Register how to log in to the server"):
        assert said in message["User Message"]
    compute.delete_share_attachment(locked, share)
    wait_until(lambda: list(compute.share_attachments(locked)) == [])


def test_a_scrape_tells_how_long_attaching_took(standalone, connection, server, share):
    def is_told(line):
        return lambda: line in connection.session.get(f"{standalone.url}/metrics", authenticated=False).text

    connection.compute.create_share_attachment(server, share)
    wait_until(is_told('abaca_attachments{state="active"} 1.0'))
    connection.compute.delete_share_attachment(server, share)
    wait_until(is_told('abaca_change_seconds_count{change="share.detach",outcome="done"}'))
    assert is_told('abaca_change_seconds_count{change="share.attach",outcome="done"}')()
