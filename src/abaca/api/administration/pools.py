# SPDX-License-Identifier: Apache-2.0
"""The pools as the scheduler sees them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

from abaca import errors, policy
from abaca.db.administration import pools as db
from abaca.db.catalog import share_types
from abaca.domain.administration.pools import Pool, parts
from abaca.domain.catalog import extra_specs
from abaca.http.bodies import Filters, Name, Pairs
from abaca.http.patterns import Pattern
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Computed, Many, Since, View
from abaca.scheduler import filters as scheduler

INDEX = policy.admin("scheduler_stats:pools:index", "List pools.")
DETAIL = policy.admin("scheduler_stats:pools:detail", "List pools with their capabilities.")


def _of(fn: Callable[[Pool], object]) -> Computed:
    return Computed(lambda _, pool: fn(pool), needs=("pool",))


class PoolView(View):
    """A pool, and the three parts of its name."""

    name: Annotated[str, _of(lambda pool: pool.host)]
    host: Annotated[str, _of(lambda pool: parts(pool.host)[0])]
    backend: Annotated[str, _of(lambda pool: parts(pool.host)[1])]
    pool: Annotated[str, _of(lambda pool: parts(pool.host)[2])]


def _capabilities(pool: Pool) -> dict[str, object]:
    """What the back end reported, beside what is counted here."""
    reported_at = pool.reported_at.isoformat("T", "microseconds") if pool.reported_at else None
    return {
        **pool.capabilities,
        "pool_name": parts(pool.host)[2],
        "total_capacity_gb": _size(pool.total_gib),
        "free_capacity_gb": _size(None if pool.free_gib is None else pool.free_gib - pool.claimed_gib),
        "allocated_capacity_gb": pool.provisioned_gib,
        "provisioned_capacity_gb": pool.provisioned_gib,
        "timestamp": reported_at,
    }


def _size(gib: float | None) -> float | str:
    if gib is None:
        return "unknown"
    return "infinite" if math.isinf(gib) else gib


class PoolDetailView(PoolView):
    """A pool with its capabilities."""

    capabilities: Annotated[dict[str, Any], _of(_capabilities)]


class PoolFilters(Filters):
    """Regular expressions for the parts of the name; capabilities as a share type asks for them; or a share type."""

    host: Name
    backend: Name
    pool: Name
    capabilities: Pairs
    share_type: Annotated[Name, Since("2.23")]


RESOURCE = Resource("pools", "/scheduler-stats/pools")


@RESOURCE.get("/detail", policy=DETAIL, view=Many("pools", PoolDetailView), filters=PoolFilters)
@RESOURCE.get(policy=INDEX, view=Many("pools", PoolView), filters=PoolFilters)
def index(call: Call, filters: dict[str, Any]) -> list[tuple[Pool]]:
    """The pools of the services that are up and enabled."""
    wanted = dict(filters.get("capabilities", {}))
    with call.db.read() as tx:
        if "share_type" in filters:
            found = share_types.find(tx, filters["share_type"])
            if found is None:
                raise errors.Invalid(f"There is no share type with the name or id {filters['share_type']}.")
            wanted |= extra_specs.wanted_capabilities(found.extra_specs)
        pools = db.read_for_scheduling(tx, call.settings.service_down_time)
    patterns = [
        (at, Pattern(filters[name], ignores_case=False))
        for at, name in enumerate(("host", "backend", "pool"))
        if name in filters
    ]
    return [
        (pool,)
        for pool in pools
        if pool.is_up
        and not pool.is_disabled
        and all(pattern.begins(parts(pool.host)[at]) for at, pattern in patterns)
        and scheduler.lacking(pool, wanted) is None
    ]
