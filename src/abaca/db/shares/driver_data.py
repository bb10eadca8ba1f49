# SPDX-License-Identifier: Apache-2.0
"""What drivers want kept for a resource. It is handed to them with the resource, and means nothing to anybody else."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from abaca.db.engine.database import Tx
from abaca.db.tables.shares import driver_data as t


def keep(tx: Tx, wanted: Mapping[str, Mapping[str, str] | None]) -> None:
    """Keep this, and nothing else, for these resources by id; None leaves what is kept, an empty mapping forgets it."""
    said = {resource_id: dict(data) for resource_id, data in wanted.items() if data is not None}
    if said:
        tx.execute(_FORGET, {"resources": list(said)})
    rows = [{"resource_id": id, "data": data, "updated_at": tx.now} for id, data in said.items() if data]
    if rows:
        tx.execute(_ADD, rows)


_FORGET = sa.delete(t).where(t.c.resource_id.in_(sa.bindparam("resources", expanding=True)))
_ADD = sa.insert(t).inline()


def forget(tx: Tx, resource_id: str) -> None:
    """Nothing is kept for a resource that is gone."""
    tx.execute(_FORGET, {"resources": [resource_id]})
