# SPDX-License-Identifier: Apache-2.0
"""`abaca attachment`: what operators see of attachments, and do to them."""

import json

import pytest

from abaca.db import servers
from tests.api import test_attachments as door
from tests.api import world as worlds


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with worlds.world(tmp_path_factory.mktemp("attachments"), worker=True) as made:
        specs = {"driver_handles_share_servers": "False"}
        made.ask("admin", "POST", "/types", {"share_type": {"name": "default", "extra_specs": specs}}, **door.NEWEST)
        yield made


def test_an_operator_detaches_from_a_server_that_is_off_by_force(world, abaca):
    def attachment(verb, *words):
        return abaca("attachment", verb, "--config-file", str(world.directory / "abaca.conf"), *words)

    share_id, server_id = door.share(world), door.server(world)
    found = door.attached(world, share_id, server_id)
    with world.db.write() as tx:
        servers.update(tx, server_id, {"status": "SHUTOFF"}, None)
    assert attachment("remove", found["id"]).status == 0
    door.until(world, found["id"], "error")
    said = attachment("show", found["id"]).out
    assert f"Server {server_id} is off" in said
    assert "use force" in said
    assert attachment("remove", "--force", found["id"]).status == 0
    door.until_gone(world, found["id"])
    assert door.rules(world, share_id) == {}


def test_an_operator_attaches_looks_verifies_and_detaches(world, abaca):
    def attachment(verb, *words):
        return abaca("attachment", verb, "--config-file", str(world.directory / "abaca.conf"), *words)

    share_id, server_id = door.share(world), door.server(world)
    said = attachment("add", share_id, server_id, "nobody", "--level", "ro")
    assert said.status != 0
    assert "nobody could not be found" in said.err
    attachment_id = said.out.split()[0]
    door.until(world, attachment_id, "active")
    (row,) = json.loads(attachment("list", "--server", server_id, "--json").out)
    assert (row["id"], row["state"], row["access_level"]) == (attachment_id, "active", "ro")
    assert attachment_id in attachment("list").out
    assert json.loads(attachment("show", attachment_id, "--json").out)["source"].startswith("10.0.0.10:/")
    assert attachment("verify", attachment_id).status == 0
    door.until(world, attachment_id, "active")
    assert attachment("remove", attachment_id).status == 0
    door.until_gone(world, attachment_id)
    assert attachment("show", attachment_id).status != 0
