# SPDX-License-Identifier: Apache-2.0
"""`abaca attachment`: what operators see of attachments, and do to them."""

import json

from abaca.db.attachments import servers
from abaca.db.tables.shares import shares
from tests.api import world as worlds
from tests.api.attachments import test_attachments as door
from tests.api.attachments import test_virtiofs as guests
from tests.cli.test_output import on_terminal


def test_an_operator_attaches_looks_verifies_and_detaches(world, attachment):
    share_id, server_id = door.share(world), door.server(world)
    said = attachment("add", share_id, server_id, "nobody", "--level", "ro")
    assert said.status != 0
    assert "nobody could not be found" in said.err
    attachment_id = said.out.split()[0]
    door.until(world, attachment_id, "active")
    (row,) = json.loads(attachment("list", "--server", server_id, "--json").out)
    assert (row["id"], row["state"], row["access_level"]) == (attachment_id, "active", "ro")
    assert attachment_id in attachment("list", "-o", "wide").out
    assert json.loads(attachment("show", attachment_id, "--json").out)["export_location"].startswith("10.0.0.10:/")
    before = json.loads(attachment("show", attachment_id, "--json").out)["last_verified_at"]
    said = attachment("verify", attachment_id, "--wait")
    assert (said.status, said.out.splitlines()[-1]) == (0, f"{attachment_id} active")
    assert json.loads(attachment("show", attachment_id, "--json").out)["last_verified_at"] > before
    door.until(world, attachment_id, "active")
    assert attachment("remove", attachment_id).status == 0
    door.until_gone(world, attachment_id)
    assert attachment("show", attachment_id).status != 0


def test_an_operator_calls_servers_by_name_as_they_are_registered(world, attachment):
    share_id, server_id, other_id = door.share(world), door.server(world), door.server(world)
    with world.db.write() as tx:
        servers.update(tx, server_id, {"name": "web.1"}, None)
        servers.update(tx, other_id, {"name": "web-1"}, None)
    said = attachment("add", share_id, "web.1", server_id)
    assert said.status == 0, said.err
    attachment_id = said.out.split()[0]
    assert said.out == f"{attachment_id} attaching\n"
    door.until(world, attachment_id, "active")
    (row,) = json.loads(attachment("list", "--server", "web.1", "--json").out)
    assert (row["id"], row["server_id"]) == (attachment_id, server_id)
    elsewhere = door.server(world, project_id=worlds.OTHER_PROJECT)
    with world.db.write() as tx:
        servers.update(tx, elsewhere, {"name": "web-1"}, None)
    said = attachment("add", share_id, "web-1")
    assert said.status != 0
    assert f"say which one by its id: {elsewhere}, {other_id}" in said.err


def test_an_operator_detaches_from_a_server_that_is_off_by_force(world, attachment):
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
    (left,) = json.loads(attachment("orphaned", "--json").out)
    assert (left["id"], left["server_id"], left["mount_point"]) == (found["id"], server_id, f"/mnt/{share_id}")


def test_an_operator_has_guests_handed_a_share_by_their_hypervisors(world, attachment):
    host = door.server(world)
    share_id, ids = door.share(world), [guests.guest(world, name, host) for name in ("web", "mail")]
    alone = door.server(world)
    said = attachment("add", share_id, *ids, alone, "--mode", "virtiofs", "--tag", "data")
    assert said.status != 0
    assert f"Server {alone} has no registered hypervisor" in said.err
    for line in said.out.splitlines():
        door.until(world, line.split()[0], "active")
    rows = json.loads(attachment("list", "--mode", "virtiofs", "--json").out)
    assert {row["server_id"]: (row["mode"], row["tag"]) for row in rows} == dict.fromkeys(ids, ("virtiofs", "data"))
    assert {"mode", "tag", "virtiofs", "data"} <= set(attachment("list", "-o", "wide").out.split())
    assert "virtiofs" in attachment("show", rows[0]["id"]).out
    for row in rows:
        assert attachment("remove", row["id"]).status == 0
        door.until_gone(world, row["id"])


def test_a_tag_that_no_device_has_room_for_is_refused(world, attachment):
    one = guests.guest(world, "tagged", door.server(world))
    said = attachment("add", door.share(world), one, "--mode", "virtiofs", "--tag", "x" * 37)
    assert (said.status != 0, "at most 36" in said.err) == (True, True)


def test_names_stand_for_ids_and_the_end_is_waited_for(world, attachment):
    share_id, server_id = door.share(world), door.server(world)
    with world.db.write() as tx:
        servers.update(tx, server_id, {"name": "mail.1"}, None)
        tx.change(shares, share_id, {"name": "letters"})
    said = attachment("add", "letters", "mail.1", "--wait")
    assert said.status == 0, said.err
    attachment_id = said.out.split()[0]
    assert said.out.splitlines()[-1] == f"{attachment_id} active"
    (row,) = json.loads(attachment("list", "--share", "letters", "--json").out)
    assert (row["id"], row["share_name"], row["server_name"]) == (attachment_id, "letters", "mail.1")
    shown = attachment("list", "--server", "mail.1").out
    assert {"letters", "mail.1", "active"} <= set(shown.split())
    said = attachment("remove", attachment_id[:35], "--wait")
    assert (said.status, said.out.splitlines()[-1]) == (0, f"{attachment_id} gone")


def test_a_list_fits_a_hundred_columns_with_the_names_of_both(world, attachment):
    share_id, server_id = door.share(world), door.server(world)
    with world.db.write() as tx:
        servers.update(tx, server_id, {"name": "gateway.1"}, None)
        tx.change(shares, share_id, {"name": "payroll-2026"})
    assert attachment("add", "payroll-2026", "gateway.1", "--wait").status == 0
    config = str(world.directory / "abaca.conf")
    shown = [line for line in on_terminal(100, "attachment", "list", "--config-file", config) if line.strip()]
    assert max(map(len, shown)) <= 100
    rows = json.loads(attachment("list", "--json").out)
    assert len(shown) == 2 + len(rows)
    (row,) = [line for line in shown if "gateway.1" in line]
    assert {"payroll-2026", "active"} <= set(row.split())


def test_the_beginning_of_an_id_that_several_have_is_refused_with_those(world, attachment):
    share_id = door.share(world)
    found = [door.attached(world, share_id, door.server(world))["id"] for _ in range(2)]
    shared = "".join(a for a, b in zip(*found, strict=True) if a == b)[:6]
    said = attachment("show", shared)
    assert said.status != 0
    assert all(one in said.err for one in found)
