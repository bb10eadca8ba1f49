# SPDX-License-Identifier: Apache-2.0
"""Templates of clusters and of node groups, and images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import exc

from abaca.db.clusters.clusters import NameTaken
from abaca.db.engine import lists
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import columns_of
from abaca.db.tables.clusters import cluster_templates as t
from abaca.domain.clusters.templates import Kind, Template
from abaca.domain.ids import new_id

# Only ever of one kind and project.
TEMPLATES = lists.Listing(
    t,
    filters={
        "project_id": lists.steady(lists.equal(t.c.project_id)),
        "kind": lists.steady(lists.equal(t.c.kind)),
        "name": lists.steady(lists.equal(t.c.name)),
    },
)


def add(tx: Tx, values: Mapping[str, object]) -> str:
    """A new template; its id. Raises `NameTaken`."""
    row = {"id": new_id(), "updated_at": None, **values, "created_at": tx.now}
    try:
        tx.execute(sa.insert(t), row)
    except exc.IntegrityError:
        raise NameTaken(what="template", name=values["name"]) from None
    return str(row["id"])


def update(tx: Tx, template_id: str, values: Mapping[str, object]) -> None:
    """Change a template. Raises `NameTaken`."""
    try:
        tx.change(t, template_id, values)
    except exc.IntegrityError:
        raise NameTaken(what="template", name=values["name"]) from None


def hold(tx: Tx, kind: Kind, template_id: str) -> Template | None:
    """A template, locked until this transaction ends, or None."""
    tx.rows(_HOLD, {"template": template_id})
    return show(tx, kind, template_id)


_HOLD = sa.select(t.c.id).where(t.c.id == sa.bindparam("template")).with_for_update()


def show(tx: Tx, kind: Kind, template_id: str) -> Template | None:
    """One template, or None. Who may see it is the caller's business."""
    return next(iter(tx.entities(Template, _SHOW, {"template": template_id, "kind": kind})), None)


_TEMPLATES = sa.select(*columns_of(Template, t)).where(t.c.kind == sa.bindparam("kind"))
_SHOW = _TEMPLATES.where(t.c.id == sa.bindparam("template"))


def named(tx: Tx, project_id: str, kind: Kind, name: str) -> Template | None:
    """That of a name in a project, or None."""
    return tx.entity(Template, _NAMED, {"project": project_id, "kind": kind, "name": name})


_NAMED = _TEMPLATES.where(t.c.project_id == sa.bindparam("project"), t.c.name == sa.bindparam("name"))


def page(tx: Tx, asked: Mapping[str, object], wanted: lists.Page) -> Sequence[Template]:
    """Those that meet all conditions, in order."""
    return TEMPLATES.entities(tx, Template, asked, wanted)


def remove(tx: Tx, template_id: str) -> None:
    """A template is no more; clusters that were made of it stay as they are."""
    tx.execute(sa.delete(t).where(t.c.id == template_id))
