# SPDX-License-Identifier: Apache-2.0
"""Operators register machines on the command line and from files."""

import json

import pytest

from abaca import app, settings
from tests.compute.harness import host_key

PROJECT = "a1" * 16
YAML = f"""
defaults: {{project_id: {PROJECT}, ssh_user: debian, key: "file:/etc/abaca/keys/id"}}
servers:
- {{name: web-1, addresses: [10.0.0.1, "2001:db8::1"]}}
- {{name: web-2, addresses: [{{ip: 10.0.0.2, network: storage}}], ssh_user: root}}
"""
TOML = f"""
[defaults]
project_id = "{PROJECT}"
[[servers]]
name = "web-1"
addresses = ["10.0.0.1"]
"""


@pytest.fixture
def server(abaca, config, tmp_path):
    """`abaca server` over a database of its own."""
    file = config()
    (tmp_path / "state").mkdir()
    app.ready_database(settings.read([file], environ={}).settings).close()
    return lambda verb, *words: abaca("server", verb, "--config-file", file, *words)


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        file = tmp_path / name
        file.write_text(text)
        return file

    return write


def listed(server):
    return {row["name"]: row for row in json.loads(server("list", "--json").out)}


def test_a_server_is_added_shown_and_removed(server):
    key = host_key()
    words = ["--project", PROJECT, "--address", "10.0.0.1", "--address", "2001:DB8::1", "--property", "floor=2"]
    said = server("add", "web-1", *words, "--host-key", key, "--key", "file:/etc/abaca/keys/id", "--ssh-port", "2222")
    assert (said.status, said.out.split()[1]) == (0, "registered")
    shown = json.loads(server("show", "web-1", "--json").out)
    assert (shown["host_key"], shown["ssh_port"], shown["metadata"]) == (key, 2222, {"floor": "2"})
    assert [one["ip"] for one in shown["addresses"]] == ["10.0.0.1", "2001:db8::1"]
    assert "web-1" in server("list").out
    assert server("remove", "web-1").status == 0
    assert listed(server) == {}


def test_adding_it_again_changes_what_is_said(server):
    server("add", "web-1", "--project", PROJECT, "--address", "10.0.0.1", "--ssh-user", "debian")
    assert server("add", "web-1", "--project", PROJECT, "--address", "10.0.0.1").out.split()[1] == "unchanged"
    assert server("add", "web-1", "--project", PROJECT, "--address", "10.0.0.2").out.split()[1] == "changed"
    row = listed(server)["web-1"]
    assert (row["addresses"][0]["ip"], row["ssh_user"]) == ("10.0.0.2", "debian")


def test_a_file_is_imported_and_may_be_imported_again(server, write):
    file = write("servers.yaml", YAML)
    assert server("import", file).out == "2 registered\n"
    assert server("import", file).out == "2 unchanged\n"
    assert listed(server)["web-1"]["ssh_user"] == "debian"
    assert listed(server)["web-2"]["addresses"] == [{"ip": "10.0.0.2", "network": "storage"}]
    assert server("import", write("servers.toml", TOML)).out == "1 changed\n"
    whole = [{"name": "web-1", "project_id": PROJECT, "addresses": ["10.0.0.1"], "description": None}]
    assert server("import", write("servers.json", json.dumps(whole))).out == "1 unchanged\n"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("servers.yaml", "servers: [{name: x}]", "'project_id' is required"),
        ("servers.yaml", YAML + "- {name: ' ', addresses: [10.0.0.1]}", "Server 3 ( )"),
        ("servers.yaml", YAML + "- {name: a, addresses: [10.0.0.1], password: x}", "'password'"),
        ("servers.yaml", YAML + "- {name: a, addresses: [10.0.0.1], key: 'file:/etc/shadow'}", "key_directory"),
        ("servers.yaml", "{", "cannot be read"),
        ("servers.yaml", "machines: []", "must hold a list `servers`"),
        ("servers.yaml", "servers: [web]", "must hold names with values"),
        ("servers.toml", "= 1", "cannot be read"),
        ("servers.json", "[", "cannot be read"),
        ("servers.txt", "x", "must end in"),
    ],
)
def test_a_file_that_is_wrong_changes_nothing_and_says_where(server, write, name, text, says):
    said = server("import", write(name, text))
    assert said.status == 1
    assert says in said.err
    assert listed(server) == {}


def test_two_projects_may_have_a_server_of_one_name(server):
    for project in ("one", "two"):
        server("add", "web", "--project", project, "--address", "10.0.0.1")
    said = server("show", "web")
    assert said.status == 1
    assert "say which one by its id" in said.err
    assert server("show", "web", "--project", "one").status == 0
    assert server("remove", "web", "--project", "two").status == 0
    assert listed(server)["web"]["project_id"] == "one"


def test_what_is_not_there_cannot_be_removed(server):
    said = server("remove", "web")
    assert (said.status, said.err) == (1, "abaca: Server web could not be found.\n")


def test_a_key_that_is_not_here_and_an_address_of_another_are_said(server, tmp_path):
    words = ["--project", PROJECT, "--address", "10.0.0.1", "--address", "10.0.0.2"]
    said = server("add", "web-1", *words, "--key", "file:/etc/abaca/keys/nothing-there")
    assert said.status == 0
    assert "there is no file /etc/abaca/keys/nothing-there on this host" in said.err
    first = said.out.split()[0]
    said = server("add", "web-2", "--project", "others", "--address", "10.0.0.2")
    assert (said.status, said.out.split()[1]) == (0, "registered")
    assert f"10.0.0.2 is an address of server web-1 ({first}) of project {PROJECT} too" in said.err
    assert "10.0.0.1" not in said.err
