# SPDX-License-Identifier: Apache-2.0
"""Resizing beside what others do to the same share: an operator's word, a forced deletion."""

import threading

import pytest
import sqlalchemy as sa

from abaca.db.administration import pools
from abaca.db.catalog import quotas
from abaca.db.tables.shares import share_instances
from tests.conftest import wait_until
from tests.databases import database, on_postgres, postgres  # noqa: F401 (fixtures)
from tests.operations import cases
from tests.operations import theatre as stage

VERSION = {"x-openstack-manila-api-version": stage.NEWEST}


def ask(theatre, who, share_id, **action):
    return theatre.world.ask(who, "POST", f"/shares/{share_id}/action", action, **VERSION)


def made(theatre):
    theatre.enter()
    share_id = cases.a_share(theatre)
    theatre.settle()
    theatre.leave()
    return share_id


def test_a_share_that_an_operator_frees_is_not_resized_twice_at_once(theatre):
    """Each would take the size before for that of now, and the counts would never be right again."""
    share_id = made(theatre)
    cases.extend(theatre, share_id)
    assert ask(theatre, "admin", share_id, reset_status={"status": "available"}).status == 202
    for action in ({"extend": {"new_size": 4}}, {"shrink": {"new_size": 2}}):
        answer = ask(theatre, "member", share_id, **action)
        assert answer.status == 400
        assert theatre.operation("share-extend", share_id).id in answer.body["badRequest"]["message"]
    theatre.enter()
    theatre.settle()
    assert theatre.check(theatre.operation("share-extend", share_id)) == []
    cases.shrink(theatre, share_id)
    theatre.settle()
    assert theatre.check(theatre.operation("share-shrink", share_id)) == []
    assert theatre.ask("GET", f"/shares/{share_id}")["share"]["size"] == 1


@pytest.mark.parametrize("action", [{"reset_status": {"status": "error"}}, {"force_delete": None}])
def test_a_recount_leaves_out_what_grows_whatever_its_status_says(theatre, action):
    share_id = made(theatre)
    cases.extend(theatre, share_id)
    assert ask(theatre, "admin", share_id, **action).status == 202
    with theatre.db.write() as tx:
        assert [*quotas.recount(tx), *pools.recount(tx)] == []
    theatre.enter()
    theatre.settle()
    with theatre.db.read() as tx:
        assert stage.counted_wrong(tx) == []


@pytest.mark.parametrize("action", [{"extend": {"new_size": 5}}, {"shrink": {"new_size": 1}}], ids=["extend", "shrink"])
def test_a_share_that_is_nowhere_is_not_resized_whatever_its_status_says(theatre, action):
    share_id = cases.new_share(theatre, None)
    assert ask(theatre, "admin", share_id, reset_status={"status": "available"}).status == 202
    answer = ask(theatre, "member", share_id, **action)
    assert answer.status == 400
    assert "no back end" in answer.body["badRequest"]["message"]


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
@pytest.mark.parametrize("resize", [cases.extend, cases.shrink])
def test_the_end_of_a_resizing_and_a_forced_deletion_queue_in_one_order(theatre, resize):
    share_id = made(theatre)
    resize(theatre, share_id)
    answers, outcomes = [], []
    forcing = threading.Thread(target=lambda: answers.append(ask(theatre, "admin", share_id, force_delete=None).status))
    with theatre.db.write() as tx:
        tx.rows(sa.select(share_instances.c.id).with_for_update())
        worker = theatre.enter()
        worker.on_ended = lambda op, outcome, _seconds: outcomes.append((op.what.kind, outcome))
        wait_until(lambda: theatre.waiting() == 1)
        forcing.start()
        wait_until(lambda: theatre.waiting() == 2)
    forcing.join(60)
    theatre.settle()
    assert answers == [202]
    assert {outcome for _, outcome in outcomes} == {"done"}
    with theatre.db.read() as tx:
        assert [*stage.stuck(tx), *stage.counted_wrong(tx), *theatre.differences(tx)] == []
