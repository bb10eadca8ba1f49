# SPDX-License-Identifier: Apache-2.0
"""All attachments are looked at in time, however many there are."""

import pytest

from abaca.compute.contract import Unreachable
from abaca.compute.inventory import Inventory
from abaca.db import attachments as rows
from abaca.operations.attachment_tools import Tools
from abaca.reconcile.attachments import PAGE, Attachments
from tests.operations import cases

DOOR = "//abaca/v1/attachments"


class HalfAway(Inventory):
    """Servers of which nothing can be learnt just now, as when a Nova does not reach one of its cells."""

    away = ()

    def show(self, server_id):
        if server_id in self.away:
            raise Unreachable(reason="its cell is away")
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
    Attachments(theatre.db, Tools(compute, theatre.nodes), verify_interval_s=0).verify()
    with theatre.db.read() as tx:
        assert [row.server_id for row in rows.unverified(tx, since, 1000)] == oldest_first[:away]
