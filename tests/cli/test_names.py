# SPDX-License-Identifier: Apache-2.0
"""What commands show programs has the names of the API: a script that reads the one reads the other."""

import json

import pytest

from abaca.cli.main import cli
from abaca.db.attachments import orphaned_mounts
from tests.api import seeds
from tests.api import world as worlds
from tests.cli.test_remote import OF_A_HOST, leaves, options
from tests.conftest import wait_until

DOOR = "//abaca/v1"
TELLS = "[events]\nlog = true\n"
# By command what it asks, and what it is about.
LISTS = {
    ("attachment", "list"): "/attachments",
    ("attachment", "orphaned"): "/orphaned-mounts",
    ("backend", "addresses", "testhost@alpha"): "/backends/testhost@alpha/addresses",
    ("backend", "list"): "/backends",
    ("cluster", "list"): "/clusters",
    ("cluster", "nodes", "named"): "/clusters/named/nodes",
    ("event", "list"): "/events",
    ("event", "targets"): "/event-targets",
    ("operation", "list", "--all"): "/operations",
    ("server", "list"): "/servers",
    ("service", "list"): "/services",
    ("share-network", "list"): "/share-networks",
    ("share-server", "list"): "/share-servers",
}
IS = dict.fromkeys(LISTS, "id") | {
    ("backend", "addresses", "testhost@alpha"): "address",
    ("backend", "list"): "host",
    ("event", "targets"): "name",
    ("service", "list"): "host",
}
MOVES = {"last_seen_at", "updated_at", "delivered_at", "oldest_at", "operations", "last_verified_at", "undelivered"}
MOVES |= {"delivered", "state", "finished_at", "step", "pools"}
# What shows a part of one thing.
PARTS = {("share-network", "show"): "a network's subnets"}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Something is in each list."""
    with worlds.world(tmp_path_factory.mktemp("names"), worker=True, more=TELLS) as made:
        things = seeds.plant(made)
        server = things["/servers/{server_id}"]
        cluster = {"name": "named", "servers": [server]}
        assert made.ask("member", "POST", f"{DOOR}/clusters", {"cluster": cluster}).status == 202
        left = {"id": server, "server_id": server, "machine_id": server, "qmp_socket": None, "mode": "network"}
        left |= {"tag": "x", "mount_point": "/mnt/x", "protocol": "NFS", "source": "10.0.0.10:/x"}
        made.settle()
        wait_until(lambda: made.ask("admin", "GET", f"{DOOR}/event-targets").body["event_targets"])
        with made.db.write() as tx:
            orphaned_mounts.add(tx, left)
            (orphan,) = orphaned_mounts.of_server(tx, server)
            orphaned_mounts.put_off(tx, orphan, 3600, has_failed=True)
        yield made


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_a_list_for_programs_has_the_names_of_the_api(here, abaca, words):
    said = abaca(*words, "--config-file", here.directory / "abaca.conf", "--json")
    assert said.status == 0, said
    answer = here.ask("admin", "GET", f"{DOOR}{LISTS[words]}?all_projects=true").body
    rows = next(one for name, one in answer.items() if not name.endswith("_links") and isinstance(one, list))
    assert rows
    shown = json.loads(said.out)
    known = set().union(*rows)
    assert [name for row in shown for name in row if name not in known] == []
    # what does not change by itself has the same value, too
    told = {row[IS[words]]: row for row in rows}
    for row in shown:
        there = told[row[IS[words]]]
        assert {name: row[name] for name in row if name not in MOVES} == {
            name: there[name] for name in row if name not in MOVES
        }


def test_every_command_that_lists_is_compared():
    lists = {path for path, one in leaves(cli) if "--columns" in options(one) and path[0] not in OF_A_HOST}
    assert {words[:2] for words in LISTS} | PARTS.keys() == lists
