# SPDX-License-Identifier: Apache-2.0
"""Counting anew goes beside requests: they wait for none of it but what is wrong of their own project."""

import threading

import pytest

from abaca.db.catalog import quotas
from abaca.reconcile import recounting
from tests.conftest import wait_until
from tests.databases import on_postgres

UNLIMITED = {"shares": -1, "gigabytes": -1}


def take(tx, project_id):
    quotas.take(tx, project_id, None, None, {"shares": 1}, UNLIMITED)


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
def test_a_share_is_posted_while_counts_of_another_project_are_made_right(theatre):
    found = []
    with theatre.db.write() as tx:
        take(tx, "wrong")
    counting = threading.Thread(target=lambda: found.append(recounting.recount(theatre.db)))
    with theatre.db.write() as busy:
        take(busy, "wrong")
        busy.flush()
        counting.start()
        wait_until(lambda: theatre.waiting() == 1)
        made = theatre.ask("POST", "/shares", {"share": {"share_proto": "NFS", "size": 1}})["share"]
        theatre.settle()
        assert theatre.status(made["id"]) == "available"
        assert theatre.waiting() == 1
    counting.join(60)
    assert found == [([("wrong", "project", "shares", 2, 0)], [], None)]
    assert recounting.recount(theatre.db) == ([], [], None)


def test_what_is_only_looked_at_stays_as_it_is(database):
    db = database.open()
    with db.write() as tx:
        take(tx, "wrong")
    wrong = ([("wrong", "project", "shares", 1, 0)], [], None)
    assert [recounting.recount(db, is_dry=True), recounting.recount(db)] == [wrong, wrong]
    assert recounting.recount(db) == ([], [], None)
