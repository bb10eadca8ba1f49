# SPDX-License-Identifier: Apache-2.0
"""Programs that cannot start end at once, by one line with the mend, and are not started again."""

import socket

import pytest

from abaca.cli import exits
from lab import processes
from tests.databases import postgres  # noqa: F401 (a fixture)

LOCKED = "host all locked 127.0.0.1/32 scram-sha-256\nhost all stranger 127.0.0.1/32 reject\n"


def refused(running, says):
    assert running.ended() == exits.EX_CONFIG
    assert says in running.said()
    assert running.said().count("\n") == 1


@pytest.mark.parametrize("program", ["run", "worker"])
def test_a_sqlite_file_that_is_garbage(started, tmp_path, program):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "abaca.sqlite").write_text("garbage " * 999)
    refused(started(program), "abaca.sqlite is no SQLite database. Put a backup in its place")


def test_a_port_of_the_database_that_is_no_number(started):
    refused(started(OS_DATABASE__CONNECTION="postgresql://a:b@c:54x/d"), "its port is no number")


@pytest.mark.parametrize("program", ["run", "config check"])
def test_a_state_directory_without_room(started, tmp_path, program):
    state = tmp_path / "state"
    state.mkdir()
    processes.command(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(state)])
    try:
        (state / "filler").write_bytes(bytes(48 << 10))
        refused(started(*program.split()), "cannot be written: No space left on device. Make room")
    finally:
        processes.command(["umount", str(state)])


@pytest.mark.parametrize(("program", "workers"), [("run", "1"), ("api", "1"), ("api", "2")])
def test_a_users_file_that_is_not_there(started, tmp_path, program, workers):
    users = {"OS_DEFAULT__AUTH_STRATEGY": "http_basic", "OS_DEFAULT__HTTP_BASIC_AUTH_USER_FILE": str(tmp_path / "no")}
    refused(
        started(program, OS_DEFAULT__OSAPI_SHARE_WORKERS=workers, **users),
        f"The users file {tmp_path / 'no'} cannot be read",
    )


@pytest.mark.parametrize("program", ["run", "api"])
def test_a_policy_file_that_cannot_be_used(started, tmp_path, program):
    file = tmp_path / "rules.yaml"
    file.write_text("a: [b")
    refused(started(program, OS_OSLO_POLICY__POLICY_FILE=str(file)), f"{file} cannot be used")


@pytest.mark.parametrize("program", ["run", "api"])
def test_an_option_of_keystone_that_does_not_exist(started, program):
    said = {"OS_DEFAULT__AUTH_STRATEGY": "keystone", "OS_KEYSTONE_AUTHTOKEN__AUTH_URIL": "http://127.0.0.1:1"}
    refused(started(program, **said), "[keystone_authtoken] has no option auth_uril")


def test_a_port_below_1024_without_the_right_to_it(started):
    before = ("setpriv", "--bounding-set", "-net_bind_service", "--inh-caps", "-net_bind_service")
    running = started("run", port=81, before=before)
    refused(running, "Set osapi_share_listen_port above 1023, or let user")


def test_a_worker_whose_port_for_metrics_is_taken(started, taken_port):
    refused(started("worker", OS_WORKER__METRICS_PORT=str(taken_port)), "cannot be listened on for metrics")


@pytest.fixture
def taken_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


@pytest.fixture(scope="module")
def locked(postgres):  # noqa: F811
    """A server that wants a password of one role, and does not let another in."""
    file = postgres._data / "pg_hba.conf"
    file.write_text(LOCKED + file.read_text())
    postgres.execute(
        "SELECT pg_reload_conf()", "CREATE ROLE locked LOGIN PASSWORD 'right'", "CREATE ROLE stranger LOGIN"
    )
    return postgres.new_database().replace("postgresql+psycopg", "postgresql")


@pytest.mark.parametrize(
    ("program", "user", "name", "says"),
    [
        ("run", "locked:wrong", None, "Mend the user or the password in [database] connection"),
        ("config check", "locked:wrong", None, "Mend the user or the password in [database] connection"),
        ("config check", "stranger", None, "in the server's pg_hba.conf"),
        ("config check", "abaca", "nosuch", "Make it with `createdb"),
        ("api", "stranger", None, "in the server's pg_hba.conf"),
        ("worker", "abaca", "nosuch", "Make it with `createdb"),
        ("db upgrade", "nobody_there", None, "Make that user, or name another"),
        ("db upgrade", "locked:right", None, "Make the user of the connection the owner of the database"),
    ],
)
def test_a_database_that_refuses(started, locked, program, user, name, says):
    url = locked.replace("abaca@", f"{user}@")
    url = f"{url.rpartition('/')[0]}/{name}" if name else url
    refused(started(*program.split(), OS_DATABASE__CONNECTION=url), says)
