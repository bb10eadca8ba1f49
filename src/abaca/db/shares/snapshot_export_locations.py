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


def replace_many(tx: Tx, wanted: Mapping[str, Sequence[Export]]) -> None:
    """Make these the whole sets of snapshot instances, by their ids; one that has gone meanwhile has none."""
    ids = sorted(wanted)
    for begin in range(0, len(ids), _AT_ONCE):
        there = [row.id for row in tx.rows(_HOLD, {"instances": ids[begin : begin + _AT_ONCE]})]
        if there:
            _replace(tx, {id: {export.path: export for export in wanted[id]} for id in there})


_AT_ONCE = 500


def _replace(tx: Tx, wanted: Mapping[str, Mapping[str, Export]]) -> None:
    known, gone = set(), []
    for row in tx.rows(_OF_INSTANCES, {"instances": list(wanted)}):
        export = wanted[row.snapshot_instance_id].get(row.path)
        if export is not None and (row.is_admin_only, row.preferred) == (export.is_admin_only, export.preferred):
            known.add((row.snapshot_instance_id, row.path))
        else:
            gone.append(row.id)
    if gone:
        tx.execute(_REMOVE, {"locations": gone})
    new = [
        {
            "id": new_id(),
            "snapshot_instance_id": instance_id,
            "path": path,
            "is_admin_only": export.is_admin_only,
            "preferred": export.preferred,
            "created_at": tx.now,
            "updated_at": None,
        }
        for instance_id, exports in wanted.items()
        for path, export in exports.items()
        if (instance_id, path) not in known
    ]
    if new:
        tx.execute(_ADD, new)


_HOLD = (
    sa.select(snapshot_instances.c.id)
    .where(snapshot_instances.c.id.in_(sa.bindparam("instances", expanding=True)))
    .order_by(snapshot_instances.c.id)
    .with_for_update()
)
_SEEN = (t.c.id, t.c.snapshot_instance_id, t.c.path, t.c.is_admin_only, t.c.preferred)
_OF_INSTANCES = sa.select(*_SEEN).where(t.c.snapshot_instance_id.in_(sa.bindparam("instances", expanding=True)))
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
