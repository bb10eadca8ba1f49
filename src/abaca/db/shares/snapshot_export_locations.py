# SPDX-License-Identifier: Apache-2.0
"""Where snapshots can be mounted from. A location keeps its id as long as its path stays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import sqlalchemy as sa

from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Column, Row, columns_of
from abaca.db.tables.shares import snapshot_export_locations as t
from abaca.db.tables.shares import snapshot_instances
from abaca.domain.ids import new_id
from abaca.domain.shares.export_locations import Export

_COLUMNS: dict[str, Column] = {
    **{column.name: column for column in t.c},
    "share_snapshot_instance_id": t.c.snapshot_instance_id,
}


class SnapshotExport(msgspec.Struct, frozen=True, gc=False):
    """A place where a snapshot instance, of a share instance, can be mounted from."""

    snapshot_instance_id: str
    share_instance_id: str
    path: str
    is_admin_only: bool
    preferred: bool


def replace(tx: Tx, snapshot_instance_id: str, exports: Sequence[Export]) -> None:
    """Make these the whole set of an instance."""
    wanted = {export.path: export for export in exports}
    rows = tx.rows(_OF_INSTANCE, {"of_instance": snapshot_instance_id})
    known = {row.path: row for row in rows if row.path in wanted and _is_same(row, wanted[row.path])}
    gone = [row.id for row in rows if row.path not in known]
    if gone:
        tx.execute(_REMOVE, {"locations": gone})
    new = [
        {
            "id": new_id(),
            "snapshot_instance_id": snapshot_instance_id,
            "path": path,
            "is_admin_only": export.is_admin_only,
            "preferred": export.preferred,
            "created_at": tx.now,
            "updated_at": None,
        }
        for path, export in wanted.items()
        if path not in known
    ]
    if new:
        tx.execute(_ADD, new)


def _is_same(row: Row, export: Export) -> bool:
    return (row.is_admin_only, row.preferred) == (export.is_admin_only, export.preferred)


_SEEN = (t.c.id, t.c.path, t.c.is_admin_only, t.c.preferred)
_OF_INSTANCE = sa.select(*_SEEN).where(t.c.snapshot_instance_id == sa.bindparam("of_instance"))
_REMOVE = sa.delete(t).where(t.c.id.in_(sa.bindparam("locations", expanding=True)))
_ADD = sa.insert(t).inline()


def of_share_instances(
    tx: Tx, share_instance_ids: Iterable[str]
) -> Mapping[str, Mapping[str, Sequence[SnapshotExport]]]:
    """By share instance, and by snapshot instance, where those snapshots can be mounted from that can be."""
    found: dict[str, dict[str, list[SnapshotExport]]] = {}
    for one in tx.entities(SnapshotExport, _OF_MANY, {"instances": list(share_instance_ids)}):
        found.setdefault(one.share_instance_id, {}).setdefault(one.snapshot_instance_id, []).append(one)
    return found


_OF_MANY = (
    sa.select(*columns_of(SnapshotExport, t, snapshot_instances))
    .join(snapshot_instances, snapshot_instances.c.id == t.c.snapshot_instance_id)
    .where(snapshot_instances.c.share_instance_id.in_(sa.bindparam("instances", expanding=True)))
    .order_by(t.c.path)
)


def listed(tx: Tx, names: tuple[str, ...], *, with_admin_only: bool, **of: str) -> Sequence[Row]:
    """The locations of a snapshot or an instance, by `snapshot_id` or `snapshot_instance_id`, or the one of an `id`."""
    statement = (
        sa.select(*(_COLUMNS[name].label(name) for name in names))
        .select_from(t)
        .join(snapshot_instances, snapshot_instances.c.id == t.c.snapshot_instance_id)
        .order_by(t.c.is_admin_only.desc(), t.c.path)
    )
    for column, value in of.items():
        statement = statement.where((snapshot_instances if column == "snapshot_id" else t).c[column] == value)
    return tx.rows(statement if with_admin_only else statement.where(t.c.is_admin_only.is_(False)))
