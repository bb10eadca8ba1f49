# SPDX-License-Identifier: Apache-2.0
"""Services by Abaca's own door: what lives at each, and those taken out that nobody will serve any more."""

from __future__ import annotations

import datetime
from typing import Literal

from abaca import policy
from abaca.api.administration.services import INDEX
from abaca.db.administration import services as db
from abaca.domain.administration.services import NEVER, Service
from abaca.http.bodies import Filters, Text
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import COUNTED, Many, View

DELETE = policy.admin("service:delete", "Remove a service that nobody serves any more.")

RESOURCE = Resource("services of back ends", "/services")
# So many share instances of a service are counted.
MOST_HELD = 10_000


class PlaceView(View):
    """The service of a back end, host@backend; `instances` is how many share instances live there.

    Where they are many they are not counted to the end, which `instances_are_limited` says.
    """

    host: str
    state: Literal["up", "down", "stopped"]
    status: Literal["enabled", "disabled"]
    zone: str
    last_seen_at: datetime.datetime | None
    instances: int
    instances_are_limited: bool


class PlaceFilters(Filters, unknown="refuse"):
    """What the list may be asked for."""

    host: Text


@RESOURCE.get(
    policy=INDEX, view=Many("services", PlaceView, links="services_links", counted=COUNTED), filters=PlaceFilters
)
def index(call: Call, filters: dict[str, object]) -> Listed:
    """Services in the order of their hosts; the `marker` is a host."""
    with call.db.read() as tx:
        alive_since = db.alive_since(tx, call.settings.service_down_time)
        found, next_marker = db.places(tx, filters, call.page)
        count = call.count(lambda _: db.number_of_places(tx, filters))
        held = db.instances_held(tx, [one.host for one in found], MOST_HELD)
    rows = [_row(call, one, alive_since, held[one.host]) for one in found]
    return Listed(rows, count, is_marked=True, next_marker=next_marker)


@RESOURCE.delete("/{host}", policy=DELETE, status=204)
def delete(call: Call, host: str) -> None:
    """Remove the service of a back end with its pools, when no worker, no share and no operation is left there."""
    with call.db.write() as tx:
        db.remove(tx, host, call.settings.service_down_time)


def _row(call: Call, service: Service, alive_since: datetime.datetime, held: int) -> list[object]:
    shown: dict[str, object] = {
        "host": service.host,
        "state": service.state(alive_since),
        "status": "disabled" if service.disabled else "enabled",
        "zone": service.availability_zone,
        "last_seen_at": None if service.heartbeat_at == NEVER else service.heartbeat_at,
        "instances": min(held, MOST_HELD),
        "instances_are_limited": held > MOST_HELD,
    }
    return [shown[name] for name in call.columns]
