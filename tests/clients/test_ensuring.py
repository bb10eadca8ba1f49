# SPDX-License-Identifier: Apache-2.0
"""The shares of a back end are ensured by the clients as they are, and by the shorter command that comes with Abaca."""

import contextlib
import json

import openstack
import pytest

from abaca.db.journal.operations import ENDED
from lab import service
from tests.clients import command
from tests.clients.command import Cloud, Refused
from tests.clients.conftest import USERS
from tests.conftest import wait_until

pytestmark = [
    pytest.mark.system,
    # the library's, of its own future
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]

QUICK, SLOW = "here@quick", "here@slow"
# Longer than a command takes on a busy machine; one that is no longer wanted is cancelled.
PAGE_S = 6


@pytest.fixture(scope="module")
def abaca(run):
    """A service with a back end that takes no time, and one that takes its time for each share."""
    directory = run.path("ensuring")
    passwords = service.write_users(directory / "users", USERS)
    sections = {
        "DEFAULT": {
            "host": "here",
            "auth_strategy": "http_basic",
            "http_basic_auth_user_file": directory / "users",
            "default_share_type": "default",
            "enabled_share_backends": "quick,slow",
        },
        "worker": {"ensure_page": 1},
        "quick": {"driver": "dummy"},
        "slow": {"driver": "dummy", "delays": f"inspect:{PAGE_S}"},
    }
    with service.Service(run, sections, directory=directory) as made:
        made.clouds = directory / "clouds.yaml"
        clouds = {name: command.basic(made.url, name, password) for name, password in passwords.items()}
        command.write_clouds(made.clouds, clouds)
        yield made


@pytest.fixture(scope="module")
def admin(abaca):
    return Cloud(abaca.clouds, "admin")


@pytest.fixture(scope="module")
def shares(admin):
    """Two on each back end."""
    for name in ("quick", "slow"):
        words = ("--extra-specs", f"share_backend_name={name}")
        admin.run("share", "type", "create", name, "false", *words)
        for number in "12":
            admin.run("share", "create", "NFS", "1", "--name", name + number, "--share-type", name, "--wait")


def ensurings(abaca):
    """Every ensuring that the journal knows, the newest first."""
    return json.loads(abaca.command("operation", "list", "--all", "--kind", "backend-ensure", "--json"))


def ended(abaca, before):
    """The one that was asked for since, once it has ended; its service says so too."""
    (made,) = wait_until(lambda: [one for one in ensurings(abaca) if one["id"] not in before])
    return wait_until(lambda: [one for one in ensurings(abaca) if one["id"] == made["id"] and one["state"] in ENDED])[0]


@pytest.mark.parametrize("words", [("ensure", "shares"), ("ensure",)], ids=["landed", "short"])
def test_both_commands_ensure_the_shares_of_the_back_end_and_say_nothing(abaca, admin, shares, words):
    before = {one["id"] for one in ensurings(abaca)}
    assert admin.run("share", "service", *words, QUICK) == ""
    found = ended(abaca, before)
    assert (found["state"], found["queue"]) == ("done", QUICK)


def test_the_commands_are_two_and_each_is_found_by_its_whole_name(admin):
    short = admin.run("help", "share", "service", "ensure")
    landed = admin.run("help", "share", "service", "ensure", "shares")
    assert "openstack share service ensure [-h] <host>" in short
    assert "openstack share service ensure shares [-h] <host>" in landed


@pytest.mark.parametrize("words", [("ensure", "shares"), ("ensure",)], ids=["landed", "short"])
def test_refusals_are_told_by_both_commands(abaca, admin, words):
    with pytest.raises(Refused, match="HTTP 404"):
        admin.run("share", "service", *words, "here@nowhere")
    with pytest.raises(Refused, match="HTTP 403"):
        Cloud(abaca.clouds, "member").run("share", "service", *words, QUICK)
    with pytest.raises(Refused, match=r"2\.86"):
        admin.run("--os-share-api-version", "2.85", "share", "service", *words, QUICK)


def test_services_are_listed_by_whether_their_shares_are_being_ensured(abaca, admin, shares):
    before = {one["id"] for one in ensurings(abaca)}
    admin.run("share", "service", "ensure", "shares", SLOW)
    (row,) = admin.read("share", "service", "list", "--ensuring", "True")
    assert (row["Host"], row["State"], row["Ensuring"]) == (SLOW, "up", True)
    (row,) = admin.read("share", "service", "list", "--ensuring", "False")
    assert (row["Host"], row["State"], row["Ensuring"]) == (QUICK, "up", False)
    (asked,) = (one for one in ensurings(abaca) if one["id"] not in before)
    abaca.command("operation", "cancel", asked["id"])
    assert ended(abaca, before)["id"] == asked["id"]
    assert admin.read("share", "service", "list", "--ensuring", "True") == []


def test_the_library_ensures_shares_too(abaca, admin, shares):
    before = {one["id"] for one in ensurings(abaca)}
    file = abaca.directory / "sdk.yaml"
    cloud = command.read_clouds(abaca.clouds)["admin"]
    command.write_clouds(file, {"admin": {**cloud, "shared_file_system_api_version": "2.86"}})
    config = openstack.config.OpenStackConfig(config_files=[str(file)], load_envvars=False)
    connection = openstack.connection.Connection(config=config.get_one(cloud="admin"))
    with contextlib.closing(connection):
        connection.shared_file_system.ensure_shares_service(QUICK)
    assert ended(abaca, before)["state"] == "done"
