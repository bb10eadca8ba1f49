# SPDX-License-Identifier: Apache-2.0
"""Availability zones: where back ends are, as users may ask for it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from abaca import policy
from abaca.db.catalog.availability_zones import ZONES
from abaca.db.engine.statements import Row
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Many, View

INDEX = policy.reader("availability_zone:index", "List availability zones.")


class ZoneView(View):
    """An availability zone."""

    id: str
    name: str
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


RESOURCE = Resource("availability zones", "/availability-zones", formerly=("/os-availability-zone", "2.6"))


@RESOURCE.get(policy=INDEX, view=Many("availability_zones", ZoneView))
def index(call: Call) -> Sequence[Row]:
    """All zones."""
    with call.db.read() as tx:
        return ZONES.rows(tx, call.columns, {}, call.page._replace(sort_key="name", descending=False, marker=None))
