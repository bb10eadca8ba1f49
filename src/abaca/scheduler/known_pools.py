# SPDX-License-Identifier: Apache-2.0
"""The pools as this process saw them last, so that of a thousand only the few that come first are read for a request.

What is remembered says only in which order to look. Each pool is read and filtered before it is chosen, and where none
of those is left all are read: nothing is placed, or refused, by what was true a while ago. Without I/O: who asks hands
in what reads.
"""

from __future__ import annotations

import bisect
import itertools
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence

from abaca.domain.administration.pools import Pool
from abaca.scheduler import choose
from abaca.scheduler.choose import Placement, Refusal, Rules, Standing
from abaca.scheduler.filters import ShareRequest

# So few are read each time; that costs no more than to remember them.
FEW = 8
# So long an order counts, in seconds: how late a pool comes to the fore that has more room, or is at work, again.
FOR_S = 30.0
# How many are looked at together, before all are.
_TOGETHER = (4, 16, 64, 256)
# Kinds of requests whose orders are kept.
_KINDS = 64
# What differs from request to request, and is asked of each pool that is looked at.
OF_ONE_REQUEST = {"size_gib", "project_id", "different_hosts", "attempted_hosts"}
# What those have not that are looked at in order.
NEAR = {"only_host", "same_hosts", "snapshot_host", "active_replica_host", "replica_hosts"}
_ASKED = tuple(name for name in ShareRequest.__struct_fields__ if name not in OF_ONE_REQUEST | NEAR)

# Reads pools as they are, those of the names or all.
Read = Callable[[Sequence[str] | None], list[Pool]]


class KnownPools:
    """What a process that places shares remembers of the pools. Any thread may ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._pools: Sequence[Pool] = ()
        self._until_s = 0.0
        self._orders: dict[Hashable, _Order] = {}

    def place(self, request: ShareRequest, read: Read, rules: Rules) -> Placement:
        """As `choose.place` of all pools; of many it looks at those that have the most room, as far as is known.

        All are read for what lies near other shares, and where back ends have a goodness function: then what a pool
        is worth depends on all the others.
        """
        pools: Sequence[Pool] | None = None
        found = Placement()
        named = [request.only_host] if request.only_host else request.same_hosts
        if named:
            found = choose.place(request, read(named), rules)
        elif not request.is_relative:
            pools = self._read_all(read) if self._clock() >= self._until_s else None
            order = self._order(request, rules)
            found = Placement() if order is None else self._look(order, request, read, rules)
        return found if found.candidates else choose.place(request, pools or self._read_all(read), rules)

    def _look(self, order: _Order, request: ShareRequest, read: Read, rules: Rules) -> Placement:
        looked: list[Pool] = []
        passed = {*request.different_hosts, *request.attempted_hosts}
        found = Placement()
        for count in _TOGETHER:
            with self._lock:
                hosts = order.next(request.size_gib, passed, count)
            if not hosts:
                break
            read_now = read(hosts)
            looked += read_now
            passed.update(hosts)
            found = choose.place(request, looked, rules)
            with self._lock:
                order.update(hosts, [choose.standing(request, pool, rules) for pool in read_now])
                order.refused(request.size_gib, found.refusals)
                best = found.pool and choose.standing(request, found.pool, rules)
                if best and order.has_none_before(best, request.size_gib, passed):
                    break
        return found

    def _read_all(self, read: Read) -> Sequence[Pool]:
        pools = read(None)
        with self._lock:
            self._pools = pools
            self._until_s = self._clock() + FOR_S
            self._orders.clear()
        return pools

    def _order(self, request: ShareRequest, rules: Rules) -> _Order | None:
        pools = self._pools
        if len(pools) <= FEW:
            return None
        kind = tuple(_hashable(getattr(request, name)) for name in _ASKED)
        with self._lock:
            order = self._orders.get(kind)
        if order is None and choose.is_by_room(pools, rules):
            order = _Order([choose.standing(request, pool, rules) for pool in choose.suited(request, pools, rules)])
            with self._lock:
                if len(self._orders) >= _KINDS:
                    self._orders.clear()
                self._orders[kind] = order
        return order


def _hashable(value: object) -> Hashable:
    if isinstance(value, Mapping):
        return frozenset(value.items())
    return tuple(value) if isinstance(value, list) else value


class _Order:
    """The pools that may hold what one kind of request asks for, best first, as they were when they were read."""

    def __init__(self, standings: Sequence[Standing]) -> None:
        self._of = {standing.host: standing for standing in standings}
        self._sorted = sorted(standings)
        # the least size that each has refused
        self._refused: dict[str, int] = {}

    def next(self, size_gib: int, passed: Collection[str], count: int) -> list[str]:
        """The names of the first that have not refused such a size and are not among the `passed`."""
        return [standing.host for standing in itertools.islice(self._left(size_gib, passed), count)]

    def has_none_before(self, standing: Standing, size_gib: int, passed: Collection[str]) -> bool:
        """Whether none of those stands before that."""
        following = next(self._left(size_gib, passed), None)
        return following is None or standing <= following

    def _left(self, size_gib: int, passed: Collection[str]) -> Iterator[Standing]:
        for standing in self._sorted:
            if standing.host not in passed and self._refused.get(standing.host, size_gib + 1) > size_gib:
                yield standing

    def update(self, hosts: Sequence[str], standings: Sequence[Standing]) -> None:
        """Those of the names were read, and stand so; one that does not is gone."""
        for host in hosts:
            old = self._of.pop(host, None)
            if old is not None:
                del self._sorted[bisect.bisect_left(self._sorted, old)]
        for standing in standings:
            self._of[standing.host] = standing
            bisect.insort(self._sorted, standing)

    def refused(self, size_gib: int, refusals: Sequence[Refusal]) -> None:
        """Those have refused that size. A back end's own function may judge the next request otherwise."""
        for one in refusals:
            if one.filter != "DriverFilter":
                least = size_gib if one.filter == "CapacityFilter" else 0
                self._refused[one.host] = min(self._refused.get(one.host, least), least)
