# SPDX-License-Identifier: Apache-2.0
"""Availability zones: made when a service first says that it is in one."""

from __future__ import annotations

import uuid

import sqlalchemy as sa

from abaca.db import lists
from abaca.db.engine import Tx
from abaca.db.tables import availability_zones

ZONES = lists.Listing(
    availability_zones, filters={"name": lists.equal(availability_zones.c.name)}, sorts=("name", "created_at")
)


def ensure(tx: Tx, name: str) -> None:
    """Have the zone `name`."""
    if ZONES.one(tx, ("id",), {"name": name}) is None:
        tx.execute(sa.insert(availability_zones), {"id": str(uuid.uuid4()), "name": name, "created_at": tx.now})
