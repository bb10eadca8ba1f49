# SPDX-License-Identifier: Apache-2.0
"""Shares that name each other as to be together: none names one that is gone, whoever comes and goes at once."""

import itertools

import sqlalchemy as sa

from abaca.db.catalog import quotas
from abaca.db.tables import shares as tables
from tests.db.administration.test_pools import at_once
from tests.operations import cases

KEY = "__affinity_same_host"
OTHERS = 5


def named(theatre):
    with theatre.db.read() as tx:
        assert quotas.differences(tx) == []
        found = {row.id: row.metadata.get(KEY) for row in tx.rows(sa.select(tables.shares))}
    return {id: sorted(ids.split(",")) if ids else [] for id, ids in found.items()}


def near(theatre, share_id):
    body = {"share": {"share_proto": "NFS", "size": 1, "scheduler_hints": {"same_host": share_id}}}
    return theatre.ask("POST", "/shares", body)["share"]["id"]


def test_of_shares_that_come_at_once_all_are_named(theatre):
    theatre.enter()
    first = cases.a_share(theatre)
    made = at_once(OTHERS, lambda: near(theatre, first))
    theatre.settle()
    assert named(theatre) == {first: sorted(made), **{one: [first] for one in made}}


def test_shares_that_go_at_once_leave_nothing_behind(theatre):
    theatre.enter()
    stays, *going = (cases.a_share(theatre) for _ in range(OTHERS))
    pairs = list(itertools.pairwise([*going, stays, going[0]]))
    late = [near(theatre, f"{one},{other}") for one, other in pairs]
    theatre.settle()
    going += late[1:]
    left = iter(going)
    at_once(len(going), lambda: theatre.ask("DELETE", f"/shares/{next(left)}"))
    theatre.settle()
    assert named(theatre) == {stays: [], late[0]: []}
