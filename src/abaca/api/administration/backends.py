# SPDX-License-Identifier: Apache-2.0
"""The back ends as operators see them: whether they are served, what is in their pools, and what waits for them."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Literal

from abaca import policy
from abaca.db.administration import pools, services
from abaca.db.engine.database import Tx
from abaca.db.journal import queue_figures
from abaca.domain.administration.pools import Pool, parts
from abaca.domain.administration.services import NEVER, Service
from abaca.http.bodies import Filters, Text
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import COUNTED, Many, View
from abaca.operations.administration import backend_reconcile

INDEX = policy.admin("backend:get_all", "List back ends with their pools and what waits for them.")

RESOURCE = Resource("back ends", "/backends")


class PoolView(View):
    """A pool; a size is in GiB, `infinite`, or null where the back end cannot tell."""

    name: str
    total_gib: float | str | None
    free_gib: float | str | None
    provisioned_gib: int


class BackEndView(View):
    """A back end, host@backend. It is `new` before its first heartbeat; `problem` says why it cannot be served now.

    `operations` counts the live ones of its queue by their state, those that compare it with the database aside.
    """

    host: str
    state: Literal["up", "down", "stopped", "new"]
    status: Literal["enabled", "disabled"]
    disabled_reason: str | None
    ensuring: bool
    last_seen_at: datetime.datetime | None
    problem: str | None
    pools: list[PoolView]
    operations: dict[str, int]


class BackEndFilters(Filters, unknown="refuse"):
    """What the list may be asked for."""

    host: Text


@RESOURCE.get(
    policy=INDEX, view=Many("backends", BackEndView, links="backends_links", counted=COUNTED), filters=BackEndFilters
)
def index(call: Call, filters: dict[str, object]) -> Listed:
    """Back ends that were ever served, in the order of their hosts; the `marker` is a host."""
    down_time_s = call.settings.service_down_time
    with call.db.read() as tx:
        alive_since = services.alive_since(tx, down_time_s)
        found, next_marker = services.places(tx, filters, call.page)
        count = call.count(lambda _: services.number_of_places(tx, filters))
        of_host: dict[str, list[Pool]] = {}
        for pool in pools.read_for_scheduling(tx, down_time_s):
            of_host.setdefault(pool.service_host, []).append(pool)
        live = _live(tx)
    rows = [_shown(one, alive_since, of_host.get(one.host, []), live.get(one.host, {})) for one in found]
    return Listed(
        [[row[name] for name in call.columns] for row in rows], count, is_marked=True, next_marker=next_marker
    )


def _live(tx: Tx) -> dict[str, dict[str, int]]:
    """How many operations of each state wait or run on each queue; comparing goes on always, and waits for nobody."""
    found: dict[str, dict[str, int]] = {}
    for row in queue_figures.live(tx, tx.now.timestamp()):
        if row.kind == backend_reconcile.OPERATION.kind:
            continue
        of_queue = found.setdefault(row.queue, {})
        of_queue[row.state] = of_queue.get(row.state, 0) + row.number
    return found


def _shown(
    service: Service, alive_since: datetime.datetime, of_host: list[Pool], live: Mapping[str, int]
) -> dict[str, object]:
    state = service.state(alive_since)
    was_seen = service.heartbeat_at > NEVER
    return {
        "host": service.host,
        "state": state if was_seen or state == "stopped" else "new",
        "status": "disabled" if service.disabled else "enabled",
        "disabled_reason": service.disabled_reason,
        "ensuring": service.ensuring,
        "last_seen_at": service.heartbeat_at if was_seen else None,
        "problem": service.problem,
        "pools": [
            {
                "name": parts(pool.host)[2],
                "total_gib": _size(pool.total_gib),
                "free_gib": _size(pool.free_gib),
                "provisioned_gib": pool.provisioned_gib,
            }
            for pool in of_host
        ],
        "operations": dict(live),
    }


def _size(gib: float | None) -> float | str | None:
    return "infinite" if gib is not None and math.isinf(gib) else gib
