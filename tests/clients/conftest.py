# SPDX-License-Identifier: Apache-2.0
"""A service that clients talk to: `abaca run` with the dummy back end, an administrator, a member and a reader."""

import pytest

from lab import runs, service
from tests.clients import command
from tests.lab.conftest import pytest_runtest_call, pytest_runtest_setup  # noqa: F401 (hooks)

PROJECT = "a1" * 16
OTHER_PROJECT = "b2" * 16
USERS = {
    "admin": (PROJECT, "admin"),
    "member": (PROJECT, "member"),
    "reader": (PROJECT, "reader"),
    "other": (OTHER_PROJECT, "member"),
}
BACKEND = {"driver": "dummy", "export_ips": "10.0.0.10, 10.0.0.20", "admin_export_ips": "11.0.0.11"}


@pytest.fixture(scope="package")
def run():
    with runs.Run() as run:
        yield run
    assert run.leftovers() == []


@pytest.fixture(scope="package")
def standalone(run):
    """The service, without Keystone; its clouds are `admin`, `member`, `reader` and `other`."""
    directory = run.path("standalone")
    passwords = service.write_users(directory / "users", USERS)
    sections = {
        "DEFAULT": {
            "host": "here",
            "auth_strategy": "http_basic",
            "http_basic_auth_user_file": directory / "users",
            "default_share_type": "default",
            "enabled_share_backends": "alpha",
            "enabled_share_protocols": "NFS,CIFS",
        },
        "alpha": BACKEND,
        "nodes": {"plugin": "rehearsal", "mount_roots": "/net"},
    }
    with service.Service(run, sections, directory=directory) as made:
        made.clouds = directory / "clouds.yaml"
        command.write_clouds(
            made.clouds, {name: command.basic(made.url, name, password) for name, password in passwords.items()}
        )
        yield made


@pytest.fixture(scope="package")
def admin(standalone):
    return command.Cloud(standalone.clouds, "admin")


@pytest.fixture(scope="package")
def member(standalone):
    return command.Cloud(standalone.clouds, "member")


@pytest.fixture(scope="package")
def default_type(admin):
    """The share type of shares that are made without one."""
    able = ("snapshot", "create-share-from-snapshot", "revert-to-snapshot", "mount-snapshot")
    words = [word for name in able for word in (f"--{name}-support", "true")]
    return admin.read("share", "type", "create", "default", "false", *words)
