# SPDX-License-Identifier: Apache-2.0
"""Availability zones: made when a service first says that it is in one."""

from __future__ import annotations

import sqlalchemy as sa

from abaca.db.engine import lists
from abaca.db.engine.database import Tx, insert_into
from abaca.db.tables.catalog import availability_zones
from abaca.domain.ids import new_id

ZONES = lists.Listing(
    availability_zones, filters={"name": lists.equal(availability_zones.c.name)}, sorts=("name", "created_at")
)


def ensure(tx: Tx, name: str) -> None:
    """Have the zone `name`; two services may say so at the same moment."""
    row = {"id": new_id(), "name": name, "created_at": tx.now}
    tx.execute(insert_into(availability_zones, tx.dialect).on_conflict_do_nothing(index_elements=["name"]), row)


def names(tx: Tx) -> frozenset[str]:
    """The names of all zones."""
    return frozenset(tx.connection.execute(sa.select(availability_zones.c.name)).scalars())


def find(tx: Tx, name_or_id: str) -> str | None:
    """The name of the zone that is meant, None where there is none: clients say a zone by its id as well."""
    columns = availability_zones.c
    query = sa.select(columns.name).where(sa.or_(columns.name == name_or_id, columns.id == name_or_id))
    return tx.connection.execute(query.order_by(columns.name != name_or_id)).scalars().first()
