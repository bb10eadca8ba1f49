# SPDX-License-Identifier: Apache-2.0
"""Whatever can be broken before a start is said in one line with its mend, by `config check` and by the start."""

import socket

import pytest

from abaca.cli import exits
from abaca.db import migrations
from lab import processes
from tests.api.world import hashed

KEYSTONE = "auth_strategy = keystone\n[keystone_authtoken]\n"
NOVA = "[compute]\nplugin = nova\n"
NEUTRON = "[networks]\nplugin = neutron\nneutron_deployment = here\n"
HOOK = "[events]\nwebhooks = w\n[webhook_w]\n"
# what is broken: (files to make, configuration, what is said)
BROKEN = {
    "port of the database is no number": (
        {},
        "[database]\nconnection = postgresql://a:hush@db:54x/b\n",
        "its port is no number",
    ),
    "port of the database is too high": (
        {},
        "[database]\nconnection = postgresql://a:hush@db:99999/b\n",
        "names the port 99999",
    ),
    "database is no URL": ({}, "[database]\nconnection = postgresql:hush\n", "is no URL"),
    "other database": ({}, "[database]\nconnection = mysql://a:hush@db/b\n", "neither SQLite nor PostgreSQL"),
    "unknown option of libpq": (
        {},
        "[database]\nconnection = postgresql://a:hush@127.0.0.1:1/b?foo=1\n",
        "refuses: invalid",
    ),
    "sslmode": ({}, "[database]\nconnection = postgresql://a:hush@127.0.0.1:1/b?sslmode=x\n", "invalid sslmode"),
    "certificate of the database": (
        {},
        "[database]\nconnection = postgresql://a:hush@127.0.0.1:1/b?sslmode=verify-full&sslrootcert={dir}/no.pem\n",
        "sslrootcert in [database] connection: {dir}/no.pem cannot be read",
    ),
    "SQLite in memory": ({}, "[database]\nconnection = sqlite://\n", "does not say which file"),
    "SQLite without a whole path": ({}, "[database]\nconnection = sqlite:///abaca.sqlite\n", "does not say which file"),
    "SQLite file is garbage": ({"state/abaca.sqlite": "garbage " * 999}, "", "is no SQLite database"),
    "SQLite file is a directory": ({"state/abaca.sqlite/x": ""}, "", "cannot be opened"),
    "state directory is a file": ({"state": ""}, "", "cannot be written"),
    "state directory cannot be made": ({}, "state_path = /proc/abaca/state\n", "/proc/abaca/state cannot be written"),
    "log file is a directory": ({"log/x": ""}, "log_file = {dir}/log\n", "log_file = {dir}/log cannot be written"),
    "project_id_regex": ({}, "project_id_regex = [0-9\n", "is no regular expression"),
    "listening at no address": (
        {"users": ""},
        "auth_strategy = http_basic\nhttp_basic_auth_user_file = {dir}/users\nosapi_share_listen = no.such.invalid\n",
        "cannot be listened on",
    ),
    "no users file": (
        {},
        "auth_strategy = http_basic\nhttp_basic_auth_user_file = {dir}/users\n",
        "{dir}/users cannot be read",
    ),
    "users file is a directory": (
        {"users/x": ""},
        "auth_strategy = http_basic\nhttp_basic_auth_user_file = {dir}/users\n",
        "{dir}/users cannot be read",
    ),
    "users file is not text": (
        {"users": b"\xff\xfe"},
        "auth_strategy = http_basic\nhttp_basic_auth_user_file = {dir}/users\n",
        "{dir}/users cannot be read",
    ),
    "policy file is no YAML": ({"policy.yaml": "a: [b"}, "", "policy.yaml cannot be used"),
    "policy file is a list": ({"policy.yaml": "- a"}, "", "policy.yaml cannot be used"),
    "policy file is a directory": ({"policy.yaml/x": ""}, "", "policy.yaml cannot be used"),
    "rule is no text": ({"policy.yaml": "context_is_admin: 5"}, "", "policy.yaml cannot be used"),
    "no plugin of Keystone": ({}, KEYSTONE + "auth_type = pasword\n", "auth_type = pasword names no plugin"),
    "misspelt option of Keystone": ({}, KEYSTONE + "auth_uril = http://127.0.0.1\n", "has no option auth_uril"),
    "authority of Keystone": ({}, KEYSTONE + "cafile = {dir}/no.pem\n", "no.pem cannot be read"),
    "number in Keystone's options": (
        {},
        KEYSTONE + "auth_type = password\nhttp_connect_timeout = x\n",
        "is refused by keystonemiddleware",
    ),
    "secret of a webhook": ({}, HOOK + "url = http://127.0.0.1/\nsecret_file = {dir}/no\n", "{dir}/no cannot be read"),
    "short secret": (
        {"secret": "short"},
        HOOK + "url = http://127.0.0.1/\nsecret_file = {dir}/secret\n",
        "fewer than 16",
    ),
    "port of a webhook": (
        {"secret": "x" * 16},
        HOOK + "url = http://127.0.0.1:99999/\nsecret_file = {dir}/secret\n",
        "no port of 1 to 65535",
    ),
    "authority of a webhook": (
        {"secret": "x" * 16, "ca": "garbage"},
        HOOK + "url = https://127.0.0.1/\nsecret_file = {dir}/secret\nca_file = {dir}/ca\n",
        "{dir}/ca holds no certificates",
    ),
    "message bus": (
        {},
        "[oslo_messaging_notifications]\ndriver = messagingv2\ntransport_url = rabit://a:hush@127.0.0.1/\n",
        "transport_url in [oslo_messaging_notifications] is refused",
    ),
    "no clouds.yaml": ({}, NOVA + "nova_clouds_file = {dir}/no.yaml\n", "{dir}/no.yaml cannot be read"),
    "clouds.yaml is garbage": ({"c.yaml": "a: [b"}, NOVA + "nova_clouds_file = {dir}/c.yaml\n", "is no clouds.yaml"),
    "no such cloud": (
        {"c.yaml": "clouds: {other: {}}"},
        NOVA + "nova_clouds_file = {dir}/c.yaml\n",
        "has no cloud nova",
    ),
    "no known_hosts": (
        {"c.yaml": "clouds: {nova: {}}"},
        NOVA + "nova_clouds_file = {dir}/c.yaml\nnova_known_hosts = {dir}/no\n",
        "{dir}/no cannot be read",
    ),
    "no clouds.yaml of a Neutron": (
        {},
        NEUTRON + "neutron_clouds_file = {dir}/no.yaml\n",
        "{dir}/no.yaml cannot be read",
    ),
    "no such cloud of a Neutron": (
        {"c.yaml": "clouds: {other: {}}"},
        NEUTRON + "neutron_clouds_file = {dir}/c.yaml\n",
        "has no cloud neutron. Set neutron_cloud in [networks] to one of: other",
    ),
    "Neutron without a name": ({}, "[networks]\nplugin = neutron\n", "plugin = neutron needs neutron_deployment"),
    "declared subnet": (
        {},
        "[networks]\nsubnets = a\n[subnet_a]\ncidr = 10.0.0.1/24\n",
        "[subnet_a]: its cidr is none: 10.0.0.1/24 has host bits set",
    ),
    "unknown driver": ({}, "enabled_share_backends = a\n[a]\ndriver = lokal\n", "Did you mean 'local'?"),
    "address of a driver": ({}, "enabled_share_backends = a\n[a]\ndriver = local\nexport_ips = x\n", "[a]"),
    "rehearsal": (
        {},
        "[nodes]\nplugin = rehearsal\nrehearsal_failures = mount:Nonsense\n",
        "Name a method and an error",
    ),
    "directory of keys": ({}, "[compute]\nkey_directory = keys\n", "key_directory = keys is not absolute"),
}


@pytest.fixture
def broken(request, tmp_path, config):
    """The configuration file with something broken, and what is to be said of it."""
    files, text, says = BROKEN[request.param]
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return config(text.replace("{dir}", str(tmp_path))), says.replace("{dir}", str(tmp_path))


@pytest.mark.parametrize("broken", BROKEN, indirect=True)
def test_config_check_finds_it_first(abaca, broken):
    file, says = broken
    said = abaca("config", "check", "--config-file", file)
    lines = [line for line in said.err.splitlines() if not line.startswith("abaca: note: ")]
    assert (said.status, said.out) == (exits.EX_CONFIG, ""), said
    assert len(lines) == 1
    assert says in lines[0]
    assert lines[0].startswith("abaca: ")
    assert "hush" not in said.err


@pytest.mark.parametrize("broken", BROKEN, indirect=True)
def test_no_command_says_it_in_another_way(abaca, broken):
    """Those that need what is broken refuse it in the same words, and nobody shows a traceback."""
    file, says = broken
    for command in (("db", "upgrade"), ("backend", "list")):
        said = abaca(*command, "--config-file", file)
        assert said.status in (0, exits.EX_CONFIG), said
        assert (said.err.count("\n"), bool(said.status)) in ((0, False), (1, True))
        assert not said.status or says in said.err or "no state directory" in said.err


def test_a_database_ahead_of_this_release_is_neither_upgraded_nor_used(abaca, config, tmp_path):
    import sqlite3

    file = config()
    assert abaca("db", "upgrade", "--config-file", file).status == 0
    with sqlite3.connect(tmp_path / "state" / "abaca.sqlite") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    ahead = f"abaca: The database is at revision 9999, ahead of this release's {migrations.HEAD}. "
    for command in (("config", "check"), ("db", "upgrade"), ("backend", "list")):
        said = abaca(*command, "--config-file", file)
        assert (said.status, said.err.startswith(ahead), said.err.count("\n")) == (exits.EX_CONFIG, True, 1), command


def test_a_taken_port_is_told_and_refuses_nothing_since_abaca_may_have_it(abaca, config):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = abaca("config", "check", "--config-file", config(f"osapi_share_listen_port = {port}\n"))
    assert (said.status, said.err.count("\n")) == (0, 1)
    assert said.err.startswith(f"abaca: note: 127.0.0.1 port {port} is taken.")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[database]\nconnection = postgresql://a:hush@127.0.0.1:1/b\n", "does not answer: "),
        (
            KEYSTONE + "auth_type = password\nauth_url = http://127.0.0.1:1/v3\nusername = a\npassword = hush\n",
            "Keystone at ",
        ),
    ],
)
def test_what_is_away_is_told_and_refuses_nothing(abaca, config, text, says):
    said = abaca("config", "check", "--config-file", config(text))
    assert (said.status, said.err.count("\n")) == (0, 1)
    assert said.err.startswith("abaca: note: ")
    assert says in said.err
    assert "hush" not in said.err + said.out


def test_what_would_cross_a_network_in_the_clear_is_noted_and_refuses_nothing(abaca, config, tmp_path):
    (tmp_path / "users").write_text(f"ann:{hashed('hush')}:p:member\n")
    port = processes.free_port("0.0.0.0")
    users = f"auth_strategy = http_basic\nhttp_basic_auth_user_file = {tmp_path}/users\n"
    file = config(f"osapi_share_listen = 0.0.0.0\nosapi_share_listen_port = {port}\n{users}")
    said = abaca("config", "check", "--config-file", file)
    notes = [line for line in said.err.splitlines() if "in the clear" in line]
    assert (said.status, len(notes)) == (0, 1), said
    assert notes[0].startswith("abaca: note: Passwords and tokens would reach 0.0.0.0 in the clear")
