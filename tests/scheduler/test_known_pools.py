# SPDX-License-Identifier: Apache-2.0
"""What a process remembers of the pools says where to look first; what it finds is as good as if it saw them all."""

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abaca.domain.administration.messages import Detail
from abaca.scheduler import choose, filters, known_pools
from abaca.scheduler.choose import DEFAULT_RULES, Rules
from abaca.scheduler.known_pools import FEW, FOR_S, KnownPools
from tests.scheduler.test_choose import ask, pool

MANY = 1000


class Database:
    """Pools as they are, and how many were read."""

    def __init__(self, pools):
        self.pools = {one.host: one for one in pools}
        self.read_hosts = []

    def read(self, hosts=None):
        found = [one for one in self.pools.values() if hosts is None or one.host in hosts]
        self.read_hosts.append([one.host for one in found])
        return found

    def change(self, host, **values):
        self.pools[host] = msgspec.structs.replace(self.pools[host], **values)

    def place(self, known, request, rules=DEFAULT_RULES):
        """Where it goes; the room is taken there."""
        self.read_hosts.clear()
        found = known.place(request, self.read, rules)
        if found.pool:
            taken = self.pools[found.pool.host]
            more = request.size_gib
            self.change(taken.host, claimed_gib=taken.claimed_gib + more, provisioned_gib=taken.provisioned_gib + more)
        return found

    @property
    def rows(self):
        return sum(map(len, self.read_hosts))


def many(count=MANY, **wishes):
    """Pools with room that nobody would guess from their names."""
    rooms = random.Random(7).sample(range(100, 100 + 10 * count), count)
    return [pool(f"b{number % 3}#p{number:04}", 1e6, rooms[number], **wishes) for number in range(count)]


def test_of_a_thousand_pools_a_few_are_read_for_a_request():
    database, known = Database(many()), KnownPools(lambda: 0.0)
    database.place(known, ask(1))
    for size in (1, 1, 50, 2, 900, 1, 1):
        best = choose.place(ask(size), database.pools.values()).pool
        assert database.place(known, ask(size)).pool == best
        assert database.rows <= 8


def test_what_one_type_fills_another_sees():
    database, known = Database(many()), KnownPools(lambda: 0.0)
    other = {"snapshot_support": "True"}
    database.place(known, ask(1, other))
    for _ in range(40):
        database.place(known, ask(300))
    for _ in range(40):
        best = choose.place(ask(1, other), database.pools.values()).pool
        assert database.place(known, ask(1, other)).pool == best
        assert database.rows < MANY / 2
    assert database.rows <= 8


def test_a_few_pools_are_read_each_time():
    database, known = Database(many(FEW)), KnownPools(lambda: 0.0)
    for _ in range(3):
        database.place(known, ask(1))
        assert database.rows == FEW
    database.pools.update({one.host: one for one in [pool("c#new", free=10**9)]})
    assert database.place(known, ask(1)).pool.host == "here@c#new"


def test_a_pool_that_has_room_again_comes_to_the_fore_in_time():
    now_s = 0.0
    database, known = Database(many()), KnownPools(lambda: now_s)
    database.place(known, ask(1))
    least = min(database.pools.values(), key=lambda one: one.free_gib)
    database.change(least.host, free_gib=10**9)
    assert database.place(known, ask(1)).pool.host != least.host
    now_s = FOR_S
    assert database.place(known, ask(1)).pool.host == least.host


def test_where_none_is_left_that_was_known_all_are_read():
    database, known = Database(many()), KnownPools(lambda: 0.0)
    database.place(known, ask(1))
    for host in database.pools:
        database.change(host, is_disabled=True)
    found = database.place(known, ask(1))
    assert (found.pool, found.refusal.detail, len(found.refusals)) == (None, Detail.NO_VALID_HOST, MANY)
    database.change("here@b0#p0000", is_disabled=False)
    assert database.place(known, ask(1)).pool.host == "here@b0#p0000"
    assert database.place(known, ask(10**9)).refusal.detail == Detail.FILTER_CAPACITY


@pytest.mark.parametrize(
    "asked",
    [ask(1, only_host="here@b1#p0001"), ask(1, same_hosts=["here@b1#p0001"])],
    ids=["only_host", "same_host"],
)
def test_pools_that_are_named_are_read_alone(asked):
    database, known = Database(many()), KnownPools(lambda: 0.0)
    assert database.place(known, asked).pool.host == "here@b1#p0001"
    assert database.read_hosts == [["here@b1#p0001"]]


def test_pools_that_are_named_and_cannot_be_tell_why():
    database, known = Database(many()), KnownPools(lambda: 0.0)
    for asked in (ask(1, only_host="here@nowhere#p"), ask(10**9, only_host="here@b1#p0001")):
        assert database.place(known, asked) == choose.place(asked, database.pools.values())


def test_what_is_full_is_not_looked_at_again_for_such_a_size():
    full = [pool(f"a#p{number:04}", 100, 1, thin_provisioning=True) for number in range(60)]
    others = [pool(f"b#p{number}", 100, 50, provisioned=150, thin_provisioning=True) for number in range(20)]
    database, known = Database([*full, *others]), KnownPools(lambda: 0.0)
    specs = {"thin_provisioning": "True"}
    for read in (len(full) + len(others) + 4 + 16 + 64 - 4, 4, 4):
        assert database.place(known, ask(10, specs)).pool.service_host == "here@b"
        assert database.rows == read
    assert database.place(known, ask(2, specs)).pool.service_host == "here@a"


def test_a_share_goes_where_others_are_not():
    database, known = Database(many()), KnownPools(lambda: 0.0)
    first, second = (choose.place(ask(1), database.pools.values()).candidates[number].pool.host for number in (0, 1))
    database.place(known, ask(1))
    assert database.place(known, ask(1, different_hosts=[first])).pool.host == second
    assert database.place(known, ask(1)).pool.host == first


def test_where_all_pools_are_weighed_against_each_other_all_are_read():
    good = pool("b#good", free=10, goodness_function="100")
    database, known = Database([*many(20), good]), KnownPools(lambda: 0.0)
    rules = Rules(multipliers={"CapacityWeigher": 0.0, "GoodnessWeigher": 1.0})
    for _ in range(2):
        assert database.place(known, ask(1), rules).pool.host == good.host
    snapshot = ask(1, snapshot_host="here@b1#p0001", kind="from_snapshot")
    assert database.place(known, snapshot).pool.service_host == "here@b1"


HOSTS = [f"b{number % 3}#p{number}" for number in range(12)]
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "is_up": st.booleans(),
        "is_disabled": st.booleans(),
        "free_gib": st.none() | st.integers(0, 60).map(float),
        "availability_zone": st.sampled_from(["nova", "east"]),
    },
)
STEPS = st.lists(
    st.tuples(
        st.integers(1, 30),
        st.sampled_from([None, "nova", "east"]),
        st.sampled_from([{}, {"thin_provisioning": "True"}]),
        st.dictionaries(st.sampled_from(HOSTS), CHANGES, max_size=4),
    ),
    max_size=12,
)
POOLS = st.lists(
    st.builds(
        lambda host, free, thin: pool(host, 100.0, free, thin_provisioning=thin),
        st.sampled_from(HOSTS),
        st.none() | st.integers(0, 100).map(float),
        st.booleans(),
    ),
    min_size=FEW + 1,
    unique_by=lambda one: one.host,
)
MULTIPLIERS = st.sampled_from([{"CapacityWeigher": weight} for weight in (1.0, 0.0, -1.0)] + [{}])


@given(POOLS, STEPS, MULTIPLIERS)
def test_nothing_is_placed_or_refused_by_what_was_true_before(pools, steps, multipliers):
    database, known, rules = Database(pools), KnownPools(lambda: 0.0), Rules(multipliers=multipliers)
    for size, zone, specs, changes in steps:
        request = ask(size, specs, availability_zone=zone)
        wanted = choose.place(request, database.pools.values(), rules)
        found = database.place(known, request, rules)
        assert (found.pool is None) == (wanted.pool is None)
        if found.pool is None:
            assert found == wanted
        else:
            assert found.pool in [candidate.pool for candidate in wanted.candidates]
        for host, values in changes.items():
            if f"here@{host}" in database.pools:
                database.change(f"here@{host}", **values)


@given(POOLS, st.integers(1, 30), st.sampled_from([{}, {"thin_provisioning": "True"}]), MULTIPLIERS)
def test_what_has_not_changed_is_chosen_as_if_all_were_read(pools, size, specs, multipliers):
    database, known, rules = Database(pools), KnownPools(lambda: 0.0), Rules(multipliers=multipliers)
    for _ in range(5):  # but for what it takes itself
        wanted = choose.place(ask(size, specs), database.pools.values(), rules)
        assert database.place(known, ask(size, specs), rules).pool == wanted.pool


def test_each_field_of_a_request_tells_kinds_apart_or_is_asked_of_each_pool():
    told = {*known_pools.OF_ONE_REQUEST, *known_pools.NEAR}
    assert told < set(filters.ShareRequest.__struct_fields__)
