# SPDX-License-Identifier: Apache-2.0
"""Share group types, and the projects that may use a private one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import exc

from abaca import errors
from abaca.db.engine import lists
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Row, joined
from abaca.db.tables.catalog import share_group_type_projects as projects_of
from abaca.db.tables.catalog import share_group_type_share_types as kinds
from abaca.db.tables.catalog import share_group_types as t
from abaca.domain.catalog.share_group_types import ShareGroupType
from abaca.domain.ids import new_id


def _open_to(project: str) -> sa.ColumnElement[bool]:
    allowed = sa.exists().where(
        projects_of.c.share_group_type_id == t.c.id,
        projects_of.c.project_id == sa.bindparam(project, type_=sa.String()),
    )
    return sa.or_(t.c.is_public, allowed)


GROUP_TYPES = lists.Listing(
    t,
    columns={
        **{column.name: column for column in t.c},
        "share_type_ids": sa.select(joined(kinds.c.share_type_id, " "))
        .where(kinds.c.share_group_type_id == t.c.id)
        .correlate(t)
        .scalar_subquery(),
    },
    filters={
        "name": lists.equal(t.c.name),
        "is_public": lists.equal(t.c.is_public),
        "group_specs": lists.has_pairs(t.c.group_specs),
        # the project that must be allowed to use it
        "open_to": lists.where(_open_to),
    },
    sorts=("name", "created_at", "id"),
)


def find(tx: Tx, type_id: str) -> ShareGroupType | None:
    """The type with this id, or None."""
    return GROUP_TYPES.entity(tx, ShareGroupType, {"id": type_id})


def create(tx: Tx, values: Mapping[str, object], share_type_ids: Iterable[str]) -> str:
    """The id of a new type. Raises Conflict when the name is taken."""
    type_id = new_id()
    try:
        tx.execute(sa.insert(t), {**values, "id": type_id, "created_at": tx.now})
    except exc.IntegrityError:
        raise errors.Conflict(f"There is a share group type called {values['name']} already.") from None
    rows = [{"share_group_type_id": type_id, "share_type_id": one} for one in share_type_ids]
    try:
        tx.execute(sa.insert(kinds), rows)
    except exc.IntegrityError:
        raise errors.NotFound("One of the share types has just been deleted.") from None
    return type_id


def specs_for_update(tx: Tx, type_id: str) -> dict[str, str] | None:
    """The group specs, with the row locked until the transaction ends; None when there is no such type."""
    row = tx.row(sa.select(t.c.group_specs).where(t.c.id == type_id).with_for_update())
    return None if row is None else dict(row[0])


def set_specs(tx: Tx, type_id: str, specs: Mapping[str, str]) -> None:
    """Make these its group specs."""
    tx.execute(sa.update(t).where(t.c.id == type_id).values(group_specs=dict(specs), updated_at=tx.now))


def delete(tx: Tx, type_id: str) -> bool:
    """Remove a type; False when there is none."""
    return tx.execute(sa.delete(t).where(t.c.id == type_id)).rowcount > 0


def projects(tx: Tx, type_id: str, names: tuple[str, ...]) -> Sequence[Row]:
    """The columns `names` (share_group_type_id, project_id) of each project that may use a private type."""
    listed = sa.select(*(projects_of.c[name] for name in names))
    by = projects_of.c.created_at, projects_of.c.project_id
    return tx.rows(listed.where(projects_of.c.share_group_type_id == type_id).order_by(*by))


def allow(tx: Tx, type_id: str, project_id: str) -> None:
    """Let a project use a private type. Raises Conflict when it may already."""
    values = {"share_group_type_id": type_id, "project_id": project_id, "created_at": tx.now}
    try:
        tx.execute(sa.insert(projects_of), values)
    except exc.IntegrityError:
        raise errors.Conflict(f"Project {project_id} may use share group type {type_id} already.") from None


def disallow(tx: Tx, type_id: str, project_id: str) -> bool:
    """Take the permission back; False when there was none."""
    gone = sa.delete(projects_of).where(
        projects_of.c.share_group_type_id == type_id, projects_of.c.project_id == project_id
    )
    return tx.execute(gone).rowcount > 0
