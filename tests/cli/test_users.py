# SPDX-License-Identifier: Apache-2.0
"""`abaca user`, as a person or a script gives it."""

import json
import subprocess
import sys

import pytest

from abaca.http.users_file import read


@pytest.fixture
def file(tmp_path):
    return tmp_path / "users"


@pytest.fixture
def user(config, file):
    """`user("add", "ann", ...)`: the command with a password on its input; how it ended."""
    configuration = config(f"http_basic_auth_user_file = {file}\n")

    def user(*arguments, password=""):
        command = [sys.executable, "-m", "abaca", "user", *arguments, "--config-file", str(configuration)]
        return subprocess.run(command, input=password, capture_output=True, text=True, timeout=60, check=False)

    return user


def test_users_are_added_changed_shown_and_removed(user, file):
    file.write_text("# the people\n")
    file.chmod(0o600)
    added = user("add", "ann", "--project", "p1", "--role", "admin", password="first-secret\n")
    assert (added.returncode, added.stdout) == (0, "ann may log in as admin of project p1.\n"), added
    assert user("passwd", "ann", password="second-secret\n").returncode == 0
    assert read(file).verify("ann", b"first-secret") is None
    assert read(file).verify("ann", b"second-secret").identity.project_id == "p1"
    assert file.read_text().startswith("# the people\nann:$2b$10$")
    assert file.stat().st_mode & 0o777 == 0o600
    shown = json.loads(user("list", "--json").stdout)
    assert shown == [{"name": "ann", "project_id": "p1", "roles": "admin"}]
    assert user("remove", "ann").returncode == 0
    assert file.read_text() == "# the people\n"


@pytest.mark.parametrize(
    ("arguments", "password", "says"),
    [
        (("add", "ann", "--project", "p1"), "short\n", "8 characters or more"),
        (("add", "ann", "--project", "p1"), "x" * 73 + "\n", "at most 72 bytes"),
        (("add", "a:b", "--project", "p1"), "long-enough\n", "without ':'"),
        (("add", "ann", "--project", "p 1"), "long-enough\n", "project id"),
        (("add", "ann", "--project", "p1", "--role", "a,b"), "long-enough\n", "cannot be a role"),
        (("remove", "ann"), "", "User ann could not be found"),
    ],
)
def test_what_the_file_cannot_hold_changes_nothing(user, file, arguments, password, says):
    refused = user(*arguments, password=password)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1), refused
    assert says in refused.stderr
    assert not file.exists()
