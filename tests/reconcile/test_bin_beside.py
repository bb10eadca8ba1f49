# SPDX-License-Identifier: Apache-2.0
"""The recycle bin empties itself: of all that was put there, and of nothing that was taken out again."""

import threading
import time

import pytest

from abaca.db.engine.database import Database
from abaca.db.shares import shares
from abaca.reconcile.expiry import Expiry
from tests.conftest import wait_until
from tests.databases import on_postgres
from tests.operations import cases
from tests.operations import theatre as stage

VERSION = {"x-openstack-manila-api-version": stage.NEWEST}
A_MONTH_S = 31 * 86400


def empty_the_bin(theatre):
    later = Database(theatre.stage.settings.database_url, clock=lambda: time.time() + A_MONTH_S)
    Expiry(later, ["testhost@alpha"], keep_messages_s=1, keep_operations_s=1, keep_events_s=1).recycle_bin()
    later.close()


def look(theatre, share_id):
    return theatre.world.ask("member", "GET", f"/shares/{share_id}", **VERSION).status


def test_a_share_that_no_pool_could_take_leaves_the_bin_too(theatre):
    wish = {"share_proto": "NFS", "size": 1, "scheduler_hints": {"only_host": "nobody@nowhere#none"}}
    share_id = theatre.ask("POST", "/shares", {"share": wish}, who="admin")["share"]["id"]
    assert theatre.status(share_id) == "error"
    cases.act(theatre, share_id, soft_delete=None)
    empty_the_bin(theatre)
    assert look(theatre, share_id) == 404
    assert theatre.ask("GET", "/limits")["limits"]["absolute"]["totalSharesUsed"] == 0


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
@pytest.mark.parametrize(("first", "answer", "left"), [("restore", 202, 200), ("expiry", 403, 404)])
def test_a_share_is_either_restored_or_deleted(theatre, first, answer, left):
    """Both wait for somebody; who waited first has the share."""
    share_id = cases.a_share(theatre)
    cases.act(theatre, share_id, soft_delete=None)
    theatre.settle()
    theatre.leave()
    answers = []

    def restore():
        action = {"restore": None}
        asked = theatre.world.ask("member", "POST", f"/shares/{share_id}/action", action, **VERSION)
        answers.append(asked.status)

    both = [threading.Thread(target=restore), threading.Thread(target=empty_the_bin, args=(theatre,))]
    with theatre.db.write() as tx:
        shares.lock(tx, share_id)
        for number, thread in enumerate(both if first == "restore" else reversed(both), 1):
            thread.start()
            wait_until(lambda number=number: theatre.waiting() == number)
    for thread in both:
        thread.join(60)
    theatre.enter()
    theatre.settle()
    assert answers == [answer]
    assert look(theatre, share_id) == left
