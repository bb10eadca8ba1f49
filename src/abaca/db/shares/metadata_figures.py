# SPDX-License-Identifier: Apache-2.0
"""How much metadata there is, as rows say it: what the counts of projects are compared with."""

from __future__ import annotations

import functools
from collections import Counter

import sqlalchemy as sa

from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Column, Select
from abaca.db.tables.shares import access_rules, export_locations, share_instances, shares, snapshots


def of_projects(tx: Tx, project_id: str | None = None) -> Counter[str]:
    """Characters of the metadata of all shares, rules, export locations and snapshots, by project; reads them all.

    With `project_id` only those of that project.
    """
    found: Counter[str] = Counter()
    for statement in _of_projects(tx.dialect):
        wanted = statement if project_id is None else statement.where(shares.c.project_id == project_id)
        for project, characters in tx.rows(wanted):
            found[project] += int(characters)
    return found


def of_share(tx: Tx, share_id: str) -> int:
    """The same of one share, its rules, locations and snapshots."""
    statements = _of_projects(tx.dialect)
    found = [tx.rows(one.where(shares.c.id == share_id)) for one in statements]
    return sum(int(characters) for rows in found for _, characters in rows)


@functools.cache
def _of_projects(dialect: str) -> tuple[Select, ...]:
    of_rules = access_rules.join(shares, shares.c.id == access_rules.c.share_id)
    of_locations = export_locations.join(
        share_instances, share_instances.c.id == export_locations.c.share_instance_id
    ).join(shares, shares.c.id == share_instances.c.share_id)
    return (
        _sums(dialect, shares, shares.c.metadata),
        _sums(dialect, of_rules, access_rules.c.metadata),
        _sums(dialect, of_locations, export_locations.c.metadata),
        _sums(dialect, snapshots.join(shares, shares.c.id == snapshots.c.share_id), snapshots.c.metadata),
    )


def _sums(dialect: str, rows: sa.FromClause, column: Column) -> Select:
    each = (sa.func.json_each_text if dialect == "postgresql" else sa.func.json_each)(column)
    pair = each.table_valued(sa.column("key", sa.Text()), sa.column("value", sa.Text()), name="pair")
    characters = sa.func.sum(sa.func.length(pair.c.key) + sa.func.length(pair.c.value))
    joined = sa.join(rows, pair, sa.true())
    return sa.select(shares.c.project_id, characters).select_from(joined).group_by(shares.c.project_id)
