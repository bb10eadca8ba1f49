# SPDX-License-Identifier: Apache-2.0
"""The nodes of clusters: which servers, and how what is wanted there differs from what is attached.

The database compares: what a cluster of very many nodes costs is what has changed of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec
import sqlalchemy as sa

from abaca.db.attachments.attachments import AGES_AGO
from abaca.db.engine import lists
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Select, columns_of
from abaca.db.tables.attachments import attachments as a
from abaca.db.tables.attachments import servers
from abaca.db.tables.clusters import cluster_nodes as t
from abaca.db.tables.clusters import clusters
from abaca.domain.attachments.attachments import ATTACHMENT, Attachment
from abaca.domain.clusters.clusters import RANKS, Node, WantedShare
from abaca.domain.ids import new_id

NODES = lists.Listing(
    # a join whose columns nobody asks for is dropped by the database itself
    t.outerjoin(servers, servers.c.id == t.c.server_id),
    columns={**{column.name: column for column in t.c}, "server_name": servers.c.name},
    filters={
        "cluster_id": lists.steady(lists.equal(t.c.cluster_id)),
        # one may have all nodes of its cluster, or one of ten thousand
        "node_group_id": lists.equal(t.c.node_group_id),
        "server_id": lists.steady(lists.equal(t.c.server_id)),
    },
)
# So many are named in one statement.
AT_ONCE = 500
# So many of a cluster may end at the same moment.
FEW = 64
Only = Sequence[str] | None
"""Servers that alone are looked at, `AT_ONCE` at most; None: all."""


class Count(msgspec.Struct, frozen=True, gc=False):
    """So many nodes of a group have so many attachments of the cluster, of which the worst has that rank."""

    node_group_id: str
    is_leaving: bool
    is_refused: bool
    had: int
    worst: int | None
    number: int


class Problem(msgspec.Struct, frozen=True, gc=False):
    """What keeps a node: the error of an attachment there, or why there is none."""

    server_id: str
    state: str | None
    error_text: str | None
    refusals: dict[str, str]


def add(tx: Tx, cluster_id: str, group_id: str, server_ids: Collection[str]) -> None:
    """Servers become nodes of a group; those that were leaving, or in another group, are so no more."""
    known = {row.server_id for row in _rows_among(tx, cluster_id, server_ids)}
    again = [one for one in server_ids if one in known]
    for part in _parts(again):
        named = t.c.server_id.in_(part)
        values = {"is_leaving": False, "node_group_id": group_id, "refusals": {}}
        tx.execute(sa.update(t).where(t.c.cluster_id == cluster_id, named).values(values))
    rows = [
        {
            "id": new_id(),
            "cluster_id": cluster_id,
            "node_group_id": group_id,
            "server_id": one,
            "is_leaving": False,
            "refusals": {},
            "created_at": tx.now,
        }
        for one in dict.fromkeys(server_ids)
        if one not in known
    ]
    if rows:
        tx.execute(sa.insert(t).inline(), rows)


def let_go(tx: Tx, cluster_id: str, server_ids: Collection[str]) -> None:
    """Servers shall be nodes no more."""
    for part in _parts(list(server_ids)):
        tx.execute(sa.update(t).where(t.c.cluster_id == cluster_id, t.c.server_id.in_(part)).values(is_leaving=True))


def let_group_go(tx: Tx, group_id: str) -> None:
    """The servers of a group shall be nodes no more."""
    tx.execute(sa.update(t).where(t.c.node_group_id == group_id).values(is_leaving=True))


def sweep(tx: Tx, cluster_id: str, only: Only = None) -> None:
    """Those go that were leaving, and on which nothing of the cluster is any more."""
    tx.execute(_among(_SWEEP, only), {"cluster": cluster_id})


_HAS_ANY = sa.exists().where(a.c.cluster_id == t.c.cluster_id, a.c.server_id == t.c.server_id)
_SWEEP = sa.delete(t).where(t.c.cluster_id == sa.bindparam("cluster"), t.c.is_leaving.is_(True), ~_HAS_ANY)


def of_group(tx: Tx, group_id: str) -> list[str]:
    """The servers of a group that are to stay in it, in the order in which they came."""
    return [str(row.server_id) for row in tx.rows(_OF_GROUP, {"group": group_id})]


_OF_GROUP = (
    sa.select(t.c.server_id)
    .where(t.c.node_group_id == sa.bindparam("group"), t.c.is_leaving.is_(False))
    .order_by(t.c.created_at, t.c.id)
)


def taken(tx: Tx, cluster_id: str, project_id: str) -> set[str]:
    """The servers that are nodes of the project's other clusters."""
    return {str(row.server_id) for row in tx.rows(_TAKEN, {"cluster": cluster_id, "project": project_id})}


_TAKEN = (
    sa.select(t.c.server_id)
    .join(clusters, clusters.c.id == t.c.cluster_id)
    .where(clusters.c.project_id == sa.bindparam("project"), t.c.cluster_id != sa.bindparam("cluster"))
)


def refuse(tx: Tx, cluster_id: str, share_id: str, why: Mapping[str, str | None]) -> None:
    """Remember by server why a share was not attached there; None: it was."""
    refused = [server_id for server_id, said in why.items() if said is not None]
    for row in _rows_among(tx, cluster_id, refused):
        refusals = {**row.refusals, share_id: why[row.server_id]}
        tx.execute(sa.update(t).where(t.c.id == row.id).values(refusals=refusals))


def forget_refusals(tx: Tx, cluster_id: str, only: Only = None) -> None:
    """All is tried anew."""
    refused = sa.cast(t.c.refusals, sa.String()) != "{}"
    tx.execute(_among(sa.update(t).where(t.c.cluster_id == cluster_id, refused).values(refusals={}), only))


def count(tx: Tx, cluster_ids: Sequence[str]) -> dict[str, int]:
    """How many nodes some clusters have."""
    counted = sa.select(t.c.cluster_id, sa.func.count().label("number")).where(t.c.cluster_id.in_(list(cluster_ids)))
    return {row.cluster_id: row.number for row in tx.rows(counted.group_by(t.c.cluster_id))} if cluster_ids else {}


def numbers_of_groups(tx: Tx, cluster_id: str) -> dict[str, int]:
    """How many nodes each group of a cluster has."""
    return {row.node_group_id: row.number for row in tx.rows(_OF_GROUPS, {"cluster": cluster_id})}


_OF_GROUPS = (
    sa.select(t.c.node_group_id, sa.func.count().label("number"))
    .where(t.c.cluster_id == sa.bindparam("cluster"))
    .group_by(t.c.node_group_id)
)


def numbers_of_all_groups(tx: Tx, cluster_ids: Sequence[str]) -> dict[str, int]:
    """How many nodes each group of some clusters has."""
    counted = sa.select(t.c.node_group_id, sa.func.count().label("number")).where(t.c.cluster_id.in_(list(cluster_ids)))
    rows = tx.rows(counted.group_by(t.c.node_group_id)) if cluster_ids else ()
    return {row.node_group_id: row.number for row in rows}


def begun(tx: Tx, cluster_ids: Sequence[str]) -> set[str]:
    """Those of some clusters that have anything attached, or on its way."""
    has_any = sa.exists().where(a.c.cluster_id == clusters.c.id)
    found = sa.select(clusters.c.id).where(clusters.c.id.in_(list(cluster_ids)), has_any)
    return {str(row.id) for row in tx.rows(found)} if cluster_ids else set()


class Looks(msgspec.Struct, frozen=True, gc=False):
    """How many attachments of a cluster nobody has looked at since that was asked for, and how many do not hold."""

    cluster_id: str
    ahead: int
    failing: int


def looks(tx: Tx, cluster_ids: Sequence[str]) -> dict[str, Looks]:
    """What looks at the nodes of some clusters have found, by these; nothing of one that has nothing attached."""
    return (
        {one.cluster_id: one for one in tx.entities(Looks, _LOOKS, {"these": list(cluster_ids)})} if cluster_ids else {}
    )


# ---------------------------------------------------------------- compared with what is attached


def lacking(tx: Tx, group_id: str, share_id: str, only: Only = None) -> list[str]:
    """The servers of a group on which its cluster has not attached a share."""
    return [str(row.server_id) for row in tx.rows(_among(_LACKING, only), {"group": group_id, "share": share_id})]


_HAS_SHARE = sa.exists().where(
    a.c.share_id == sa.bindparam("share"), a.c.server_id == t.c.server_id, a.c.cluster_id == t.c.cluster_id
)
_LACKING = (
    sa.select(t.c.server_id)
    .where(t.c.node_group_id == sa.bindparam("group"), t.c.is_leaving.is_(False), ~_HAS_SHARE)
    .order_by(t.c.created_at, t.c.id)
)


class Part(msgspec.Struct, frozen=True):
    """So many of what is looked through in the order of ids: those after `after`, and `only` those of some servers."""

    after: str
    most: int
    only: Only = None

    def of(self, found: Select, on: sa.Table) -> Select:
        """Of these rows of a table, with a server each."""
        return _among(found.where(on.c.id > self.after), self.only, on).order_by(on.c.id).limit(self.most)


def surplus(
    tx: Tx, cluster_id: str, wanted: Mapping[str, Sequence[WantedShare]], network: str | None, part: Part
) -> list[Attachment]:
    """What is attached and shall not be so: elsewhere, by other rules, or at all; in the order of their ids.

    `wanted` is, by node group, what is wanted on its nodes. What differs by its level alone is no surplus.
    """
    is_wanted = _is_wanted(wanted, network)
    is_surplus = sa.or_(t.c.id.is_(None), ~is_wanted)
    found = _ATTACHED.where(a.c.cluster_id == cluster_id, a.c.wanted == "attached", is_surplus)
    return tx.entities(Attachment, part.of(found, a))


def of_other_level(tx: Tx, group_id: str, share: WantedShare, part: Part) -> list[Attachment]:
    """What rests on the nodes of a group where it shall be, and may write where it shall only read, or not."""
    found = _ATTACHED.where(
        t.c.node_group_id == group_id,
        a.c.share_id == share.id,
        a.c.mount_point == share.path,
        a.c.access_level != share.access_level,
        a.c.wanted == "attached",
        a.c.state.in_(("active", "error", "inactive")),
    )
    return tx.entities(Attachment, part.of(found, a))


def attached(tx: Tx, cluster_id: str, part: Part) -> list[Attachment]:
    """What the cluster has attached, in the order of their ids."""
    rows = sa.select(*columns_of(Attachment, a)).where(a.c.cluster_id == cluster_id)
    return tx.entities(Attachment, part.of(rows, a))


_NODE_OF = sa.and_(t.c.cluster_id == a.c.cluster_id, t.c.server_id == a.c.server_id, t.c.is_leaving.is_(False))
_ATTACHED = sa.select(*columns_of(Attachment, a)).select_from(a.outerjoin(t, _NODE_OF))


def _is_wanted(wanted: Mapping[str, Sequence[WantedShare]], network: str | None) -> sa.ColumnElement[bool]:
    lets_in = a.c.network.is_(None) if network is None else a.c.network == network
    # group by group, each with its own: of one long row of ORs SQLite refuses more than a thousand
    ways = [
        sa.and_(
            t.c.node_group_id == group_id,
            sa.or_(*(sa.and_(a.c.share_id == share.id, a.c.mount_point == share.path) for share in shares)),
        )
        for group_id, shares in wanted.items()
        if shares
    ]
    return sa.func.coalesce(sa.and_(lets_in, sa.or_(*ways)), sa.false()) if ways else sa.false()


def number_active(tx: Tx, cluster_id: str) -> int | None:
    """How many attachments a cluster has where all of them are active, else None."""
    row = tx.row(_NUMBER_ACTIVE, {"cluster": cluster_id})
    return None if row is None or row.others else int(row.number)


def numbers_at_rest(tx: Tx, cluster_id: str) -> dict[str, int] | None:
    """How many nodes each group has, where none is leaving, and nothing was refused on any; else None."""
    rows = list(tx.rows(_AT_REST, {"cluster": cluster_id}))
    return {row.node_group_id: row.number for row in rows} if all(row.rests == row.number for row in rows) else None


def counts(tx: Tx, cluster_id: str) -> list[Count]:
    """How the nodes of a cluster are, counted by the database."""
    return tx.entities(Count, _COUNTS, {"cluster": cluster_id})


_RANK = sa.case(RANKS, value=a.c.state, else_=3)
_REFUSED = sa.cast(t.c.refusals, sa.String()) != "{}"
# Nodes and attachments one after the other, and put together by server: joined they were compared each with each where
# the database had not heard yet how many there are.
_SEEN = sa.union_all(
    sa.select(
        t.c.server_id,
        t.c.node_group_id,
        sa.case((t.c.is_leaving, 1), else_=0).label("is_leaving"),
        sa.case((_REFUSED, 1), else_=0).label("is_refused"),
        sa.literal_column("0").label("had"),
        sa.cast(sa.null(), sa.Integer).label("rank"),
    ).where(t.c.cluster_id == sa.bindparam("cluster")),
    sa.select(
        a.c.server_id, sa.cast(sa.null(), sa.String()), sa.null(), sa.null(), sa.literal_column("1"), _RANK
    ).where(a.c.cluster_id == sa.bindparam("cluster")),
).subquery("seen")
_NODES = (
    sa.select(
        sa.func.max(_SEEN.c.node_group_id).label("node_group_id"),
        sa.func.max(_SEEN.c.is_leaving).label("is_leaving"),
        sa.func.max(_SEEN.c.is_refused).label("is_refused"),
        sa.func.sum(_SEEN.c.had).label("had"),
        sa.func.max(_SEEN.c.rank).label("worst"),
    )
    .group_by(_SEEN.c.server_id)
    .having(sa.func.max(_SEEN.c.node_group_id).is_not(None))
    .subquery("node")
)
_COUNTS = sa.select(
    _NODES.c.node_group_id,
    (_NODES.c.is_leaving == 1).label("is_leaving"),
    (_NODES.c.is_refused == 1).label("is_refused"),
    _NODES.c.had,
    _NODES.c.worst,
    sa.func.count().label("number"),
).group_by(*_NODES.c)


_NUMBER_ACTIVE = sa.select(
    sa.func.count().label("number"),
    sa.func.coalesce(sa.func.sum(sa.case((a.c.state == "active", 0), else_=1)), 0).label("others"),
).where(a.c.cluster_id == sa.bindparam("cluster"))
_RESTS = sa.and_(t.c.is_leaving.is_(False), ~_REFUSED)
_AT_REST = (
    sa.select(
        t.c.node_group_id, sa.func.count().label("number"), sa.func.sum(sa.case((_RESTS, 1), else_=0)).label("rests")
    )
    .where(t.c.cluster_id == sa.bindparam("cluster"))
    .group_by(t.c.node_group_id)
)


def problems(tx: Tx, cluster_id: str, most: int) -> list[Problem]:
    """Some nodes that do not hold, and what keeps each, also where that is just tried again."""
    return tx.entities(Problem, _PROBLEMS, {"cluster": cluster_id, "most": most})


_ARE_BUSY = a.c.state.in_(sorted(ATTACHMENT.busy))
_FAIL = sa.or_(a.c.state.in_(("error", "inactive")), sa.and_(_ARE_BUSY, a.c.attempts > 0))
_PROBLEMS = (
    sa.select(t.c.server_id, a.c.state, a.c.error_text, t.c.refusals)
    .select_from(
        t.outerjoin(
            a,
            sa.and_(
                a.c.cluster_id == t.c.cluster_id,
                a.c.server_id == t.c.server_id,
                _FAIL,
            ),
        )
    )
    .where(t.c.cluster_id == sa.bindparam("cluster"), sa.or_(_REFUSED, a.c.id.is_not(None)))
    .order_by(t.c.created_at, t.c.id)
    .limit(sa.bindparam("most"))
)

_LOOKS = (
    sa.select(
        a.c.cluster_id,
        sa.func.sum(sa.case((sa.and_(a.c.state == "active", a.c.last_verified_at == AGES_AGO), 1), else_=0)).label(
            "ahead"
        ),
        sa.func.sum(sa.case((_FAIL, 1), else_=0)).label("failing"),
    )
    .where(a.c.cluster_id.in_(sa.bindparam("these", expanding=True)))
    .group_by(a.c.cluster_id)
)


def shares_on(tx: Tx, cluster_id: str, server_ids: Sequence[str]) -> dict[str, list[Attachment]]:
    """What a cluster has attached to some servers, by these."""
    found: dict[str, list[Attachment]] = {}
    asked = {"cluster": cluster_id, "servers": list(server_ids)}
    for row in tx.entities(Attachment, _SHARES_ON, asked) if server_ids else ():
        found.setdefault(row.server_id, []).append(row)
    return found


_SHARES_ON = (
    sa.select(*columns_of(Attachment, a))
    .where(a.c.cluster_id == sa.bindparam("cluster"), a.c.server_id.in_(sa.bindparam("servers", expanding=True)))
    .order_by(a.c.server_id, a.c.mount_point)
)


def is_busy(tx: Tx, cluster_id: str) -> bool:
    """Whether anything of a cluster is on its way for the first time.

    Transactions that end the last of it at the same moment do not see each other: where few are on their way, each
    waits for those that look at that moment, and so the last of them sees it.
    """
    number = len(tx.rows(_BUSY, {"cluster": cluster_id, "most": FEW}))
    if 0 < number < FEW:
        tx.lock_names([f"ends of {cluster_id}"])
        number = len(tx.rows(_BUSY, {"cluster": cluster_id, "most": 1}))
    return number > 0


def number_busy(tx: Tx, cluster_id: str, *, again: bool = False, only: Only = None) -> tuple[int, int]:
    """How many attachments of a cluster are on their way, and how many it has.

    Of very many that fail there always are some which are just tried again: they count only with `again`.
    """
    row = tx.row(_among(_NUMBERS_AGAIN if again else _NUMBERS, only, a), {"cluster": cluster_id})
    return (0, 0) if row is None else (int(row.busy or 0), int(row.number))


_OF_CLUSTER = a.c.cluster_id == sa.bindparam("cluster")
_FOR_THE_FIRST_TIME = sa.and_(_ARE_BUSY, a.c.attempts == 0)
_BUSY = sa.select(a.c.id).where(_OF_CLUSTER, _FOR_THE_FIRST_TIME).limit(sa.bindparam("most"))


def _counting(busy: sa.ColumnElement[bool]) -> Select:
    number = sa.func.sum(sa.case((busy, 1), else_=0)).label("busy")
    return sa.select(number, sa.func.count().label("number")).where(_OF_CLUSTER)


_NUMBERS, _NUMBERS_AGAIN = _counting(_FOR_THE_FIRST_TIME), _counting(_ARE_BUSY)


def _rows_among(tx: Tx, cluster_id: str, server_ids: Iterable[str]) -> list[Node]:
    found: list[Node] = []
    for part in _parts(list(server_ids)):
        found += tx.entities(Node, _ROWS_AMONG, {"cluster": cluster_id, "servers": part})
    return found


_ROWS_AMONG = sa.select(*columns_of(Node, t)).where(
    t.c.cluster_id == sa.bindparam("cluster"), t.c.server_id.in_(sa.bindparam("servers", expanding=True))
)


Narrowed = TypeVar("Narrowed", Select, sa.Update, sa.Delete)


def _among(statement: Narrowed, only: Only, on: sa.Table = t) -> Narrowed:
    return statement if only is None else statement.where(on.c.server_id.in_(list(only)))


def _parts(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[at : at + AT_ONCE] for at in range(0, len(ids), AT_ONCE))
