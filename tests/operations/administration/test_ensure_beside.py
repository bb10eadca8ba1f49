# SPDX-License-Identifier: Apache-2.0
"""Users go on changing shares while these are ensured, and nobody waits for whoever waits for them."""

import contextlib
import threading

import pytest
import sqlalchemy as sa

from abaca.db.shares import share_instances, shares
from abaca.db.tables.shares import share_instances as instances
from abaca.operations.administration.backend_ensure import Manner
from tests import planting
from tests.conftest import wait_until
from tests.databases import database, on_postgres, postgres  # noqa: F401 (fixtures)
from tests.operations import cases
from tests.operations import theatre as stage
from tests.operations.administration.test_backend_ensure import NEWEST, start, until_ended


@pytest.fixture
def theatre(database, tmp_path):  # noqa: F811
    with contextlib.ExitStack() as stack:
        yield stage.Theatre(database, tmp_path, None, stack, "dummy\nensured_metadata = place:here")


class Users:
    """They take the metadata away that ensuring writes, and change rules, until they are told to stop."""

    def __init__(self, theatre, shares):
        self.theatre = theatre
        self.shares = shares
        self.stopping = threading.Event()
        self.odd = []
        self.threads = [threading.Thread(target=self._work, args=(number,)) for number in range(3)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join(60)

    def _work(self, number):
        turn = 0
        while not self.stopping.is_set():
            share_id = self.shares[turn % len(self.shares)]
            turn += 1
            to = f"10.{number}.{turn // 250}.{turn % 250}"
            rule = {"allow_access": {"access_type": "ip", "access_to": to}}
            for method, path, body in (
                ("PUT", f"/shares/{share_id}/metadata", {"metadata": {"turn": str(turn)}}),
                ("POST", f"/shares/{share_id}/action", rule),
            ):
                answer = self.theatre.world.ask("member", method, path, body, **NEWEST)
                if answer.status >= 500:
                    self.odd.append(answer)


@pytest.mark.parametrize("shows_status", [True, False])
def test_nobody_waits_for_whoever_waits_for_them(theatre, shows_status):
    worker = theatre.enter()
    outcomes = []
    worker.on_ended = lambda op, outcome, _seconds: outcomes.append((op.what.kind, outcome))
    made = [cases.a_share(theatre) for _ in range(6)]
    with Users(theatre, made) as users:
        for _ in range(12):
            row = until_ended(theatre, start(theatre, Manner(shows_status=shows_status, page_size=4)))
            assert row.state == "done"
    theatre.settle()
    assert users.odd == []
    assert {outcome for _, outcome in outcomes} == {"done"}
    assert theatre.check(row) == []


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
def test_a_share_whose_rules_are_applied_again_is_locked_before_its_instance(theatre):
    """As whoever changes its rules does."""
    theatre.enter()
    share_id = cases.a_share(theatre)
    instance_id = cases.instance_of(theatre, share_id).id
    until_ended(theatre, start(theatre, Manner()))  # which writes the metadata
    planting.put(theatre.db, instances, instances.c.id == instance_id, access_rules_status="error")
    with theatre.db.write() as tx:
        tx.execute(sa.text("SET LOCAL deadlock_timeout = '10ms'"))  # it would be this one that fails
        shares.lock(tx, share_id)
        op_id = start(theatre, Manner())
        wait_until(lambda: theatre.waiting() == 1)
        share_instances.sync_rules(tx, share_id)
    row = until_ended(theatre, op_id)
    assert row.state == "done"
