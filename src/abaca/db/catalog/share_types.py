# SPDX-License-Identifier: Apache-2.0
"""Share types, and the projects that may use a private one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import exc

from abaca import errors
from abaca.db.engine import lists
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Row
from abaca.db.tables.catalog import share_group_type_share_types, share_type_projects, share_types
from abaca.db.tables.shares import share_instances
from abaca.domain.catalog.share_types import ShareType
from abaca.domain.ids import new_id


def _open_to(project: str) -> sa.ColumnElement[bool]:
    allowed = sa.exists().where(
        share_type_projects.c.share_type_id == share_types.c.id,
        share_type_projects.c.project_id == sa.bindparam(project, type_=sa.String()),
    )
    return sa.or_(share_types.c.is_public, allowed)


def _called(name_or_id: str) -> sa.ColumnElement[bool]:
    said = sa.bindparam(name_or_id, type_=sa.String())
    return sa.or_(share_types.c.id == said, share_types.c.name == said)


TYPES = lists.Listing(
    share_types,
    filters={
        "name": lists.equal(share_types.c.name),
        "name_or_id": lists.where(_called),
        "is_public": lists.equal(share_types.c.is_public),
        "extra_specs": lists.has_pairs(share_types.c.extra_specs),
        # the project that must be allowed to use it
        "open_to": lists.where(_open_to),
    },
    sorts=("name", "created_at", "id"),
)


def show(tx: Tx, type_id: str) -> ShareType | None:
    """The type with this id, or None."""
    return TYPES.entity(tx, ShareType, {"id": type_id})


def find(tx: Tx, name_or_id: str, **asked: str) -> ShareType | None:
    """The type with this id, or else with this name, that meets the conditions of `TYPES` in `asked`."""
    found = TYPES.entities(tx, ShareType, {"name_or_id": name_or_id, **asked})
    return next((one for one in found if one.id == name_or_id), found[0] if found else None)


def create(tx: Tx, values: Mapping[str, object]) -> str:
    """The id of a new type. Raises Conflict when the name is taken."""
    type_id = new_id()
    try:
        tx.execute(sa.insert(share_types), {**values, "id": type_id, "created_at": tx.now})
    except exc.IntegrityError:
        raise errors.Conflict(f"There is a share type called {values['name']} already.") from None
    return type_id


def update(tx: Tx, type_id: str, values: Mapping[str, object]) -> None:
    """Change some columns. Raises Conflict when the new name is taken."""
    statement = sa.update(share_types).where(share_types.c.id == type_id)
    try:
        tx.execute(statement.values(**values, updated_at=tx.now))
    except exc.IntegrityError:
        raise errors.Conflict(f"There is a share type called {values['name']} already.") from None


def specs_for_update(tx: Tx, type_id: str) -> dict[str, str] | None:
    """The extra specs, with the row locked until the transaction ends; None when there is no such type."""
    row = tx.row(sa.select(share_types.c.extra_specs).where(share_types.c.id == type_id).with_for_update())
    return None if row is None else dict(row[0])


def delete(tx: Tx, type_id: str) -> bool:
    """Remove a type; False when there is none. Raises Invalid when shares have it."""
    used = sa.select(share_instances.c.id).where(share_instances.c.share_type_id == type_id).limit(1)
    if tx.row(used) is not None:
        raise errors.Invalid(f"Share type {type_id} is in use by shares; delete them or change their type first.")
    grouped = sa.select(share_group_type_share_types.c.share_group_type_id)
    of = tx.row(grouped.where(share_group_type_share_types.c.share_type_id == type_id).limit(1))
    if of is not None:
        raise errors.Invalid(f"Share type {type_id} is in use by share group type {of[0]}; delete that first.")
    try:
        return tx.execute(sa.delete(share_types).where(share_types.c.id == type_id)).rowcount > 0
    except exc.IntegrityError:
        raise errors.Invalid(f"Share type {type_id} has just been taken into use by a share.") from None


def projects(tx: Tx, type_id: str, names: tuple[str, ...]) -> Sequence[Row]:
    """The columns `names` (share_type_id, project_id) of each project that may use a private type."""
    by = share_type_projects.c.created_at, share_type_projects.c.project_id
    listed = sa.select(*(share_type_projects.c[name] for name in names)).order_by(*by)
    return tx.rows(listed.where(share_type_projects.c.share_type_id == type_id))


def allow(tx: Tx, type_id: str, project_id: str) -> None:
    """Let a project use a private type. Raises Conflict when it may already."""
    values = {"share_type_id": type_id, "project_id": project_id, "created_at": tx.now}
    try:
        tx.execute(sa.insert(share_type_projects), values)
    except exc.IntegrityError:
        raise errors.Conflict(f"Project {project_id} may use share type {type_id} already.") from None


def disallow(tx: Tx, type_id: str, project_id: str) -> bool:
    """Take the permission back; False when there was none."""
    gone = sa.delete(share_type_projects).where(
        share_type_projects.c.share_type_id == type_id, share_type_projects.c.project_id == project_id
    )
    return tx.execute(gone).rowcount > 0
