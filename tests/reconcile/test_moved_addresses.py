# SPDX-License-Identifier: Apache-2.0
"""An export address goes: what users see of an attachment that is still there, and what moves it."""

import sqlalchemy as sa

from abaca.db.tables.shares import export_locations
from abaca.nodes.contract import Holder
from tests.reconcile.test_attachments import DOOR, host, reconciler, shown


def test_one_command_moves_what_open_files_keep_at_an_address_that_is_gone(theatre, attachment):
    theatre.nodes.hold(host(attachment), attachment["mount_point"], Holder(7, "tail -f log"))
    with theatre.db.write() as tx:
        path = export_locations.c.path
        tx.execute(sa.update(export_locations).values(path=sa.func.replace(path, "10.0.0.", "10.0.9.")))
    listed = f"//compute/v2.1/servers/{attachment['server_id']}/shares"
    v297 = {"openstack-api-version": "compute 2.97"}
    reconciler(theatre).heal()
    theatre.settle()
    assert theatre.world.ask("member", "GET", listed, **v297).body["shares"][0]["status"] == "error"
    told = theatre.ask("GET", f"/messages?resource_id={attachment['share_id']}")["messages"]
    assert any("process 7 (tail -f log)" in one["user_message"] for one in told), told
    theatre.ask("POST", f"{DOOR}/{attachment['id']}/verify")
    theatre.settle()
    assert shown(theatre, attachment["id"])["error"]["code"] == "StillOpen"
    theatre.ask("POST", f"{DOOR}/{attachment['id']}/verify?force=true")
    theatre.settle()
    moved = shown(theatre, attachment["id"])
    assert (moved["state"], moved["export_location"][:10], moved["error"]) == ("active", "10.0.9.10:", None)
    assert theatre.world.ask("member", "GET", listed, **v297).body["shares"][0]["status"] == "active"


def test_nova_does_not_call_active_what_just_moves(theatre, attachment):
    theatre.leave()
    with theatre.db.write() as tx:
        tx.execute(sa.update(export_locations).values(path="10.0.9.10:/x"))
    reconciler(theatre).heal()
    assert shown(theatre, attachment["id"])["state"] == "remounting"
    listed = f"//compute/v2.1/servers/{attachment['server_id']}/shares"
    answer = theatre.world.ask("member", "GET", listed, **{"openstack-api-version": "compute 2.97"})
    assert answer.body["shares"][0]["status"] == "attaching"
    refused = theatre.world.ask("member", "POST", f"{DOOR}/{attachment['id']}/verify?force=true")
    assert refused.status == 409
    theatre.enter()
