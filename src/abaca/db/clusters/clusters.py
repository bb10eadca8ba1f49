# SPDX-License-Identifier: Apache-2.0
"""Clusters and their node groups."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import sqlalchemy as sa
from msgspec import structs
from sqlalchemy import exc

from abaca import errors
from abaca.db.engine import lists, moving
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import columns_of, planned_for_values
from abaca.db.journal import keys
from abaca.db.tables.clusters import CLUSTER_OF_ANY_PROJECT, cluster_nodes
from abaca.db.tables.clusters import cluster_node_groups as g
from abaca.db.tables.clusters import clusters as t
from abaca.domain.clusters.clusters import CLUSTER, Cluster, NodeGroup, Selector, WantedShare
from abaca.domain.ids import new_id

CLUSTERS = lists.Listing(
    t,
    filters={
        "project_id": lists.steady(lists.equal(t.c.project_id)),
        "name": lists.equal(t.c.name),
        "status": lists.equal(t.c.status),
        "id_prefix": lists.begins(t.c.id),
    },
    # opens the index over all projects (db/tables)
    unless=(frozenset({"id", "project_id"}), CLUSTER_OF_ANY_PROJECT),
)
STATUS = moving.Mover(t.c.status, "Cluster")
_KEY = "cluster"
_NEW: dict[str, object] = {
    "wanted": "present",
    "is_forced": False,
    "told": None,
    "looked_at": None,
    "error_code": None,
    "error_text": None,
    "attempts": 0,
    "retry_at": None,
    "updated_at": None,
}


def add(tx: Tx, values: Mapping[str, object]) -> str:
    """A new cluster, `creating`; its id. Raises `Conflict` when its project has one of that name."""
    row = {**_NEW, "id": new_id(), **values, "created_at": tx.now}
    if not moving.add(tx, t, row, {"status": "create"}, unless_taken=True):
        raise _taken(values["name"])
    return str(row["id"])


def update(tx: Tx, cluster_id: str, values: Mapping[str, object]) -> None:
    """Change anything but the status. Raises `Conflict` for a name that the project has already."""
    try:
        tx.change(t, cluster_id, values)
    except exc.IntegrityError:
        raise _taken(values["name"]) from None


def note_look(tx: Tx, cluster_id: str) -> None:
    """Its selectors have been compared with the servers there are."""
    tx.execute(_NOTE_LOOK, {"cluster": cluster_id, "now": tx.now})


_NOTE_LOOK = sa.update(t).where(t.c.id == sa.bindparam("cluster")).values(looked_at=sa.bindparam("now"))


class NameTaken(errors.Conflict):
    """The project has a {what} called {name} already; choose another name."""

    code = "NameTaken"


def _taken(name: object) -> NameTaken:
    return NameTaken(what="cluster", name=name)


def hold(tx: Tx, cluster_id: str) -> Cluster | None:
    """A cluster, locked until this transaction ends, or None."""
    tx.rows(_HOLD, {"cluster": cluster_id})
    return show(tx, cluster_id)


_HOLD = sa.select(t.c.id).where(t.c.id == sa.bindparam("cluster")).with_for_update()


def show(tx: Tx, cluster_id: str) -> Cluster | None:
    """One cluster, or None. Who may see it is the caller's business."""
    return next(iter(_entities(tx.entities(Cluster, _SHOW, {"cluster": cluster_id}))), None)


def page(tx: Tx, asked: Mapping[str, object], wanted: lists.Page) -> list[Cluster]:
    """Those that meet all conditions, in order."""
    return _entities(CLUSTERS.entities(tx, Cluster, asked, wanted))


def _entities(found: Iterable[Cluster]) -> list[Cluster]:
    return [structs.replace(one, shares=msgspec.convert(one.shares, list[WantedShare])) for one in found]


_CLUSTERS = sa.select(*columns_of(Cluster, t))
_SHOW = _CLUSTERS.where(t.c.id == sa.bindparam("cluster"))


def remove(tx: Tx, cluster_id: str) -> bool:
    """`deleted`: the row goes with its groups and nodes; False where it is not `deleting`."""
    return tx.execute(_REMOVE, {"cluster": cluster_id}).rowcount == 1


_REMOVE = sa.delete(t).where(t.c.id == sa.bindparam("cluster"), t.c.status == "deleting")


def key(cluster_id: str) -> str:
    """Under which its operations run one after another."""
    return keys.key(_KEY, cluster_id)


# ---------------------------------------------------------------- node groups


def add_group(tx: Tx, cluster_id: str, group: NodeGroup) -> None:
    """A node group more."""
    tx.execute(sa.insert(g), {**_of_group(group), "id": group.id, "cluster_id": cluster_id, "created_at": tx.now})


def update_group(tx: Tx, group: NodeGroup) -> None:
    """What a group wants from now on."""
    tx.execute(sa.update(g).where(g.c.id == group.id).values(**_of_group(group)))


def _of_group(group: NodeGroup) -> dict[str, object]:
    return {
        "name": group.name,
        "shares": msgspec.to_builtins(group.shares),
        "selector": msgspec.to_builtins(group.selector),
        "count": group.count,
        "told": group.told,
    }


def let_group_go(tx: Tx, group_id: str) -> None:
    """A group shall be none of its cluster's any more: it goes when its nodes are gone, and is shown to nobody."""
    tx.execute(sa.update(g).where(g.c.id == group_id).values(is_leaving=True))


def sweep_groups(tx: Tx, cluster_id: str) -> None:
    """Those go that shall, and that have no node left."""
    tx.execute(_SWEEP_GROUPS, {"cluster": cluster_id})


_HAS_NODES = sa.exists().where(cluster_nodes.c.node_group_id == g.c.id)
_SWEEP_GROUPS = sa.delete(g).where(g.c.cluster_id == sa.bindparam("cluster"), g.c.is_leaving.is_(True), ~_HAS_NODES)


def leaving_groups(tx: Tx, cluster_id: str) -> set[str]:
    """The names of the node groups that are on their way out."""
    return {str(row.name) for row in tx.rows(_LEAVING_GROUPS, {"cluster": cluster_id})}


_LEAVING_GROUPS = sa.select(g.c.name).where(g.c.cluster_id == sa.bindparam("cluster"), g.c.is_leaving.is_(True))


def groups(tx: Tx, cluster_id: str) -> list[NodeGroup]:
    """The node groups of a cluster, by name; those that leave it are none of them."""
    return [_group(one) for one in tx.entities(NodeGroup, _GROUPS, {"cluster": cluster_id})]


def groups_of(tx: Tx, cluster_ids: Sequence[str]) -> dict[str, list[NodeGroup]]:
    """Those of some clusters, each by name."""
    found: dict[str, list[NodeGroup]] = {}
    if cluster_ids:
        for one in tx.entities(NodeGroup, _ALL_GROUPS.where(g.c.cluster_id.in_(list(cluster_ids)))):
            found.setdefault(one.cluster_id, []).append(_group(one))
    return found


def _group(row: NodeGroup) -> NodeGroup:
    return structs.replace(
        row,
        shares=msgspec.convert(row.shares, list[WantedShare]),
        selector=msgspec.convert(row.selector, Selector),
    )


_ALL_GROUPS = sa.select(*columns_of(NodeGroup, g)).where(g.c.is_leaving.is_(False)).order_by(g.c.name)
_GROUPS = _ALL_GROUPS.where(g.c.cluster_id == sa.bindparam("cluster"))


def new_group(name: str, shares: Sequence[WantedShare], selector: Selector, count: int | None) -> NodeGroup:
    """A group that is not written down yet."""
    return NodeGroup(new_id(), "", name, list(shares), selector, count, None)


# ---------------------------------------------------------------- by what they want


class Wanting(msgspec.Struct, frozen=True, gc=False):
    """A cluster that wants a share on its nodes, however many it has."""

    id: str
    name: str


def wanting(tx: Tx, project_id: str, share_id: str, most: int) -> list[Wanting]:
    """Up to `most` clusters of the project that want the share on nodes; it looks through those of the project."""
    asked = {"project": project_id, "share": f'%"{share_id}"%', "most": most}
    return tx.entities(Wanting, _WANTING, asked)


def _names(shares: sa.Column[object]) -> sa.ColumnElement[bool]:
    return sa.cast(shares, sa.Text()).like(sa.bindparam("share", type_=sa.Text()))


_OF_ONE = sa.and_(g.c.cluster_id == t.c.id, g.c.is_leaving.is_(False))
_WANTING = (
    sa.select(t.c.id, t.c.name)
    .where(
        t.c.project_id == sa.bindparam("project"),
        sa.or_(_names(t.c.shares), sa.exists().where(_OF_ONE, _names(g.c.shares))),
    )
    .order_by(t.c.created_at, t.c.id)
    .limit(sa.bindparam("most"))
)


# ---------------------------------------------------------------- what the reconciler looks for


def to_look_at(tx: Tx, since: datetime.datetime, most: int) -> list[Cluster]:
    """Those with selectors that were not compared with the servers there are since then, and rest."""
    return _entities(tx.entities(Cluster, _TO_LOOK_AT, {"since": since, "most": most}))


_TO_LOOK_AT = planned_for_values(
    _CLUSTERS.where(
        t.c.looked_at < sa.bindparam("since"),
        t.c.wanted == "present",
        t.c.status.in_(("active", "error")),
    )
    .order_by(t.c.looked_at)
    .limit(sa.bindparam("most"))
)


def due(tx: Tx, most: int) -> list[Cluster]:
    """Those whose next try has come, the longest due first."""
    return _entities(tx.entities(Cluster, _DUE, {"at": tx.now, "most": most}))


_DUE = planned_for_values(
    _CLUSTERS.where(t.c.retry_at <= sa.bindparam("at")).order_by(t.c.retry_at).limit(sa.bindparam("most"))
)


def look_soon(tx: Tx, cluster_id: str, *, is_news: bool) -> None:
    """It is judged anew soon: what is wrong with it may have passed, or (`is_news`) something has just become wrong."""
    statement = sa.update(t).where(t.c.id == cluster_id, t.c.status.in_(("active", "error")))
    statement = statement.where(t.c.retry_at.is_(None) if is_news else t.c.retry_at.is_not(None))
    tx.execute(statement.values(retry_at=tx.now))


def unexplained(tx: Tx, most: int) -> list[Cluster]:
    """Busy ones without a live operation."""
    return _entities(tx.entities(Cluster, _UNEXPLAINED, {"most": most}))


_UNEXPLAINED = planned_for_values(
    _CLUSTERS.where(t.c.status.in_(sorted(CLUSTER.busy)), ~keys.is_held(_KEY, t.c.id))
    .order_by(t.c.id)
    .limit(sa.bindparam("most"))
)
