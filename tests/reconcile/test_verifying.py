# SPDX-License-Identifier: Apache-2.0
"""A compute service that does not answer for some servers holds up neither the others nor those who use force."""

import pytest

from abaca.compute.contract import ComputeUnreachable
from abaca.compute.inventory import Inventory
from abaca.db.attachments import attachments as rows
from abaca.operations.attachments.attachment_parts import QUEUE, AttachmentParts
from abaca.reconcile.attachments import PAGE, Attachments
from tests.operations import cases
from tests.reconcile.test_attachments import DOOR, force, make_due, rules, shown, until_swept


class HalfAway(Inventory):
    """Servers of which nothing can be recorded just now, as when a Nova does not reach one of its cells."""

    away = ()

    def show(self, server_id):
        if server_id in self.away:
            raise ComputeUnreachable(reason="its cell is away")
        return super().show(server_id)


@pytest.mark.parametrize("away", [0, PAGE])
def test_each_is_looked_at_in_time_however_many_there_are_and_cannot_be_asked_for(theatre, away):
    share_id = cases.a_share(theatre)
    machines = [cases.a_server(theatre, f"10.9.9.{number}") for number in range(1, PAGE + 3)]
    theatre.ask("POST", DOOR, {"attachment": {"share_id": share_id, "server_ids": machines}})
    theatre.settle()
    with theatre.db.read() as tx:
        oldest_first = [row.server_id for row in rows.unverified(tx, tx.now, 1000)]
    assert len(oldest_first) == len(machines)
    compute = HalfAway(theatre.db)
    compute.away = oldest_first[:away]
    since = theatre.db.now()
    Attachments(theatre.db, AttachmentParts(compute, theatre.nodes), verify_interval_s=0).verify()
    with theatre.db.read() as tx:
        assert [row.server_id for row in rows.unverified(tx, since, 1000)] == oldest_first[:away]


@pytest.mark.parametrize("was", ["active", "attaching"])
def test_force_ends_the_access_of_a_server_that_nobody_can_ask_for(theatre, was):
    prepared = cases.a_share_and_a_server(theatre)
    compute = HalfAway(theatre.db)
    theatre.acting.queues[QUEUE].parts.servers = compute
    if was == "attaching":
        compute.away = prepared[1:]
    attachment_id = cases.attach(theatre, prepared)
    theatre.settle()
    compute.away = prepared[1:]
    cases.detach(theatre, attachment_id)
    theatre.settle()
    waits = shown(theatre, attachment_id)
    assert (waits["state"], waits["error"]["code"]) == ("error", "ComputeUnreachable")
    force(theatre, attachment_id)
    assert (theatre.ask("GET", DOOR)["attachments"], rules(theatre)) == ([], [])
    until_swept(theatre)
    assert theatre.nodes.tables() == {}


def test_what_cannot_be_asked_for_keeps_no_others_from_their_next_try(theatre):
    share_id = cases.a_share(theatre)
    machines = [cases.a_server(theatre, f"10.9.10.{number}") for number in range(1, 6)]
    for number in range(1, 6):
        theatre.nodes.take_away(f"10.9.10.{number}")
    theatre.ask("POST", DOOR, {"attachment": {"share_id": share_id, "server_ids": machines}})
    theatre.settle()
    for number in range(1, 6):
        theatre.nodes.bring_back(f"10.9.10.{number}")
    make_due(theatre)
    with theatre.db.read() as tx:
        longest_first = [row.server_id for row in rows.due(tx, 1000)]
    compute = HalfAway(theatre.db)
    compute.away = longest_first[:3]
    assert Attachments(theatre.db, AttachmentParts(compute, theatre.nodes), verify_interval_s=0, batch=2).heal() == 2
    theatre.settle()
    states = {one["server_id"]: one["state"] for one in theatre.ask("GET", DOOR)["attachments"]}
    assert [states[one] for one in longest_first] == ["error"] * 3 + ["active"] * 2
