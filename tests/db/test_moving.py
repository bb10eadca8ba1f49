# SPDX-License-Identifier: Apache-2.0
"""Every state moves by its machine's table, and what is written beside it is always that of all states of its row."""

import itertools

import pytest
import sqlalchemy as sa

from abaca import errors
from abaca.db.shares import share_instances, shares
from abaca.db.tables.shares import share_instances as t
from abaca.domain.shares.shares import REPLICA, SHARE_INSTANCE, status_rank
from tests import planting


@pytest.fixture
def db(database):
    opened = database.open()
    with opened.write() as tx:
        shares.add(tx, {"id": "s", "project_id": "p", "size": 1, "share_proto": "NFS"})
    return opened


def instances(db, statuses, replica_states):
    """An instance for each pair, whose rank is wrong; their states by id."""
    pairs = list(itertools.product(statuses, replica_states))
    fixed = {"share_id": "s", "status_rank": 99, "access_rules_status": "active", "cast_rules_to_readonly": False}
    rows = [{"id": f"i{n}", "status": one, "replica_state": other, **fixed} for n, (one, other) in enumerate(pairs)]
    with planting.by_hand(db) as tx:
        tx.execute(sa.insert(t), [{**row, "created_at": tx.now} for row in rows])
    return {row["id"]: (row["status"], row["replica_state"]) for row in rows}


def found(db):
    with db.read() as tx:
        return {row.id: (row.status, row.replica_state, row.status_rank) for row in tx.rows(sa.select(t))}


REPLICA_STATES = [None, *sorted(REPLICA.states)]
OF_SHARES = [event for event in sorted(SHARE_INSTANCE.events) if "gone" not in SHARE_INSTANCE.sources(event).values()]


@pytest.mark.parametrize("event", OF_SHARES)
def test_a_status_takes_its_rank_along(db, event):
    sources = {at: to for at, to in SHARE_INSTANCE.sources(event).items() if at != "none"}
    before = instances(db, sorted(SHARE_INSTANCE.states), REPLICA_STATES)
    with db.write() as tx:
        moved = share_instances.move_many(tx, list(before), event)
    assert moved == {id for id, (status, _) in before.items() if status in sources}
    for id, (status, replica_state, rank) in found(db).items():
        if id in moved:
            assert status == sources[before[id][0]]
            assert rank == status_rank(status, replica_state)
        else:
            assert (status, replica_state, rank) == (*before[id], 99)


@pytest.mark.parametrize("event", sorted(REPLICA.events))
def test_a_replica_state_takes_the_rank_along(db, event):
    sources = REPLICA.sources(event)
    before = instances(db, [*sorted(SHARE_INSTANCE.values), "reverting_error"], REPLICA_STATES)
    with db.write() as tx:
        moved = {id for id in before if share_instances.REPLICA_STATE.try_move(tx, id, event)}
    assert moved == {id for id, (_, state) in before.items() if (state or "none") in sources}
    for id, (status, replica_state, rank) in found(db).items():
        if id in moved:
            assert (status, replica_state) == (before[id][0], sources[before[id][1] or "none"])
            assert rank == status_rank(status, replica_state)


def test_what_is_set_by_hand_has_its_rank_too(db):
    instances(db, ["available"], ["active"])
    with db.write() as tx:
        share_instances.reset(tx, "i0", "error")
    assert found(db)["i0"] == ("error", "active", status_rank("error", "active"))
    with db.write() as tx:
        share_instances.REPLICA_STATE.reset(tx, "i0", "out_of_sync")
    assert found(db)["i0"] == ("error", "out_of_sync", status_rank("error", "out_of_sync"))
    with (
        pytest.raises(errors.Invalid, match="Replica state 'lost' cannot be set; choose one of: active, "),
        db.write() as tx,
    ):
        share_instances.REPLICA_STATE.reset(tx, "i0", "lost")


def test_a_move_that_is_not_allowed_says_so(db):
    instances(db, ["error"], [None])
    with pytest.raises(errors.Conflict, match="Share s cannot extend while it is error"), db.write() as tx:
        share_instances.move(tx, "i0", "extend")
    with pytest.raises(errors.NotFound, match="Share instance nobody"), db.write() as tx:
        share_instances.move(tx, "nobody", "extend")


def test_a_move_can_be_bound_to_states(db):
    instances(db, ["creating", "extending"], [None])
    with db.write() as tx:
        assert not share_instances.try_move(tx, "i0", "failed", at="extending")
        assert not share_instances.try_move(tx, "i1", "failed", at=("creating", "shrinking"))
        assert share_instances.try_move(tx, "i1", "failed", at=("extending", "shrinking"), also={"progress": "7%"})
    with db.read() as tx:
        assert tx.row(sa.select(t.c.status, t.c.progress).where(t.c.id == "i1")) == ("extending_error", "7%")


def test_the_written_replica_speaks_before_better_statuses_of_others():
    """As clients know it: the active replica first, whatever became of it; a promotion before all."""
    order = [
        ("replication_change", "in_sync"),
        ("available", "active"),
        ("error", "active"),
        ("available", "in_sync"),
        ("available", "out_of_sync"),
        ("reverting", None),
        ("migrating", None),
        ("available", None),
        ("error", None),
        ("extending_error", None),
        ("creating", None),
        ("available", "error"),
    ]
    ranks = [status_rank(*one) for one in order]
    assert ranks == sorted(set(ranks))
