# SPDX-License-Identifier: Apache-2.0
"""Where a share goes: a request and the pools as they are, to the pools ranked, with the reason for each refusal.

Pure. It runs inside the transaction that creates the share: the caller takes the first candidate whose claim the
database still grants (db/administration), so what another scheduler took in the meantime cannot be given away twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from abaca.domain.administration.messages import Detail
from abaca.domain.administration.pools import Claim, Pool
from abaca.scheduler import filters, weighers
from abaca.scheduler.filters import DEFAULT, EXTEND, FILTERS, ShareRequest, Surroundings
from abaca.settings import Settings


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """How the operator wants pools to be chosen: the filters in their order, and what each weigher counts for."""

    names: Sequence[str] = DEFAULT
    extend_names: Sequence[str] = EXTEND
    multipliers: Mapping[str, float] = msgspec.field(default_factory=lambda: dict.fromkeys(weighers.WEIGHERS, 1.0))

    def filters_for(self, request: ShareRequest) -> Sequence[str]:
        """The names of the filters for this kind of request."""
        return self.extend_names if request.kind == "extend" else self.names


def rules_of(settings: Settings) -> Rules:
    """The rules that are configured."""
    multipliers = {
        "CapacityWeigher": settings.capacity_weight_multiplier,
        "GoodnessWeigher": settings.goodness_weight_multiplier,
        "HostAffinityWeigher": settings.host_affinity_weight_multiplier,
    }
    return Rules(
        names=settings.scheduler_default_filters,
        extend_names=settings.scheduler_default_extend_filters,
        multipliers={name: multipliers[name] for name in settings.scheduler_default_weighers},
    )


DEFAULT_RULES = Rules()


class Candidate(msgspec.Struct, frozen=True):
    """A pool that may hold the share: the pool's weight, and the claim that takes the room."""

    pool: Pool
    weight: float
    claim: Claim


class Refusal(msgspec.Struct, frozen=True):
    """A pool that may not hold the share: which filter refused the pool and why, in words for operators."""

    host: str
    filter: str
    reason: str

    def __str__(self) -> str:
        """The line that is logged."""
        return f"{self.host}: {self.filter}: {self.reason}"


class Unplaced(msgspec.Struct, frozen=True):
    """No pool is left: what the users are told, which names no host. `text` is the message's reason."""

    detail: Detail
    text: str


class Placement(msgspec.Struct, frozen=True):
    """The candidates, best first, and the refusals in the order of the pools' names."""

    candidates: tuple[Candidate, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    refusal: Unplaced | None = None

    @property
    def pool(self) -> Pool | None:
        """The best pool, or None."""
        return self.candidates[0].pool if self.candidates else None

    @property
    def taken_meanwhile(self) -> Unplaced:
        """What to tell when every candidate's claim was refused: somebody else took the room first."""
        return Unplaced(Detail.FILTER_CAPACITY, "The room was taken by another request at the same moment.")


def place(request: ShareRequest, pools: Iterable[Pool], rules: Rules = DEFAULT_RULES) -> Placement:
    """The pools that may hold what is asked for, best first; the same input always gives the same answer."""
    known = sorted(pools, key=lambda pool: pool.host)
    if not known:
        return Placement(refusal=Unplaced(Detail.NOT_READY, "No storage back end has reported a pool yet."))
    left, refusals = _at_work(request, known)
    if not left:
        text = "No back end is up and enabled at the moment."
        return Placement((), tuple(refusals), Unplaced(Detail.NO_VALID_HOST, text))
    around = surroundings(request, known)
    for name in rules.filters_for(request):
        one, before, left = FILTERS[name], left, []
        for pool in before:
            reason = one.refuses(request, pool, around)
            if reason is None:
                left.append(pool)
            else:
                refusals.append(Refusal(pool.host, name, reason))
        if not left:
            of_subnets = filters.subnets_in_the_way(request, before) if one.judges_zones else []
            told = " ".join([_told(request, len(before)), *of_subnets])
            return Placement((), _sorted(refusals), Unplaced(one.detail, told))
    return Placement(_ranked(request, left, rules), _sorted(refusals))


class Standing(NamedTuple):
    """Where a pool stands among those that fit, by itself; what is less comes first."""

    is_back_soon: bool
    lack: float
    host: str


def standing(request: ShareRequest, pool: Pool, rules: Rules) -> Standing:
    """The place of one pool, by its room: in that order `place` has the candidates while `is_by_room`."""
    multiplier = rules.multipliers.get("CapacityWeigher", 0.0)
    return Standing(not pool.is_up, -multiplier * weighers.room(request, pool) if multiplier else 0.0, pool.host)


def is_by_room(pools: Iterable[Pool], rules: Rules) -> bool:
    """Whether nothing but room tells these pools apart, for a share that need not lie near another."""
    if not rules.multipliers.get("GoodnessWeigher"):
        return True
    return not any(pool.capabilities.get("goodness_function") for pool in pools)


def suited(request: ShareRequest, pools: Sequence[Pool], rules: Rules) -> list[Pool]:
    """The pools at work that refuse such a request at no size."""
    left, _ = _at_work(request, pools)
    around = surroundings(request, pools)
    lasting = [FILTERS[name].refuses for name in rules.filters_for(request) if FILTERS[name].is_lasting]
    return [pool for pool in left if not any(refuses(request, pool, around) for refuses in lasting)]


def fits(request: ShareRequest, pool: Pool, rules: Rules = DEFAULT_RULES) -> Refusal | None:
    """Why the pool that holds a share refuses to extend it, or None. That the pool is disabled is no reason."""
    around = surroundings(request, [pool])
    for name in rules.filters_for(request):
        reason = FILTERS[name].refuses(request, pool, around)
        if reason is not None:
            return Refusal(pool.host, name, reason)
    return None


def _at_work(request: ShareRequest, pools: Sequence[Pool]) -> tuple[list[Pool], list[Refusal]]:
    """The pools whose service is up, or back soon, and enabled; one that an administrator names may be disabled."""
    left, refusals = [], []
    for pool in pools:
        if not pool.is_up and not pool.is_back_soon:
            refusals.append(Refusal(pool.host, "service", f"{pool.service_host} is down"))
        elif pool.is_disabled and pool.host != request.only_host:
            refusals.append(Refusal(pool.host, "service", f"{pool.service_host} is disabled"))
        else:
            left.append(pool)
    return left, refusals


def surroundings(request: ShareRequest, pools: Sequence[Pool]) -> Surroundings:
    """What the filters must know beside the request and one pool."""
    domains = {
        pool.service_host: str(pool.capabilities["replication_domain"])
        for pool in pools
        if pool.capabilities.get("replication_domain")
    }
    return Surroundings(domains, filters.wanted(request))


def _told(request: ShareRequest, count: int) -> str:
    pools = "1 pool" if count == 1 else f"{count} pools"
    return f"{request.size_gib} GiB were asked for, {pools} came into question."


def _sorted(refusals: Iterable[Refusal]) -> tuple[Refusal, ...]:
    return tuple(sorted(refusals, key=lambda refusal: refusal.host))


def _ranked(request: ShareRequest, left: Sequence[Pool], rules: Rules) -> tuple[Candidate, ...]:
    weights = [0.0] * len(left)
    for name, multiplier in rules.multipliers.items():
        for index, figure in enumerate(weighers.WEIGHERS[name](request, left)):
            weights[index] += multiplier * figure
    candidates = [
        Candidate(pool, weight, pool.claim(request.size_gib, request.kind, request.specs))
        for pool, weight in zip(left, weights, strict=True)
    ]
    # a share that goes to a worker that is restarting waits for it: only where no other pool will do
    return tuple(sorted(candidates, key=lambda one: (not one.pool.is_up, -one.weight, one.pool.host)))
