# SPDX-License-Identifier: Apache-2.0
"""Two who change one access rule at the same moment: neither is told what is not so."""

import threading

import pytest

from abaca.db.shares import shares
from tests.conftest import wait_until
from tests.databases import database, on_postgres, postgres  # noqa: F401 (fixtures)
from tests.operations import cases
from tests.operations import theatre as stage

VERSION = {"x-openstack-manila-api-version": stage.NEWEST}


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
def test_whoever_changes_a_rule_back_is_not_taken_for_somebody_who_changes_nothing(theatre):
    """The first change is on its way to the back end, so the second one is refused; it must not seem accepted."""
    theatre.enter()
    share_id = cases.a_share(theatre)
    path = f"/share-access-rules/{cases.allow(theatre, share_id, '10.0.0.1')}"
    theatre.settle()
    theatre.leave()
    answers = {}

    def put(level):
        body = {"update_access": {"access_level": level}}
        answers[level] = theatre.world.ask("member", "PUT", path, body, **VERSION).status

    threads = [threading.Thread(target=put, args=(level,)) for level in ("ro", "rw")]
    with theatre.db.write() as tx:
        shares.lock(tx, share_id)
        for number, thread in enumerate(threads, 1):
            thread.start()
            wait_until(lambda number=number: theatre.waiting() == number)
    for thread in threads:
        thread.join(60)
    assert answers == {"ro": 200, "rw": 400}
