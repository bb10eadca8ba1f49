# SPDX-License-Identifier: Apache-2.0
"""Shares as users see them: a share's row joined with the one instance that speaks for it.

That instance is found inside the same query (no better one exists, by the ranks of domain/shares), so a list costs
one statement whatever the number of instances. Columns are asked for by name; only those are read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import msgspec
import sqlalchemy as sa

from abaca import errors
from abaca.db.catalog import share_types as share_type_rows
from abaca.db.engine import lists, moving, statements
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Column, Row, columns_of, joined, planned_for_values
from abaca.db.tables.catalog import share_types
from abaca.db.tables.shares import IN_RECYCLE_BIN, OF_ANY_PROJECT, export_locations, share_instances, shares
from abaca.domain import metadata
from abaca.domain.shares.shares import Share

_better = share_instances.alias("better")
_sibling = share_instances.alias("sibling")


_speaks = sa.and_(
    share_instances.c.share_id == shares.c.id,
    ~sa.exists().where(
        _better.c.share_id == shares.c.id,
        sa.tuple_(_better.c.status_rank, _better.c.id) < sa.tuple_(share_instances.c.status_rank, share_instances.c.id),
    ),
)

_exporting = share_instances.alias("exporting")


def _has_available(rules_status: str) -> sa.ColumnElement[bool]:
    """Whether an available instance of the share shows this of its rules."""
    return sa.exists().where(
        _sibling.c.share_id == shares.c.id,
        _sibling.c.status == sa.literal_column("'available'"),
        _sibling.c.access_rules_status == sa.literal_column(f"'{rules_status}'"),
    )


def _exports(*conditions: sa.ColumnElement[bool]) -> Column:
    """All paths of a share in one text, a line each: what versions before export locations were things show."""
    return (
        sa.select(joined(export_locations.c.path, "\n"))
        .join(_exporting, _exporting.c.id == export_locations.c.share_instance_id)
        .where(_exporting.c.share_id == shares.c.id, *conditions)
        .correlate(shares)
        .scalar_subquery()
    )


# Of replicas: what is wrong with the rules of any that is available, or else of that which speaks.
_worst_rules_status = sa.case(
    *((_has_available(status), sa.literal_column(f"'{status}'")) for status in ("error", "syncing", "active")),
    else_=share_instances.c.access_rules_status,
)
# What a share takes from its type when it is made, and keeps.
TRAITS = (
    "snapshot_support",
    "create_share_from_snapshot_support",
    "revert_to_snapshot_support",
    "mount_snapshot_support",
    "snapshot_inherit_share_access_support",
)
_SHOWN_OF_INSTANCE = (
    "status", "host", "availability_zone", "share_type_id", "share_network_id", "share_server_id", "progress",
)  # fmt: skip
COLUMNS: dict[str, Column] = {
    **{column.name: column for column in shares.c},
    "export_paths": _exports(export_locations.c.is_admin_only.is_(False)),
    "all_export_paths": _exports(),
    "instance_id": share_instances.c.id,
    "instance_statuses": sa.select(joined(_sibling.c.status, " "))
    .where(_sibling.c.share_id == shares.c.id)
    .correlate(shares)
    .scalar_subquery(),
    "access_rules_status": sa.case(
        (shares.c.replication_type.is_(None), share_instances.c.access_rules_status),
        else_=_worst_rules_status,
    ),
    **{name: share_instances.c[name] for name in _SHOWN_OF_INSTANCE},
    "share_type_name": share_types.c.name,
    "extra_specs": share_types.c.extra_specs,
    # most shares cannot have replicas, and are not looked at further
    "has_replicas": sa.case(
        (shares.c.replication_type.is_(None), sa.false()),
        else_=sa.exists().where(
            _sibling.c.share_id == shares.c.id,
            _sibling.c.id != share_instances.c.id,
            _sibling.c.replica_state.is_not(None),
        ),
    ),
}
# Each with the columns of its index (db/tables); the others have none.
_SORTS: dict[str, tuple[str, ...]] = {
    "created_at": ("created_at", "id"),
    "id": ("id",),
    "project_id": ("project_id", "created_at", "id"),
    "is_public": ("is_public", "created_at", "id"),
    "name": ("name", "created_at", "id"),
    "user_id": ("user_id", "created_at", "id"),
    "share_proto": ("share_proto", "created_at", "id"),
    "size": ("size", "id"),
    "updated_at": ("updated_at", "id"),
    # of the instance that speaks: what a project has is sorted
    "status": ("status", "instance_id"),
    "host": ("host", "instance_id"),
    **dict.fromkeys(("availability_zone", "share_type_id", "share_network_id", "snapshot_id"), ()),
}
_UNINDEXED = tuple(f"by {name}" for name, columns in _SORTS.items() if not columns)
_UNINDEXED_ON_SQLITE = (
    "description", "status", "share_type_id", "availability_zone", "extra_specs", "name_like", "description_like",
    "metadata", "is_soft_deleted",
)  # fmt: skip
# PostgreSQL takes the texts of a share and its place for independent, expects few, and sorts what has the text.
_TOGETHER = ("host", "name", "name_like", "description", "description_like")
# Other names under which clients ask for an order.
SORT_ALIASES = {
    "display_name": "name",
    "availability_zone_id": "availability_zone",
    "share_type": "share_type_id",
    "share_network": "share_network_id",
    "snapshot": "snapshot_id",
}

_EQUAL = (
    "name", "description", "status", "host", "share_server_id", "share_type_id", "snapshot_id", "share_network_id",
    "share_group_id", "encryption_key_ref", "availability_zone", "mount_point_name", "share_proto", "user_id",
)  # fmt: skip


def _with_export(column: str) -> lists.Filter:
    found = sa.select(share_instances.c.share_id).join(
        export_locations, export_locations.c.share_instance_id == share_instances.c.id
    )
    return lists.where(
        lambda name: shares.c.id.in_(found.where(export_locations.c[column] == sa.bindparam(name, type_=sa.String())))
    )


def _types_with(tx: Tx, pairs: Mapping[str, str]) -> list[str]:
    """The types are few and are found first, so that the plan for the shares knows how many have them."""
    found = share_type_rows.TYPES.rows(tx, ("id",), {"extra_specs": pairs})
    # where there is none, one that no share has: what is planned for nothing at all reads everything
    return [row.id for row in found] or [""]


SHARES = lists.Listing(
    # joins whose columns nobody asks for are dropped by the database itself
    shares.join(share_instances, _speaks).outerjoin(share_types, share_types.c.id == share_instances.c.share_type_id),
    columns=COLUMNS,
    filters={
        **{name: lists.equal(COLUMNS[name]) for name in _EQUAL},
        "project_id": lists.steady(lists.equal(shares.c.project_id)),
        "is_public": lists.flag(shares.c.is_public),
        "is_soft_deleted": lists.flag(shares.c.is_soft_deleted),
        "id_prefix": lists.begins(shares.c.id),
        "visible_to": lists.where(lambda name: sa.or_(shares.c.project_id == sa.bindparam(name), shares.c.is_public)),
        "name_like": lists.contains(shares.c.name),
        "description_like": lists.contains(shares.c.description),
        "metadata": lists.has_pairs(shares.c.metadata),
        "extra_specs": lists.one_of(share_instances.c.share_type_id)._replace(find=_types_with),
        "export_location_id": _with_export("id"),
        "export_location_path": _with_export("path"),
    },
    sorts=_SORTS,
    # opens the index over all projects (db/tables)
    unless=(frozenset({"id", "id_prefix", "project_id", "is_public"}), OF_ANY_PROJECT),
    unindexed=lists.Unindexed(_UNINDEXED, on_sqlite=_UNINDEXED_ON_SQLITE, together=_TOGETHER),
)


TASK_STATE = moving.Mover(shares.c.task_state, "Share")


def find(tx: Tx, share_id: str) -> Share | None:
    """One share, or None. Who may see it is the caller's business."""
    return SHARES.entity(tx, Share, {"id": share_id})


def is_encrypted_with(tx: Tx, project_id: str, key_ref: str, *, but: str) -> bool:
    """Whether a share of the project has that key, another one than `but`."""
    return tx.scalar(_IS_ENCRYPTED_WITH, {"project": project_id, "key_ref": key_ref, "but": but}) is not None


_IS_ENCRYPTED_WITH = (
    sa.select(shares.c.id)
    .where(
        shares.c.encryption_key_ref == sa.bindparam("key_ref"),
        shares.c.project_id == sa.bindparam("project"),
        shares.c.id != sa.bindparam("but"),
    )
    .limit(1)
)


class Size(msgspec.Struct, frozen=True, gc=False):
    """How large a share is, in GiB, whose it is, and its protocol."""

    id: str
    project_id: str
    size: int
    share_proto: str


def sizes(tx: Tx, share_ids: Sequence[str]) -> dict[str, Size]:
    """The sizes of some shares, by their ids."""
    return {one.id: one for one in tx.entities(Size, _SIZES, {"these": list(share_ids)})} if share_ids else {}


_SIZES = sa.select(*columns_of(Size, shares)).where(shares.c.id.in_(sa.bindparam("these", expanding=True)))


def show(tx: Tx, share_id: str, names: tuple[str, ...]) -> Row | None:
    """The same as the columns `names`, for a view."""
    return SHARES.one(tx, names, {"id": share_id})


def add(tx: Tx, values: Mapping[str, object]) -> Mapping[str, object]:
    """A new share's row; what it says."""
    row = {**_NEW, "created_at": tx.now, **values}
    tx.add(shares, row)
    return row


class ItsType(msgspec.Struct, frozen=True):
    """What a share shows of its type."""

    share_type_name: str | None
    extra_specs: Mapping[str, str] | None


def show_added(
    share: Mapping[str, object], instance: Mapping[str, object], its_type: ItsType, names: tuple[str, ...]
) -> Row:
    """The same as `show` of a share that this transaction has added, with one instance, without looking."""
    known = {
        **_OF_ADDED,
        **share,
        **{name: instance.get(name) for name in (*_SHOWN_OF_INSTANCE, "access_rules_status")},
        "instance_id": instance["id"],
        "instance_statuses": instance["status"],
        "share_type_name": its_type.share_type_name,
        "extra_specs": its_type.extra_specs,
    }
    return _maker(names)([known[name] for name in names])


@functools.lru_cache(maxsize=128)
def _maker(names: tuple[str, ...]) -> Callable[[Sequence[object]], Row]:
    return statements.maker(names)


_OF_ADDED: dict[str, object] = {**dict.fromkeys(COLUMNS), "has_replicas": False}


_NEW: dict[str, object] = {"metadata": {}, "is_public": False, "is_soft_deleted": False, **dict.fromkeys(TRAITS, False)}


def update(tx: Tx, share_id: str, values: Mapping[str, object]) -> None:
    """Change what the user or an operation may change; never a state."""
    tx.change(shares, share_id, values)


def metadata_for_update(tx: Tx, share_id: str) -> dict[str, str]:
    """The share's metadata, with its row locked until this transaction ends. Raises `NotFound`."""
    row = tx.row(_METADATA_FOR_UPDATE, {"share": share_id})
    if row is None:
        raise errors.NotFound(resource="Share", id=share_id)
    return dict(row.metadata)


_METADATA_FOR_UPDATE = sa.select(shares.c.metadata).where(shares.c.id == sa.bindparam("share")).with_for_update()


def lock(tx: Tx, share_id: str) -> None:
    """Nobody else changes the share, or adds anything to it, until this transaction ends."""
    tx.rows(_LOCK, {"share": share_id})


_LOCK = sa.select(shares.c.id).where(shares.c.id == sa.bindparam("share")).with_for_update()


def lock_many(tx: Tx, share_ids: Sequence[str]) -> None:
    """The same for many, in the order of their ids."""
    if share_ids:
        tx.rows(_LOCK_MANY, {"shares": share_ids})


_LOCK_MANY = (
    sa.select(shares.c.id)
    .where(shares.c.id.in_(sa.bindparam("shares", expanding=True)))
    .order_by(shares.c.id)
    .with_for_update()
)


class Pairs(msgspec.Struct, frozen=True, gc=False):
    """A share's metadata, and whose it is."""

    id: str
    project_id: str
    metadata: dict[str, str]


def pairs_for_update(tx: Tx, share_ids: Sequence[str]) -> list[Pairs]:
    """The metadata of those of these that are there, locked in the order of their ids until this transaction ends."""
    return tx.entities(Pairs, _PAIRS_FOR_UPDATE, {"shares": share_ids})


_PAIRS_FOR_UPDATE = (
    sa.select(*columns_of(Pairs, shares))
    .where(shares.c.id.in_(sa.bindparam("shares", expanding=True)))
    .order_by(shares.c.id)
    .with_for_update()
)


def set_metadata(tx: Tx, pairs: Mapping[str, Mapping[str, str]]) -> None:
    """Make these the metadata of shares that this transaction has locked."""
    if pairs:
        tx.execute(_SET_METADATA, [{"share": id, "pairs": new, "at": tx.now} for id, new in pairs.items()])


def merge_metadata(tx: Tx, more: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
    """Add pairs to the metadata of many shares; by id how many characters longer those are that have changed."""
    if not more:
        return {}
    statement = sa.select(shares.c.id, shares.c.metadata).where(shares.c.id.in_(list(more))).with_for_update()
    merged = [(row.id, row.metadata, {**row.metadata, **more[row.id]}) for row in tx.rows(statement)]
    set_metadata(tx, {id: new for id, old, new in merged if new != old})
    return {id: metadata.characters(new) - metadata.characters(old) for id, old, new in merged if new != old}


_SET_METADATA = (
    sa.update(shares)
    .where(shares.c.id == sa.bindparam("share"))
    .values(metadata=sa.bindparam("pairs", type_=sa.JSON), updated_at=sa.bindparam("at"))
)


def delete(tx: Tx, share_id: str) -> int:
    """The share's row; how many characters of metadata go with it. Its instances and rules must be gone."""
    return sum(metadata.characters(row.metadata) for row in tx.rows(_DELETE, {"share": share_id}))


_DELETE = sa.delete(shares).where(shares.c.id == sa.bindparam("share")).returning(shares.c.metadata)


class Expired(msgspec.Struct, frozen=True, gc=False):
    """A share whose time in the recycle bin is over, and the instance that speaks for it."""

    id: str
    instance_id: str


def expired(tx: Tx, host: str | None, most: int) -> list[Expired]:
    """Soft-deleted shares of the back end `host` (host@backend) whose time has come, or, for None, those of none.

    Their rows are locked until this transaction ends: whoever restores one was sooner, or comes too late.
    """
    here = {"start": "", "length": 0} if host is None else {"start": f"{host}#", "length": len(host) + 1}
    due = tx.rows(_DUE, {"until": tx.now, "most": most, "nowhere": host is None, **here})
    return tx.entities(Expired, _EXPIRED, {"until": tx.now, "due": [row.id for row in due]}) if due else []


_IS_EXPIRED = (
    # as the index says it
    IN_RECYCLE_BIN,
    shares.c.scheduled_to_be_deleted_at <= sa.bindparam("until"),
    # one that could not be deleted waits for somebody who has read why
    share_instances.c.status.not_in(("deleting", "error_deleting")),
)
_IS_THERE = sa.func.coalesce(
    sa.func.substr(share_instances.c.host, 1, sa.bindparam("length", type_=sa.Integer())) == sa.bindparam("start"),
    sa.bindparam("nowhere", type_=sa.Boolean()),
)
_DUE = planned_for_values(
    sa.select(shares.c.id)
    .select_from(shares.join(share_instances, _speaks))
    .where(*_IS_EXPIRED, _IS_THERE)
    .order_by(shares.c.scheduled_to_be_deleted_at)
    .limit(sa.bindparam("most"))
)
# in the order in which others lock these
_EXPIRED = (
    sa.select(*columns_of(Expired, shares, instance_id=share_instances.c.id))
    .select_from(shares.join(share_instances, _speaks))
    .where(shares.c.id.in_(sa.bindparam("due", expanding=True)), *_IS_EXPIRED)
    .order_by(shares.c.id)
    .with_for_update(of=shares)
)
