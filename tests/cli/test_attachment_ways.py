# SPDX-License-Identifier: Apache-2.0
"""What operators find out of the ways of attachments: addresses that go, steps that fail, servers that are removed."""

import json
import subprocess
import sys

import sqlalchemy as sa

from abaca import app
from abaca.db.attachments import servers
from abaca.db.tables.shares import export_locations
from tests.api.attachments import test_attachments as door
from tests.conftest import wait_until


def test_an_operator_sees_who_is_mounted_from_an_address_that_shall_go(world, attachment, abaca):
    config = str(world.directory / "abaca.conf")
    share_id, server_id = door.share(world), door.server(world)
    found = door.attached(world, share_id, server_id)

    def addresses(*words):
        said = abaca("backend", "addresses", "--config-file", config, "testhost@alpha", *words)
        assert said.status == 0, said.err
        return said.out

    (before,) = [row for row in json.loads(addresses("--json")) if row["address"] == "10.0.0.10"]
    assert (before["exported"], before["attachments"] > 0, before["not_active"]) == (True, True, 0)
    with world.db.write() as tx:
        path = export_locations.c.path
        tx.execute(sa.update(export_locations).values(path=sa.func.replace(path, "10.0.0.10:", "10.0.0.30:")))
    said = addresses()
    assert "10.0.0.10 is not exported any more" in said
    assert f"{found['id']} on server {server_id} at /mnt/{share_id}" in said
    assert "verify --force" in said
    addresses("--wait")  # the worker moves all
    assert door.shown(world, found["id"])["export_location"].startswith("10.0.0.")
    assert "not exported any more" not in addresses()
    missing = abaca("backend", "addresses", "--config-file", config, "testhost@nothing")
    assert (missing.status != 0, "no service" in missing.err) == (True, True)


def test_removing_a_server_says_how_many_attachments_end_and_asks(world, abaca):
    config = str(world.directory / "abaca.conf")
    server_id = door.server(world)
    for _ in range(2):
        door.attached(world, door.share(world), server_id)
    remove = [sys.executable, "-m", "abaca", "server", "remove", "--config-file", config, server_id]
    said = subprocess.run(remove, input="no\n", capture_output=True, text=True, check=False)
    assert said.returncode != 0
    assert "2 attachments of it end with server" in said.stdout + said.stderr
    assert abaca("server", "show", "--config-file", config, server_id).status == 0
    assert abaca("server", "remove", "--config-file", config, server_id, "--yes").status == 0
    wait_until(lambda: world.ask("member", "GET", f"{door.DOOR}?server_id={server_id}").body["attachments"] == [])


def ticked(said):
    return {line[6:18].strip(): line[:6].strip() for line in said.out.splitlines()}


WAY_IN = ("key", "ssh", "host key", "login", "sudo", "client")


def test_each_step_of_an_attachment_is_ticked(world, attachment):
    share_id, server_id = door.share(world), door.server(world)
    found = door.attached(world, share_id, server_id)
    said = attachment("explain", found["id"])
    assert said.status == 0, said
    steps = ("attachment", "rule", "export", "server", *WAY_IN, "route", "port", "mount")
    assert ticked(said) == dict.fromkeys(steps, "ok")
    nodes = app.nodes(world.settings)
    with world.db.read() as tx:
        host = servers.show(tx, server_id).ssh_host
    nodes.forget(host, found["mount_point"])
    said = attachment("explain", found["id"])
    assert (said.status, ticked(said)["mount"], ticked(said)["ssh"]) == (1, "FAILS", "ok")
    nodes.take_away(host)
    said = attachment("explain", found["id"])
    assert (said.status, ticked(said)["ssh"], ticked(said)["rule"]) == (1, "FAILS", "ok")
    assert "cannot be reached" in said.out
    rows = json.loads(attachment("explain", found["id"], "--json").out)
    assert {"result": "FAILS", "step": "ssh"}.items() <= next(row for row in rows if row["step"] == "ssh").items()
    nodes.bring_back(host)
    nodes.close()


def test_a_mount_that_lacks_options_of_now_is_told_with_the_mend(world, attachment, monkeypatch):
    found = door.attached(world, door.share(world), door.server(world))
    assert "options" not in ticked(attachment("explain", found["id"]))
    monkeypatch.setenv("OS_NODES__MOUNT_OPTIONS", "nosuid,nodev,noexec")
    said = attachment("explain", found["id"])
    assert (said.status, ticked(said)["mount"], ticked(said)["options"]) == (0, "ok", "?")
    assert f"mount -o remount,noexec {found['mount_point']}" in said.out


def test_a_server_is_checked_before_anything_is_attached(world, abaca):
    config = str(world.directory / "abaca.conf")
    server_id = door.server(world)
    said = abaca("server", "check", "--config-file", config, server_id)
    assert (said.status, ticked(said)) == (0, dict.fromkeys(("server", *WAY_IN), "ok"))
    with world.db.write() as tx:
        servers.update(tx, server_id, {"key": None, "status": "SHUTOFF"}, None)
    said = abaca("server", "check", "--config-file", config, server_id)
    assert (said.status, ticked(said)) == (1, {"server": "FAILS", "way in": "FAILS"})
    assert "set its key" in said.out
