# SPDX-License-Identifier: Apache-2.0
"""The commands against an API elsewhere: what works beside the database works from afar."""

import contextlib
import json
import threading

import click
import pytest

from abaca.cli import answering, ports, serving
from abaca.cli.main import COMMANDS, cli
from tests.api import world as worlds
from tests.api.attachments import test_attachments as door

# What these do is done to a host: to its programs, database, files; or with the credentials that lie there.
OF_A_HOST = {"run", "api", "worker", "db", "certificate", "config", "user", "network-allocation"}
PROJECT = worlds.PROJECT


@contextlib.contextmanager
def served(application):
    """The port on which an application answers, as `abaca api` does."""
    listening = ports.listen("127.0.0.1", 0, 1024)
    answers = answering.Answering(application, answering.Bounds(4, 1000, 10.0))
    server = serving.Server(listening, answers, serving.Limits(1024, 1000, 30.0, 30.0))
    port = listening.getsockname()[1]
    thread = threading.Thread(target=server.serve, args=(lambda: None,))
    thread.start()
    try:
        yield port
    finally:
        server.stop()
        thread.join(60)


@pytest.fixture(scope="module")
def port(world):
    with served(world.application) as port:
        yield port


@pytest.fixture
def afar(abaca, port, monkeypatch):
    """A command given by somebody far away, an administrator unless another is said."""

    def afar(*words, who="admin"):
        monkeypatch.setenv("ABACA_PASSWORD", worlds.PASSWORD)
        return abaca(*words, "--url", f"http://127.0.0.1:{port}", "--user", who)

    return afar


def leaves(command, path=()):
    """Each command that does something, by the words that call it."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        yield from leaves(command.get_command(context, name), (*path, name))


def options(command):
    return {word for one in command.params for word in one.opts}


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - OF_A_HOST))
def test_every_command_that_is_not_about_a_host_asks_an_api_anywhere(name):
    command = cli.get_command(click.Context(cli), name)
    without = [path for path, one in leaves(command, (name,)) if not options(one) >= {"--url", "--os-cloud", "--user"}]
    assert without == []


def test_every_command_that_lists_has_a_limit():
    lists = [(path, one) for path, one in leaves(cli) if path[-1] == "list" or "--columns" in options(one)]
    assert len(lists) > 10
    assert [path for path, one in lists if "--limit" not in options(one)] == []
    said = {path: next(one for one in command.params if one.name == "limit") for path, command in lists}
    assert [path for path, one in said.items() if not (one.default and one.show_default)] == []


def test_servers_are_registered_changed_and_removed_from_afar(afar, tmp_path):
    words = ["--project", PROJECT, "--address", "10.77.0.1", "--key", "file:/etc/abaca/keys/id"]
    said = afar("server", "add", "far-1", *words)
    assert (said.status, said.out.split()[1]) == (0, "registered"), said
    assert "workers read /etc/abaca/keys/id on their own hosts" in said.err
    assert afar("server", "add", "far-1", *words).out.split()[1] == "unchanged"
    file = tmp_path / "servers.json"
    rows = [{"name": f"far-{at}", "project_id": PROJECT, "addresses": [f"10.77.1.{at}"]} for at in range(1, 6)]
    file.write_text(json.dumps(rows))
    assert afar("server", "import", file).out == "1 changed, 4 registered\n"
    refused = afar("server", "add", "far-9", *words, who="member")
    assert (refused.status, "not allow" in refused.err) == (1, True)
    for name in ("far-1", "far-2", "far-3", "far-4", "far-5"):
        assert afar("server", "remove", name).status == 0
    assert json.loads(afar("server", "list", "--name", "far-1", "--json").out) == []


def test_a_long_file_is_imported_as_a_whole_or_not_at_all(afar, tmp_path):
    file = tmp_path / "servers.json"
    rows = [
        {"name": f"long-{at}", "project_id": PROJECT, "addresses": [f"10.78.{at // 200}.{at % 200 + 1}"]}
        for at in range(450)
    ]
    file.write_text(json.dumps([*rows, {"name": "long-450", "project_id": PROJECT, "addresses": ["nowhere"]}]))
    said = afar("server", "import", file)
    assert (said.status, "Server 451 (long-450): 'nowhere' is no IPv4" in said.err) == (1, True), said.err
    assert json.loads(afar("server", "list", "--name", "long-1", "--json").out) == []
    file.write_text(json.dumps(rows))
    assert afar("server", "import", file).out == "450 registered\n"


def test_a_worker_tries_the_way_for_those_who_are_far_away(world, afar):
    share_id, server_id = door.share(world), door.server(world)
    found = door.attached(world, share_id, server_id)
    said = afar("attachment", "explain", found["id"])
    assert said.status == 0, said
    assert "Tried by the worker on testhost" in said.err
    steps = {row["step"]: row["result"] for row in json.loads(afar("attachment", "explain", found["id"], "--json").out)}
    assert steps.keys() >= {"attachment", "rule", "export", "server", "key", "ssh", "mount"}
    assert set(steps.values()) == {"ok"}
    said = afar("server", "check", server_id)
    assert (said.status, "ok    ssh" in said.out) == (0, True), said
    assert afar("server", "check", server_id, who="member").status == 1


def test_the_addresses_of_a_back_end_are_seen_from_afar(world, afar):
    door.attached(world, door.share(world), door.server(world))
    rows = json.loads(afar("backend", "addresses", "testhost@alpha", "--json").out)
    assert {row["address"]: row["exported"] for row in rows}["10.0.0.10"] is True
    missing = afar("backend", "addresses", "testhost@nothing")
    assert (missing.status, "no service" in missing.err) == (1, True)


def test_a_back_end_goes_by_its_name(afar):
    said = afar("backend", "ensure", "alpha", "--dry-run", "--wait")
    assert (said.status, "the shares of testhost@alpha" in said.out) == (0, True), said
    missing = afar("backend", "addresses", "nothing")
    assert (missing.status, "is called nothing" in missing.err) == (1, True)


def test_services_are_seen_and_removed_from_afar(afar):
    (row,) = json.loads(afar("service", "list", "--json").out)
    assert (row["host"], row["state"], row["status"]) == ("testhost@alpha", "up", "enabled")
    refused = afar("service", "remove", "testhost@alpha")
    assert (refused.status, "is up" in refused.err) == (1, True)


def test_a_list_is_whole_where_the_service_shows_few_at_once(abaca, world, monkeypatch):
    monkeypatch.setenv("ABACA_PASSWORD", worlds.PASSWORD)
    known = {door.server(world) for _ in range(5)}
    there = world.serving_by(world.settings.changed(osapi_max_limit=2))
    with served(there.application) as port:
        said = abaca("server", "list", "--json", "--url", f"http://127.0.0.1:{port}", "--user", "admin")
    ids = [row["id"] for row in json.loads(said.out)]
    assert known <= set(ids)
    assert len(ids) == len(set(ids))


def test_a_list_says_where_it_stops(afar, world):
    for _ in range(3):
        door.server(world)
    said = afar("server", "list", "--limit", "2", "--json", "--columns", "id")
    assert len(json.loads(said.out)) == 2
    assert said.err == "abaca: there are more than these 2; --limit 20 shows more\n"
    assert afar("backend", "list", "--limit", "50").err == ""


def test_a_member_waits_for_a_subnet_of_a_network_of_theirs(afar, world):
    """What they wait for is told by the share network: its share servers are for administrators."""
    made = world.ask("member", "POST", "/share-networks", {"share_network": {}}).body["share_network"]["id"]
    added = afar("share-network", "add-subnet", made, "--wait", who="member")
    assert added.status == 0, added.err
    assert added.out.splitlines()[-1] == f"{made} is active"
