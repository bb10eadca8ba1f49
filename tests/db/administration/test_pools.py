# SPDX-License-Identifier: Apache-2.0
"""Room in pools is given out once, whoever asks at the same moment, and reports forget nothing that was claimed."""

import datetime
import threading
import uuid

import msgspec
import pytest
import sqlalchemy as sa

from abaca.db.administration import pools, services
from abaca.db.engine.database import Database
from abaca.db.journal import operations
from abaca.db.shares import share_instances
from abaca.db.tables import administration as administration_tables
from abaca.db.tables import shares as share_tables
from abaca.domain.administration.pools import Claim

BACKEND = "here@alpha"
POOL = "here@alpha#fast"
SOON = datetime.timedelta(seconds=1)


class Stats(msgspec.Struct):
    name: str = "fast"
    total_gib: float | None = 100.0
    free_gib: float | None = 100.0
    capabilities: dict = {}


@pytest.fixture
def db(database):
    opened = Database(database.url, pool_size=12)
    with opened.write() as tx:
        services.register(tx, services.SHARE_BINARY, BACKEND, "nova")
        pools.report(tx, BACKEND, [Stats()])
    yield opened
    opened.close()


def only(db):
    with db.read() as tx:
        (pool,) = pools.read_for_scheduling(tx, 60)
    return pool


def figures(db, host=POOL):
    with db.read() as tx:
        pool = pools.show(tx, host, 60)
    return pool.free_gib, pool.claimed_gib, pool.provisioned_gib


def share(tx, size, events=("created",), host=POOL, at=None):
    """A share with its only instance, to which these events have happened."""
    share_id, at = str(uuid.uuid4()), at or tx.now
    row = {"id": share_id, "project_id": "p", "size": size, "share_proto": "NFS", "metadata": {}, "created_at": at}
    tx.execute(sa.insert(share_tables.shares), row)
    instance_id = str(uuid.uuid4())
    share_instances.add(tx, {"id": instance_id, "share_id": share_id, "host": host, "created_at": at})
    for event in events:
        share_instances.move(tx, instance_id, event)
    return share_id


def claim(db, size, **terms):
    with db.write() as tx:
        return pools.claim(tx, Claim(host=POOL, size_gib=size, **terms))


def at_once(number, work):
    """Run `work` in so many threads at the same moment; what they returned."""
    start, results = threading.Barrier(number), []

    def run():
        start.wait()
        results.append(work())

    threads = [threading.Thread(target=run) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_a_pool_is_read_as_it_was_reported(db):
    with db.write() as tx:
        pools.report(tx, BACKEND, [Stats(free_gib=42.5, capabilities={"dedupe": [True, False], "vendor_name": "x"})])
    pool = only(db)
    assert (pool.host, pool.service_host, pool.availability_zone) == (POOL, BACKEND, "nova")
    assert (pool.total_gib, pool.free_gib, pool.is_up, pool.is_disabled) == (100.0, 42.5, True, False)
    assert pool.capabilities == {"dedupe": [True, False], "vendor_name": "x"}


@pytest.mark.parametrize("size", [None, float("inf")], ids=["unknown", "endless"])
def test_a_pool_without_a_size_in_figures_takes_every_claim(db, size):
    with db.write() as tx:
        pools.report(tx, BACKEND, [Stats(total_gib=size, free_gib=size)])
    assert only(db).free_gib == size
    assert claim(db, 10_000)


def test_claims_stop_at_the_reserve(db):
    assert claim(db, 60, reserved_gib=10.0)
    assert not claim(db, 31, reserved_gib=10.0)
    assert claim(db, 30, reserved_gib=10.0)
    assert figures(db) == (100.0, 90, 90)


def test_thin_claims_stop_at_the_ratio_and_leave_the_free_room(db):
    thin = {"ratio": 2.0, "provisionable_gib": 200.0}
    assert claim(db, 150, **thin)
    assert not claim(db, 51, **thin)
    assert claim(db, 50, **thin)
    assert figures(db) == (100.0, 200, 200)


def test_concurrent_claims_never_take_more_than_there_is(db):
    granted = at_once(12, lambda: claim(db, 15))
    assert sorted(granted) == [False] * 6 + [True] * 6
    assert figures(db) == (100.0, 90, 90)


def test_a_report_forgets_the_claims_of_shares_that_its_figures_hold(db):
    with db.write() as tx:
        share(tx, 10)
        assert pools.claim(tx, Claim(host=POOL, size_gib=10))
    with db.write() as tx:
        pools.report(tx, BACKEND, [Stats(free_gib=90.0)], taken_at=tx.now + SOON)
    assert figures(db) == (90.0, 0, 10)


def test_a_report_keeps_the_claims_of_shares_that_are_being_made(db):
    with db.write() as tx:
        share(tx, 10, events=())
        assert pools.claim(tx, Claim(host=POOL, size_gib=10))
    with db.write() as tx:
        pools.report(tx, BACKEND, [Stats()], taken_at=tx.now + SOON)
    assert figures(db) == (100.0, 10, 10)


def test_a_report_keeps_the_claims_of_shares_that_came_after_its_figures(db):
    with db.write() as tx:
        asked_at = tx.now - SOON
        share(tx, 10)
        assert pools.claim(tx, Claim(host=POOL, size_gib=10))
    with db.write() as tx:
        pools.report(tx, BACKEND, [Stats()], taken_at=asked_at)
    assert figures(db) == (100.0, 10, 10)


def test_a_report_keeps_the_claim_of_an_extension_under_way(db):
    with db.write() as tx:
        share_id = share(tx, 10, events=("created", "extend"))
        assert pools.claim(tx, Claim(host=POOL, size_gib=10))
        assert pools.claim(tx, Claim(host=POOL, size_gib=5))
        args = {"host": POOL, "new_size_gib": 15, "instance": {"size_gib": 10}}
        operation = {"kind": "share-extend", "queue": BACKEND, "keys": [f"share:{share_id}"], "args": args}
        operations.add(tx, {**operation, "resource_type": "share", "resource_id": share_id})
    with db.write() as tx:
        pools.report(tx, BACKEND, [Stats(free_gib=90.0)], taken_at=tx.now + SOON)
    assert figures(db) == (90.0, 5, 15)


def test_reports_and_claims_at_the_same_moment_lose_nothing(db):
    """The claims and their shares commit together, so whenever a report looks, claimed and sizes add up."""

    def create():
        with db.write() as tx:
            share(tx, 5, events=())
            return pools.claim(tx, Claim(host=POOL, size_gib=5))

    def report():
        with db.write() as tx:
            pools.report(tx, BACKEND, [Stats()], taken_at=tx.now + SOON)
        return True

    turn = iter(range(12))
    assert all(at_once(12, lambda: create() if next(turn) % 2 else report()))
    report()
    assert figures(db) == (100.0, 30, 30)


def test_room_given_back_after_the_last_report_is_free_at_once(db):
    with db.write() as tx:
        assert pools.claim(tx, Claim(host=POOL, size_gib=10))
        pools.release(tx, POOL, 10, claimed_at=tx.now + SOON)
    assert figures(db) == (100.0, 0, 0)


def test_room_given_back_of_an_older_share_is_free_with_the_next_report(db):
    with db.write() as tx:
        assert pools.claim(tx, Claim(host=POOL, size_gib=10))
        pools.release(tx, POOL, 10)
    assert figures(db) == (100.0, 10, 0)


def test_a_pool_that_vanishes_is_forgotten(db):
    with db.write() as tx:
        pools.report(tx, BACKEND, [Stats(name="slow")])
    assert only(db).host == "here@alpha#slow"


def test_a_pool_that_vanishes_with_shares_in_it_stays_without_room(db):
    with db.write() as tx:
        share(tx, 10)
        pools.report(tx, BACKEND, [Stats(name="slow")])
    assert figures(db)[0] == 0.0
    assert not claim(db, 1)
    with db.write() as tx:
        pools.report(tx, BACKEND, [])
    assert figures(db)[0] == 0.0


def test_a_pool_that_comes_back_counts_what_lives_in_it(db):
    with db.write() as tx:
        share(tx, 10)
        tx.execute(sa.delete(administration_tables.pools))
        pools.report(tx, BACKEND, [Stats(free_gib=90.0)], taken_at=tx.now + SOON)
    assert figures(db) == (90.0, 0, 10)


def test_a_forced_claim_is_counted_without_room(db):
    with db.write() as tx:
        pools.claim_anyway(tx, POOL, 150)
    assert figures(db) == (100.0, 150, 150)


def test_a_recount_says_which_pools_it_mended(db):
    with db.write() as tx:
        share(tx, 10)
        assert pools.differences(tx) == [(POOL, 0, 10)]
        assert pools.recount(tx) == [(POOL, 0, 10)]
        assert pools.recount(tx) == []
    assert figures(db)[2] == 10


def test_a_recount_leaves_a_pool_in_which_a_share_is_being_extended(db):
    with db.write() as tx:
        share(tx, 10, events=("created", "extend"))
        pools.claim_anyway(tx, POOL, 15)
        assert pools.recount(tx) == []
    assert figures(db)[2] == 15
