# SPDX-License-Identifier: Apache-2.0
"""Quotas hold whoever takes at the same moment: in a project, for a user, for a type. Counts equal what is there."""

import itertools
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from abaca import errors
from abaca.db.administration import pools
from abaca.db.catalog import quotas
from abaca.db.engine.database import Database
from abaca.db.shares import share_instances
from abaca.db.tables import catalog as catalog_tables
from abaca.db.tables import shares as share_tables
from abaca.domain.administration.pools import Claim
from abaca.domain.catalog import quotas as rules
from tests.databases import on_postgres
from tests.db.administration.test_pools import at_once

UNLIMITED = dict.fromkeys(rules.RESOURCES, -1)
SHARE = {"shares": 1, "gigabytes": 5}


@pytest.fixture
def db(database):
    opened = Database(database.url, pool_size=16)
    yield opened
    opened.close()


def take(db, deltas, defaults=UNLIMITED, project="p", user="u", share_type="t"):
    with db.write() as tx:
        quotas.take(tx, project, user, share_type, deltas, defaults)


def put(db, scope, project="p", **limits):
    with db.write() as tx:
        quotas.put(tx, project, scope, limits)


def used(db, scope=rules.PROJECT, project="p"):
    with db.read() as tx:
        usage = quotas.usage(tx, project, scope)
    return {name: count for name, count in usage.items() if count}


def refused(db, deltas, defaults=UNLIMITED, **who):
    with pytest.raises(errors.OverLimit, match="exceed") as caught:
        take(db, deltas, defaults, **who)
    return caught.value.code


def test_what_is_taken_counts_for_the_project_the_user_and_the_type(db):
    take(db, SHARE)
    take(db, SHARE, user="other")
    assert used(db) == {"shares": 2, "gigabytes": 10}
    assert used(db, rules.user_scope("u")) == {"shares": 1, "gigabytes": 5}
    assert used(db, rules.type_scope("t")) == {"shares": 2, "gigabytes": 10}


def test_what_is_given_back_counts_no_longer(db):
    take(db, SHARE)
    with db.write() as tx:
        quotas.give_back(tx, "p", "u", "t", SHARE)
    assert used(db) == used(db, rules.user_scope("u")) == used(db, rules.type_scope("t")) == {}


def test_what_is_refused_counts_nowhere(db):
    take(db, SHARE, {**UNLIMITED, "shares": 1})
    assert refused(db, SHARE, {**UNLIMITED, "shares": 1}) == "ShareLimitExceeded"
    assert used(db) == used(db, rules.user_scope("u")) == SHARE


def test_fifty_takes_at_once_against_a_limit_of_twenty_give_exactly_twenty(db):
    put(db, rules.PROJECT, shares=20)
    numbers = itertools.count()

    def create():
        number = next(numbers)
        try:
            take(db, SHARE, user=f"u{number % 7}", share_type=f"t{number % 3}")
        except errors.OverLimit:
            return 0
        return 1

    assert sum(at_once(25, create)) + sum(at_once(25, create)) == 20
    assert used(db) == {"shares": 20, "gigabytes": 100}
    with db.read() as tx:
        everyone = sa.select(sa.func.sum(catalog_tables.quota_usages.c.shares)).where(
            catalog_tables.quota_usages.c.scope.like("user:%")
        )
        assert tx.scalar(everyone) == 20


def test_a_limit_of_the_project_wins_over_the_default_class_and_that_over_the_configured_one(db):
    few = {**UNLIMITED, "shares": 0}
    assert refused(db, SHARE, few)
    put(db, rules.DEFAULT_CLASS, project="", shares=1)
    take(db, SHARE, few)
    assert refused(db, SHARE, few)
    put(db, rules.PROJECT, shares=2)
    take(db, SHARE, few)
    assert refused(db, SHARE, few)
    put(db, rules.PROJECT, shares=-1)
    take(db, SHARE, few)


@pytest.mark.parametrize("scope", [rules.user_scope("u"), rules.type_scope("t")], ids=["user", "type"])
def test_a_limit_of_a_user_or_a_type_holds_beside_that_of_the_project(db, scope):
    put(db, scope, gigabytes=9)
    take(db, SHARE)
    assert refused(db, SHARE) == "ShareSizeExceedsAvailableQuota"
    take(db, SHARE, user="other", share_type="another")


def test_a_share_larger_than_the_limit_for_one_share_is_refused(db):
    put(db, rules.PROJECT, per_share_gigabytes=4)
    assert refused(db, SHARE) == "ShareSizeExceedsLimit"
    take(db, {"shares": 1, "gigabytes": 4})


def test_an_extension_is_compared_with_the_limit_for_one_share_by_its_new_size(db):
    put(db, rules.PROJECT, per_share_gigabytes=8)
    take(db, SHARE)
    take(db, {"gigabytes": 3, "per_share_gigabytes": 8})
    assert refused(db, {"gigabytes": 1, "per_share_gigabytes": 9}) == "ShareSizeExceedsLimit"
    assert used(db) == {"shares": 1, "gigabytes": 8}


def test_an_extension_may_be_forbidden_instead_of_over_the_limit(db):
    put(db, rules.PROJECT, gigabytes=8, per_share_gigabytes=7)
    take(db, SHARE)
    with pytest.raises(errors.Forbidden, match="exceed"), db.write() as tx:
        quotas.take_or_forbid(tx, "p", "u", "t", {"gigabytes": 4}, UNLIMITED)
    with pytest.raises(errors.OverLimit, match="exceed"), db.write() as tx:
        quotas.take_or_forbid(tx, "p", "u", "t", {"gigabytes": 3, "per_share_gigabytes": 8}, UNLIMITED)


def test_what_shrinks_is_never_refused(db):
    take(db, SHARE)
    put(db, rules.PROJECT, shares=0, gigabytes=0)
    take(db, {"gigabytes": -2})
    assert used(db) == {"shares": 1, "gigabytes": 3}


def test_something_without_a_type_counts_for_project_and_user(db):
    with db.write() as tx:
        quotas.take(tx, "p", "u", None, {"share_networks": 1}, UNLIMITED)
    assert used(db) == used(db, rules.user_scope("u")) == {"share_networks": 1}


def test_limits_are_shown_with_their_fallbacks(db):
    put(db, rules.DEFAULT_CLASS, project="", shares=1, gigabytes=1)
    put(db, rules.PROJECT, gigabytes=2, snapshots=2)
    put(db, rules.user_scope("u"), snapshots=3)
    with db.read() as tx:
        limits, in_use = quotas.standing(tx, "p", rules.user_scope("u"), UNLIMITED)
    assert (limits["shares"], limits["gigabytes"], limits["snapshots"], limits["backups"]) == (1, 2, 3, -1)
    assert set(in_use.values()) == {0}


def test_limits_that_are_removed_hold_no_longer(db):
    put(db, rules.PROJECT, shares=1)
    put(db, rules.user_scope("u"), shares=1)
    with db.write() as tx:
        quotas.remove(tx, "p", rules.user_scope("u"))
        assert quotas.limits(tx, "p", rules.user_scope("u"), UNLIMITED)["shares"] == 1
        quotas.remove(tx, "p", rules.PROJECT)
        assert quotas.limits(tx, "p", rules.PROJECT, UNLIMITED)["shares"] == -1


def test_a_type_that_is_gone_leaves_no_counts_behind(db):
    take(db, SHARE)
    put(db, rules.type_scope("t"), shares=5)
    with db.write() as tx:
        quotas.remove_type(tx, "t")
        assert quotas.limits(tx, "p", rules.type_scope("t"), UNLIMITED)["shares"] == -1
    assert used(db, rules.type_scope("t")) == {}
    assert used(db) == SHARE


def share(tx, project, user, size, events=("created",)):
    share_id, type_id = str(uuid.uuid4()), str(uuid.uuid4())
    kind = {"id": type_id, "name": type_id, "extra_specs": {}, "created_at": tx.now}
    row = {"id": share_id, "project_id": project, "user_id": user, "size": size, "share_proto": "NFS", "metadata": {}}
    tx.execute(sa.insert(catalog_tables.share_types), kind)
    tx.execute(sa.insert(share_tables.shares), {**row, "created_at": tx.now})
    for _ in range(2):  # a replica is no second share
        instance_id = str(uuid.uuid4())
        share_instances.add(tx, {"id": instance_id, "share_id": share_id, "share_type_id": type_id})
        for event in events:
            share_instances.move(tx, instance_id, event)
    return type_id


def test_counts_that_equal_what_is_there_are_left_alone(db):
    with db.write() as tx:
        type_id = share(tx, "p", "u", 5)
        quotas.take(tx, "p", "u", type_id, SHARE, UNLIMITED)
        assert quotas.recount(tx) == []


def test_a_recount_mends_and_names_what_was_wrong(db):
    with db.write() as tx:
        type_id = share(tx, "p", "u", 5)
        quotas.take(tx, "p", "u", type_id, {"shares": 3, "gigabytes": 5}, UNLIMITED)
        quotas.take(tx, "gone", "u", None, {"shares": 1}, UNLIMITED)
        found = quotas.recount(tx)
        assert ("p", "project", "shares", 3, 1) in found
        assert ("gone", "project", "shares", 1, 0) in found
        assert len(found) == 5
        assert quotas.differences(tx) == []
    assert used(db) == SHARE


def test_a_recount_makes_counts_that_were_lost(db):
    with db.write() as tx:
        type_id = share(tx, "p", "u", 5)
        assert len(quotas.recount(tx)) == 6
    assert used(db) == used(db, rules.user_scope("u")) == used(db, rules.type_scope(type_id)) == SHARE


def test_a_recount_leaves_the_sizes_of_a_project_that_extends_a_share(db):
    with db.write() as tx:
        type_id = share(tx, "p", "u", 5, events=("created", "extend"))
        quotas.take(tx, "p", "u", type_id, {"shares": 1, "gigabytes": 9}, UNLIMITED)
        assert quotas.recount(tx) == []


def test_a_recount_waits_for_what_is_not_committed_yet(db):
    """A share that is being accepted is in none of the sums that the recount sees, but its counts are locked."""
    with ThreadPoolExecutor(1) as pool:
        with db.write() as tx:
            type_id = share(tx, "p", "u", 5)
            quotas.take(tx, "p", "u", type_id, SHARE, UNLIMITED)
            found = pool.submit(recounted, db)
            with pytest.raises(TimeoutError):
                found.result(0.5)
        assert found.result(30) == []
    assert used(db) == SHARE


def recounted(db):
    with db.write() as tx:
        return quotas.recount(tx)


def test_taking_giving_back_and_claiming_are_one_statement_each(db):
    statements = []

    @sa.event.listens_for(db._writer, "before_cursor_execute")
    def note(_connection, _cursor, statement, *_):
        statements.append(statement.split(maxsplit=1)[0])

    with db.write() as tx:
        quotas.take(tx, "p", "u", "t", SHARE, UNLIMITED)
        quotas.give_back(tx, "p", "u", "t", SHARE)
        pools.claim(tx, Claim(host="here@alpha#fast", size_gib=5))
        pools.release(tx, "here@alpha#fast", 5)
    assert [word for word in statements if word != "BEGIN"] == ["INSERT", "INSERT", "UPDATE", "UPDATE"]


def prune(db, most):
    """How many looks it took."""
    last, looks = None, 0
    while looks == 0 or last is not None:
        with db.write() as tx:
            last = quotas.prune(tx, most, last)
        looks += 1
    return looks


def test_counts_of_nothing_are_forgotten_page_by_page(db):
    for number in range(4):
        take(db, SHARE, project=f"p{number}")
    with db.write() as tx:
        for project in ("p0", "p1", "p3"):
            quotas.give_back(tx, project, "u", "t", SHARE)
    take(db, {"shares": 1}, project="p3", user="other")
    assert prune(db, 5) == 3
    with db.read() as tx:
        left = tx.rows(sa.select(catalog_tables.quota_usages.c.project_id, catalog_tables.quota_usages.c.scope))
    other, of_type = rules.user_scope("other"), rules.type_scope("t")
    assert {tuple(row) for row in left} == {
        *(("p2", scope) for scope in (rules.PROJECT, rules.user_scope("u"), of_type)),
        *(("p3", scope) for scope in (rules.PROJECT, other, of_type)),
    }
    take(db, SHARE, project="p0")
    assert used(db, project="p0") == SHARE


@pytest.mark.parametrize("database", [on_postgres], indirect=True)
def test_a_count_that_somebody_counts_in_stays(db):
    take(db, SHARE)
    with db.write() as tx:
        quotas.give_back(tx, "p", "u", "t", SHARE)
    with db.write() as counting:
        quotas.take(counting, "p", "u", "t", SHARE, UNLIMITED)
        assert prune(db, 100) == 1
    assert used(db) == SHARE
