# SPDX-License-Identifier: Apache-2.0
"""Shares as users see them: a share's row joined with the one instance that speaks for it.

That instance is found inside the same query (no better one exists, by the ranks of domain/shares.py), so a list costs one
statement whatever the number of instances. Columns are asked for by name; only those are read.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from abaca.db.engine import Tx
from abaca.db.tables import export_locations, share_instances, share_types, shares
from abaca.domain import shares as domain

_better = share_instances.alias("better")
_sibling = share_instances.alias("sibling")


def _rank(table: Any) -> sa.ColumnElement[int]:
    whens = {status: rank for rank, status in enumerate(domain.STATUS_PREFERENCE)}
    whens |= {status: domain.status_rank(status) for status in domain.TRANSITIONAL if status not in whens}
    return sa.case(whens, value=table.c.status, else_=len(domain.STATUS_PREFERENCE))


_speaks = sa.and_(
    share_instances.c.share_id == shares.c.id,
    ~sa.exists().where(
        _better.c.share_id == shares.c.id,
        _better.c.id != share_instances.c.id,
        sa.or_(
            _rank(_better) < _rank(share_instances),
            sa.and_(_rank(_better) == _rank(share_instances), _better.c.id < share_instances.c.id),
        ),
    ),
)

COLUMNS: dict[str, sa.ColumnElement[Any]] = {
    **{column.name: column for column in shares.c},
    "instance_id": share_instances.c.id,
    **{
        name: share_instances.c[name]
        for name in (
            "status",
            "access_rules_status",
            "host",
            "availability_zone",
            "share_type_id",
            "share_network_id",
            "share_server_id",
            "progress",
        )
    },
    "share_type_name": share_types.c.name,
    "extra_specs": share_types.c.extra_specs,
    "has_replicas": sa.exists()
    .where(_sibling.c.share_id == shares.c.id, _sibling.c.id != share_instances.c.id, _sibling.c.replica_state.is_not(None)),
}
_OF_TYPE = {"share_type_name", "extra_specs"}

SORT_KEYS: dict[str, str] = {
    **{
        name: name
        for name in (
            "id", "status", "size", "host", "share_proto", "availability_zone", "user_id", "project_id", "created_at",
            "updated_at", "name", "share_type_id", "share_network_id", "snapshot_id", "is_public",
        )
    },
    "display_name": "name",
    "availability_zone_id": "availability_zone",
    "share_type": "share_type_id",
    "share_network": "share_network_id",
    "snapshot": "snapshot_id",
}  # fmt: skip

# Filters that compare a column with what was asked for.
EQUAL = (
    "name", "description", "status", "host", "share_server_id", "share_type_id", "snapshot_id", "share_network_id",
    "project_id", "share_group_id", "encryption_key_ref", "availability_zone", "mount_point_name", "is_soft_deleted",
    "is_public", "share_proto", "size", "user_id",
)  # fmt: skip
LIKE = ("name~", "description~")


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which shares, in which order. `project_id` None means every project's.

    `with_public` adds other projects' public shares. `equal` and `like` are pairs of filter and value.
    """

    project_id: str | None
    with_public: bool = False
    equal: tuple[tuple[str, Any], ...] = ()
    like: tuple[tuple[str, str], ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    extra_specs: tuple[tuple[str, str], ...] = ()
    export_location: tuple[str, str] | None = None
    sort_key: str = "created_at"
    descending: bool = True
    limit: int | None = None
    offset: int = 0


def _from(names: tuple[str, ...]) -> sa.FromClause:
    joined = shares.join(share_instances, _speaks)
    if _OF_TYPE & set(names):
        joined = joined.outerjoin(share_types, share_types.c.id == share_instances.c.share_type_id)
    return joined


@functools.lru_cache(maxsize=256)
def _one(names: tuple[str, ...]) -> sa.Select[Any]:
    return (
        sa.select(*[COLUMNS[name].label(name) for name in names])
        .select_from(_from(names))
        .where(shares.c.id == sa.bindparam("share"))
    )


def show(tx: Tx, share_id: str, names: tuple[str, ...]) -> sa.Row[Any] | None:
    """The columns `names` of one share, or None. Who may see it is the caller's business."""
    return tx.row(_one(names), {"share": share_id})


class _Shape(msgspec.Struct, frozen=True):
    """What decides the text of a list's SQL, apart from the values."""

    names: tuple[str, ...]
    in_project: bool
    with_public: bool
    equal: tuple[str, ...]
    like: tuple[str, ...]
    metadata: tuple[str, ...]
    extra_specs: tuple[str, ...]
    export_location: str | None
    sort_key: str
    descending: bool
    limited: bool
    counting: bool


@functools.lru_cache(maxsize=512)
def _list(shape: _Shape) -> sa.Select[Any]:
    names = (*shape.names, *shape.equal, *(("extra_specs",) if shape.extra_specs else ()))
    if shape.counting:
        statement = sa.select(sa.func.count()).select_from(_from(names))
    else:
        statement = sa.select(*[COLUMNS[name].label(name) for name in shape.names]).select_from(_from(names))
    statement = statement.where(*_conditions(shape))
    if shape.counting:
        return statement
    column = COLUMNS[SORT_KEYS[shape.sort_key]]
    order = (column.desc(), shares.c.id.desc()) if shape.descending else (column.asc(), shares.c.id.asc())
    statement = statement.order_by(*order)
    if shape.limited:
        statement = statement.limit(sa.bindparam("p_limit")).offset(sa.bindparam("p_offset"))
    return statement


def _conditions(shape: _Shape) -> list[sa.ColumnElement[bool]]:
    found: list[sa.ColumnElement[bool]] = []
    if shape.in_project:
        mine = shares.c.project_id == sa.bindparam("p_project")
        found.append(sa.or_(mine, shares.c.is_public.is_(True)) if shape.with_public else mine)
    found += [COLUMNS[name] == sa.bindparam(f"e_{name}") for name in shape.equal]
    found += [COLUMNS[name.rstrip("~")].ilike(sa.bindparam(f"l_{name[:-1]}"), escape="\\") for name in shape.like]
    for i, key in enumerate(shape.metadata):
        found.append(shares.c.metadata[key].as_string() == sa.bindparam(f"m_{i}"))
    for i, key in enumerate(shape.extra_specs):
        found.append(share_types.c.extra_specs[key].as_string() == sa.bindparam(f"x_{i}"))
    if shape.export_location:
        of_any = sa.select(share_instances.c.share_id).join(
            export_locations, export_locations.c.share_instance_id == share_instances.c.id
        )
        found.append(shares.c.id.in_(of_any.where(export_locations.c[shape.export_location] == sa.bindparam("p_export"))))
    return found


def _shape(names: tuple[str, ...], query: Query, *, counting: bool) -> _Shape:
    return _Shape(
        names=names,
        in_project=query.project_id is not None,
        with_public=query.with_public,
        equal=tuple(name for name, _ in query.equal),
        like=tuple(name for name, _ in query.like),
        metadata=tuple(key for key, _ in query.metadata),
        extra_specs=tuple(key for key, _ in query.extra_specs),
        export_location=query.export_location[0] if query.export_location else None,
        sort_key=query.sort_key,
        descending=query.descending,
        limited=query.limit is not None,
        counting=counting,
    )


def _values(query: Query, *, counting: bool) -> dict[str, Any]:
    values: dict[str, Any] = {f"e_{name}": value for name, value in query.equal}
    values |= {f"l_{name[:-1]}": f"%{_escaped(value)}%" for name, value in query.like}
    values |= {f"m_{i}": value for i, (_, value) in enumerate(query.metadata)}
    values |= {f"x_{i}": value for i, (_, value) in enumerate(query.extra_specs)}
    if query.project_id is not None:
        values["p_project"] = query.project_id
    if query.export_location:
        values["p_export"] = query.export_location[1]
    if query.limit is not None and not counting:
        values |= {"p_limit": query.limit, "p_offset": query.offset}
    return values


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def find(tx: Tx, query: Query, names: tuple[str, ...]) -> Sequence[sa.Row[Any]]:
    """The columns `names` of the shares that match, in order."""
    return tx.rows(_list(_shape(names, query, counting=False)), _values(query, counting=False))


def count(tx: Tx, query: Query) -> int:
    """How many match, whatever the page."""
    return int(tx.scalar(_list(_shape((), query, counting=True)), _values(query, counting=True)))


def add(tx: Tx, values: Mapping[str, Any]) -> None:
    """A new share's row."""
    tx.execute(_ADD, {**_NEW, "created_at": tx.now, **values})


_NEW: dict[str, Any] = {
    "metadata": {},
    "is_public": False,
    "is_soft_deleted": False,
    "snapshot_support": False,
    "create_share_from_snapshot_support": False,
    "revert_to_snapshot_support": False,
    "mount_snapshot_support": False,
    "snapshot_inherit_share_access_support": False,
}
_ADD = sa.insert(shares).inline()


def update(tx: Tx, share_id: str, values: Mapping[str, Any]) -> None:
    """Change what the user or an operation may change; never a status."""
    tx.execute(sa.update(shares).where(shares.c.id == share_id).values(updated_at=tx.now, **values))


def metadata_for_update(tx: Tx, share_id: str) -> dict[str, str]:
    """The share's metadata, with its row locked until this transaction ends."""
    statement = sa.select(shares.c.metadata).where(shares.c.id == share_id).with_for_update()
    return dict(tx.scalar(statement) or {})


def delete(tx: Tx, share_id: str) -> None:
    """The share's row, its rules with it. Its instances must be gone."""
    tx.execute(sa.delete(shares).where(shares.c.id == share_id))


def expired(tx: Tx, host: str, most: int) -> Sequence[sa.Row[Any]]:
    """Soft-deleted shares of the back end `host` (host@backend) whose time has come."""
    statement = (
        sa.select(shares, share_instances.c.id.label("instance_id"), share_instances.c.host)
        .join(share_instances, share_instances.c.share_id == shares.c.id)
        .where(
            shares.c.is_soft_deleted.is_(True),
            shares.c.scheduled_to_be_deleted_at <= tx.now,
            share_instances.c.host.startswith(host + "#", autoescape=True),
        )
        .limit(most)
    )
    return tx.rows(statement)
