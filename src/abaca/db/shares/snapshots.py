# SPDX-License-Identifier: Apache-2.0
"""Snapshots as users see them: a snapshot's row joined with the one instance that speaks for it, in one statement."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import sqlalchemy as sa

from abaca import errors
from abaca.db.engine import lists
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Column, Row, columns_of
from abaca.db.journal import keys
from abaca.db.tables.shares import SNAPSHOT_OF_ANY_PROJECT, shares, snapshot_instances
from abaca.db.tables.shares import snapshots as t
from abaca.domain import metadata
from abaca.domain.shares.snapshots import Snapshot

# What operations on a snapshot hold: keys of this kind.
KEY = "snapshot"

_better = snapshot_instances.alias("better_snapshot")
_speaks = sa.and_(
    snapshot_instances.c.snapshot_id == t.c.id,
    ~sa.exists().where(
        _better.c.snapshot_id == t.c.id,
        sa.tuple_(_better.c.status_rank, _better.c.id)
        < sa.tuple_(snapshot_instances.c.status_rank, snapshot_instances.c.id),
    ),
)
_COLUMNS: dict[str, Column] = {
    **{column.name: column for column in t.c},
    "instance_id": snapshot_instances.c.id,
    "status": snapshot_instances.c.status,
    "provider_location": snapshot_instances.c.provider_location,
}
_made_from = sa.exists().where(shares.c.snapshot_id == t.c.id)
_USED = {"used": _made_from, "unused": ~_made_from, "any": sa.true()}

SNAPSHOTS = lists.Listing(
    t.join(snapshot_instances, _speaks),
    columns=_COLUMNS,
    filters={
        "project_id": lists.steady(lists.equal(t.c.project_id)),
        "share_id": lists.steady(lists.equal(t.c.share_id)),
        **{name: lists.equal(_COLUMNS[name]) for name in ("name", "description", "size", "status")},
        "id_prefix": lists.begins(t.c.id),
        "name_like": lists.contains(t.c.name),
        "description_like": lists.contains(t.c.description),
        "metadata": lists.has_pairs(t.c.metadata),
        # whether any share was made from it
        "usage": lists.Filter(lambda _, said: _USED[said], shape=str, bind=lambda _name, _value: {}),
    },
    sorts={
        "created_at": ("created_at", "id"),
        "id": ("id",),
        "project_id": ("project_id", "created_at", "id"),
        "share_id": ("share_id", "created_at", "id"),
        "name": ("name", "created_at", "id"),
        "size": ("size", "created_at", "id"),
        "updated_at": ("updated_at", "id"),
        # of the instance that speaks: what a project has is sorted
        "status": ("status", "instance_id"),
    },
    # opens the index over all projects (db/tables)
    unless=(frozenset({"id", "project_id", "share_id"}), SNAPSHOT_OF_ANY_PROJECT),
    unindexed=lists.Unindexed(
        ("usage",),
        on_sqlite=("share_id", "description", "status", "name_like", "description_like", "metadata"),
    ),
)


def find(tx: Tx, snapshot_id: str) -> Snapshot | None:
    """One snapshot, or None. Who may see it is the caller's business."""
    return SNAPSHOTS.entity(tx, Snapshot, {"id": snapshot_id})


def show(tx: Tx, snapshot_id: str, names: tuple[str, ...]) -> Row | None:
    """The same as the columns `names`, for a view."""
    return SNAPSHOTS.one(tx, names, {"id": snapshot_id})


def add(tx: Tx, values: Mapping[str, object]) -> None:
    """A new snapshot's row."""
    tx.add(t, {"created_at": tx.now, **values})


def update(tx: Tx, snapshot_id: str, values: Mapping[str, object]) -> None:
    """Change what its user may change; never a state."""
    tx.change(t, snapshot_id, values)


def metadata_for_update(tx: Tx, snapshot_id: str) -> dict[str, str]:
    """The snapshot's metadata, with its row locked until this transaction ends. Raises `NotFound`."""
    row = tx.row(_METADATA_FOR_UPDATE, {"snapshot": snapshot_id})
    if row is None:
        raise errors.NotFound(resource="Snapshot", id=snapshot_id)
    return dict(row.metadata)


_METADATA_FOR_UPDATE = sa.select(t.c.metadata).where(t.c.id == sa.bindparam("snapshot")).with_for_update()


class OfShare(msgspec.Struct, frozen=True, gc=False):
    """One snapshot of a share."""

    id: str


def of_share(tx: Tx, share_id: str, most: int) -> list[OfShare]:
    """Up to `most` snapshots of a share, the newest first. What locks the share keeps that so."""
    return tx.entities(OfShare, _OF_SHARE, {"of_share": share_id, "most": most})


_OF_SHARE = (
    sa.select(*columns_of(OfShare, t))
    .where(t.c.share_id == sa.bindparam("of_share"))
    .order_by(t.c.created_at.desc(), t.c.id.desc())
    .limit(sa.bindparam("most"))
)


def lock_of_share(tx: Tx, share_id: str) -> None:
    """Nobody else changes the snapshots of a share, or who may mount them, until this transaction ends."""
    for statement in (_LOCK_INSTANCES, _LOCK):
        tx.rows(statement, {"of_share": share_id})


_IS_OF_SHARE = t.c.share_id == sa.bindparam("of_share")
_LOCK = sa.select(t.c.id).where(_IS_OF_SHARE).order_by(t.c.id).with_for_update()
# before the snapshots, as whoever takes one away does it
_LOCK_INSTANCES = (
    sa.select(snapshot_instances.c.id)
    .where(snapshot_instances.c.snapshot_id.in_(sa.select(t.c.id).where(_IS_OF_SHARE)))
    .order_by(snapshot_instances.c.id)
    .with_for_update()
)


class Unsettled(msgspec.Struct, frozen=True, gc=False):
    """A snapshot that is not available, or that an operation works with."""

    id: str
    status: str


def unsettled(tx: Tx, share_id: str, most: int) -> list[Unsettled]:
    """Up to `most` such snapshots of a share."""
    return tx.entities(Unsettled, _UNSETTLED, {"of_share": share_id, "most": most})


_UNSETTLED = (
    sa.select(t.c.id, snapshot_instances.c.status)
    .join(snapshot_instances, snapshot_instances.c.snapshot_id == t.c.id)
    .where(
        _IS_OF_SHARE,
        sa.or_(snapshot_instances.c.status != sa.literal_column("'available'"), keys.is_held(KEY, t.c.id)),
    )
    .order_by(t.c.created_at, t.c.id)
    .limit(sa.bindparam("most"))
)


def give_to(tx: Tx, share_id: str, project_id: str, user_id: str) -> None:
    """A share's snapshots are that project's from now on."""
    whose = {"project_id": project_id, "user_id": user_id, "updated_at": tx.now}
    tx.execute(sa.update(t).where(t.c.share_id == share_id).values(whose))


class Counted(msgspec.Struct, frozen=True, gc=False):
    """How many snapshots of a share one user has, and their GiB."""

    user_id: str | None
    number: int
    size_gib: int


def counted(tx: Tx, share_id: str) -> list[Counted]:
    """Whose the snapshots of a share are."""
    return tx.entities(Counted, _COUNTED, {"of_share": share_id})


_COUNTED = (
    sa.select(t.c.user_id, sa.func.count().label("number"), sa.func.sum(t.c.size).label("size_gib"))
    .where(t.c.share_id == sa.bindparam("of_share"))
    .group_by(t.c.user_id)
    .order_by(t.c.user_id)
)


def delete(tx: Tx, snapshot_id: str) -> int:
    """The snapshot's row; how many characters of metadata go with it. Its instances must be gone."""
    return sum(metadata.characters(row.metadata) for row in tx.rows(_DELETE, {"snapshot": snapshot_id}))


_DELETE = sa.delete(t).where(t.c.id == sa.bindparam("snapshot")).returning(t.c.metadata)
