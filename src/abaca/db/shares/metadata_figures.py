# SPDX-License-Identifier: Apache-2.0
"""How much metadata a project has in all."""

from __future__ import annotations

import sqlalchemy as sa

from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Column
from abaca.db.tables.shares import access_rules, export_locations, share_instances, shares


def of_project(tx: Tx, project_id: str) -> int:
    """Characters of the metadata of its shares, their access rules and their export locations, as they are kept."""
    return int(tx.scalar(_OF_PROJECT, {"of_project": project_id}))


def _length(column: Column) -> sa.ColumnElement[int]:
    # most have none
    text = sa.cast(column, sa.Text())
    return sa.func.coalesce(sa.func.sum(sa.case((text != "{}", sa.func.length(text)), else_=0)), 0)


_OF = shares.c.project_id == sa.bindparam("of_project")
_OF_RULES = sa.select(_length(access_rules.c.metadata)).select_from(
    access_rules.join(shares, shares.c.id == access_rules.c.share_id)
)
_OF_LOCATIONS = sa.select(_length(export_locations.c.metadata)).select_from(
    export_locations.join(share_instances, share_instances.c.id == export_locations.c.share_instance_id).join(
        shares, shares.c.id == share_instances.c.share_id
    )
)
_OF_PROJECT = sa.select(
    sa.select(_length(shares.c.metadata)).where(_OF).scalar_subquery()
    + _OF_RULES.where(_OF).scalar_subquery()
    + _OF_LOCATIONS.where(_OF).scalar_subquery()
)
