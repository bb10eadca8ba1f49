# SPDX-License-Identifier: Apache-2.0
"""The weighers: each gives every pool that is left a figure; more is better.

A weigher's figures are brought to 0..1 and multiplied with the operator's multiplier; a pool's weight is their sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from abaca.domain.administration import pools
from abaca.domain.administration.pools import Pool
from abaca.scheduler import filters, formula
from abaca.scheduler.filters import ShareRequest

Weighs = Callable[[ShareRequest, Sequence[Pool]], list[float]]


def capacity(request: ShareRequest, candidates: Sequence[Pool]) -> list[float]:
    """The room left: the emptiest pool gets 1, the fullest 0; pools that cannot tell count as the fullest."""
    return _spread([room(request, pool) for pool in candidates])


def room(request: ShareRequest, pool: Pool) -> float:
    """The GiB that a pool has left for such a share; -inf where it cannot tell."""
    reserved = pool.reserved_gib(request.kind)
    if pool.total_gib is not None and pool.is_thin_for(request.specs):
        return pool.total_gib * pool.over_subscription_ratio - pool.provisioned_gib - reserved
    return -math.inf if pool.free_gib is None else pool.free_gib - pool.claimed_gib - reserved


def _spread(figures: Sequence[float]) -> list[float]:
    """Figures brought to 0..1 between the least and the greatest; endless ones lie one beyond the others."""
    finite = [figure for figure in figures if math.isfinite(figure)] or [0.0]
    low, high = min(finite) - 1, max(finite) + 1
    bounded = [min(high, max(low, figure)) for figure in figures]
    least, width = min(bounded), max(bounded) - min(bounded)
    return [(figure - least) / width if width else 0.0 for figure in bounded]


def goodness(request: ShareRequest, candidates: Sequence[Pool]) -> list[float]:
    """What the back end's `goodness_function` says, 0..100; 0 where there is none or it has no value."""
    return [_goodness(request, pool) / 100 for pool in candidates]


def _goodness(request: ShareRequest, pool: Pool) -> float:
    text = pool.capabilities.get("goodness_function")
    if not text:
        return 0.0
    try:
        value = formula.evaluate(str(text), filters.names(request, pool))
    except formula.Broken:
        return 0.0
    return float(value) if isinstance(value, int | float) and 0 <= value <= 100 else 0.0


def host_affinity(request: ShareRequest, candidates: Sequence[Pool]) -> list[float]:
    """How near a new share is to its snapshot: the same pool 1, back end 0.75, zone 0.5, elsewhere 0.25."""
    if request.snapshot_host is None:
        return [0.0] * len(candidates)
    parent = request.snapshot_host
    zone = next((pool.availability_zone for pool in candidates if _shares_backend(pool, parent)), None)
    return [_nearness(pool, parent, zone) for pool in candidates]


def _nearness(pool: Pool, parent: str, zone: str | None) -> float:
    if pool.host == parent:
        return 1.0
    if _shares_backend(pool, parent):
        return 0.75
    return 0.5 if pool.availability_zone == zone else 0.25


def _shares_backend(pool: Pool, host: str) -> bool:
    return pool.service_host == pools.service_host_of(host)


WEIGHERS: Mapping[str, Weighs] = {
    "CapacityWeigher": capacity,
    "GoodnessWeigher": goodness,
    "HostAffinityWeigher": host_affinity,
}
