# SPDX-License-Identifier: Apache-2.0
"""Which shares are on which servers.

Who attaches, detaches or changes rules for that locks the share first (`db.shares.lock`), so that nobody takes away a
rule while somebody else begins to need it.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence

import msgspec
import sqlalchemy as sa

from abaca import errors
from abaca.db.attachments import attachment_counts
from abaca.db.engine import lists, moving
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Column, columns_of, planned_for_values
from abaca.db.journal import keys
from abaca.db.shares.export_locations import IS_WRITTEN_TO
from abaca.db.tables.attachments import OF_ANY_PROJECT, servers
from abaca.db.tables.attachments import attachments as t
from abaca.db.tables.shares import export_locations, share_instances, shares
from abaca.domain.attachments.attachments import ATTACHMENT, SERVER_OFF, Attachment
from abaca.domain.ids import new_id

ATTACHMENTS = lists.Listing(
    # joins whose columns nobody asks for are dropped by the database itself
    t.join(shares, shares.c.id == t.c.share_id).outerjoin(servers, servers.c.id == t.c.server_id),
    columns={
        **{column.name: column for column in t.c},
        "share_proto": shares.c.share_proto,
        "share_name": shares.c.name,
        "server_name": servers.c.name,
    },
    filters={
        **{name: lists.equal(t.c[name]) for name in ("server_id", "state", "mode")},
        **{name: lists.steady(lists.equal(t.c[name])) for name in ("project_id", "share_id")},
        "id_prefix": lists.begins(t.c.id),
        "share_ids": lists.one_of(t.c.share_id),
        "server_ids": lists.one_of(t.c.server_id),
    },
    sorts={
        "created_at": ("created_at", "id"),
        "server_id": ("server_id", "mount_point", "id"),
        "share_id": ("share_id", "server_id", "id"),
    },
    # opens the index over all projects (db/tables)
    unless=(frozenset({"id", "project_id", "share_id"}), OF_ANY_PROJECT),
    unindexed=lists.Unindexed(on_sqlite=("state", "server_id")),
)
STATE = moving.Mover(t.c.state, "Attachment")
move, try_move = STATE.move, STATE.try_move
_NEW: dict[str, object] = {
    "source": None,
    "awaited_source": None,
    "made_directory": False,
    "last_verified_at": None,
    "error_code": None,
    "error_text": None,
    "attempts": 0,
    "retry_at": None,
    "updated_at": None,
    "wanted": "attached",
    "is_forced": False,
    "cluster_id": None,
    "network": None,
}


def add(tx: Tx, values: Mapping[str, object]) -> str:
    """A new attachment, `attaching`; its id.

    `values` has share_id, server_id, project_id, user_id, mode, mount_point, tag, access_level and addresses. Raises
    `Conflict` when the share is on the server already, or the server has another at the mount point or under the tag.
    """
    row = {**_NEW, "id": new_id(), **values, "created_at": tx.now}
    if not moving.add(tx, t, row, {"state": "attach"}, unless_taken=True):
        raise _taken(tx, row)
    attachment_counts.change(tx, 1)
    return str(row["id"])


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where an attachment is, and whether it is to stay there."""

    id: str
    server_id: str
    mount_point: str
    wanted: str


def lock_servers(tx: Tx, server_ids: Sequence[str]) -> None:
    """Nobody else adds attachments to these servers until this transaction ends. The share is locked before."""
    tx.lock_names(f"attachments of {server_id}" for server_id in server_ids)


def nested(tx: Tx, server_ids: Sequence[str], mount_point: str) -> dict[str, errors.Conflict]:
    """Of those servers that have something mounted above or below a mount point, why nothing can be mounted there.

    The servers are locked.
    """
    found = tx.entities(Place, _NESTED, {"of_servers": list(server_ids), **_around(mount_point)})
    return {row.server_id: _is_nested(row, mount_point) for row in found}


def doubt_below(tx: Tx, server_id: str, mount_point: str) -> bool:
    """What is active below a mount point of a server counts as not looked at for ages; whether there is any."""
    around = _around(mount_point)
    del around["above"]
    return tx.execute(_DOUBT, {"of_server": server_id, **around}).rowcount > 0


def _around(mount_point: str) -> dict[str, object]:
    parts = mount_point.split("/")
    above = ["/".join(parts[:number]) for number in range(2, len(parts))]
    return {"above": above, "start": f"{mount_point}/", "length": len(mount_point) + 1}


AGES_AGO = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 (naive UTC, as all times here)
_IS_BELOW = sa.func.substr(t.c.mount_point, 1, sa.bindparam("length", type_=sa.Integer())) == sa.bindparam("start")
_NESTED = sa.select(*columns_of(Place, t)).where(
    t.c.server_id.in_(sa.bindparam("of_servers", expanding=True)),
    sa.or_(
        t.c.mount_point.in_(sa.bindparam("above", expanding=True)),
        _IS_BELOW,
    ),
)
_DOUBT = (
    sa.update(t)
    .where(t.c.server_id == sa.bindparam("of_server"), t.c.state == "active", _IS_BELOW)
    .values(last_verified_at=AGES_AGO)
)


def _is_nested(row: Place, mount_point: str) -> errors.Conflict:
    where = "above" if mount_point.startswith(f"{row.mount_point}/") else "below"
    goes = " It is being detached; repeat this when it is gone." if row.wanted == "detached" else ""
    return errors.Conflict(
        f"Server {row.server_id} has another share {where} {mount_point}, at {row.mount_point}: attachment {row.id}. "
        f"Shares are not mounted within one another; choose a place beside it.{goes}"
    )


def _taken(tx: Tx, row: Mapping[str, object]) -> errors.Conflict:
    server_id = row["server_id"]
    for column, said in (
        ("share_id", f"Share {row['share_id']} is attached to server {server_id} already: attachment {{id}}."),
        ("mount_point", f"Server {server_id} has another share at {row['mount_point']}: attachment {{id}}."),
        ("tag", f"Server {server_id} has another share under the tag {row['tag']}: attachment {{id}}."),
    ):
        found = tx.row(sa.select(t.c.id, t.c.wanted).where(t.c.server_id == server_id, t.c[column] == row[column]))
        if found is not None:
            goes = " It is being detached; repeat this when it is gone." if found.wanted == "detached" else ""
            return errors.Conflict(said.format(id=found.id) + goes)
    return errors.Conflict(f"The attachments of server {server_id} have just changed; look again, and repeat it.")


def show(tx: Tx, attachment_id: str) -> Attachment | None:
    """One attachment, or None."""
    return tx.entity(Attachment, _SHOW, {"attachment": attachment_id})


_ATTACHMENTS = sa.select(*columns_of(Attachment, t))
_SHOW = _ATTACHMENTS.where(t.c.id == sa.bindparam("attachment"))


def of_share(tx: Tx, share_id: str) -> list[Attachment]:
    """Those of a share, the oldest first."""
    return tx.entities(Attachment, _OF_SHARE, {"of_share": share_id})


_OF_SHARE = _ATTACHMENTS.where(t.c.share_id == sa.bindparam("of_share")).order_by(t.c.created_at, t.c.id)


def these(tx: Tx, attachment_ids: Sequence[str]) -> list[Attachment]:
    """Some of them, the oldest first."""
    return tx.entities(Attachment, _THESE, {"these": list(attachment_ids)}) if attachment_ids else []


_THESE = _ATTACHMENTS.where(t.c.id.in_(sa.bindparam("these", expanding=True))).order_by(t.c.created_at, t.c.id)


def has_any(tx: Tx, share_id: str) -> bool:
    """Whether anything attaches a share."""
    return tx.scalar(_HAS_ANY, {"of_share": share_id}) is not None


# By its own index, and in that one's order: a share may have nearly all that there are, and where thousands have gone
# PostgreSQL would otherwise look for the first through what they left.
_HAS_ANY = (
    sa.select(t.c.id)
    .where(t.c.share_id >= sa.bindparam("of_share"), t.c.share_id <= sa.bindparam("of_share"))
    .order_by(t.c.share_id, t.c.server_id)
    .limit(1)
)


# Of more addresses all that the share's attachments need is read, and looked through once.
FEW = 8


def needs(tx: Tx, share_id: str, addresses: Sequence[str]) -> dict[str, str]:
    """What a share's attachments need of these addresses: `rw` or `ro` by address, none where nobody needs it."""
    found: dict[str, str] = {}
    if len(addresses) <= FEW:
        for address in addresses:
            asked = {"of_share": share_id, "written": f'%"{address}"%'}
            level = next((one for one in ("rw", "ro") if tx.scalar(_NEEDS, {**asked, "level": one}) is not None), None)
            if level is not None:
                found[address] = level
        return found
    everything = all_needs(tx, share_id)
    return {address: everything[address] for address in addresses if address in everything}


def all_needs(tx: Tx, share_id: str) -> dict[str, str]:
    """What a share's attachments need of any address; all of them are read."""
    found: dict[str, str] = {}
    for row in tx.rows(_ALL_NEEDS, {"of_share": share_id}):
        for address in row.addresses:
            found[address] = "rw" if "rw" in (row.access_level, found.get(address)) else "ro"
    return found


# an address has no character that means something to LIKE, and stands in the list between quotes
_NEEDS = (
    sa.select(t.c.id)
    .where(
        t.c.share_id == sa.bindparam("of_share"),
        t.c.access_level == sa.bindparam("level"),
        sa.cast(t.c.addresses, sa.Text()).like(sa.bindparam("written", type_=sa.Text())),
    )
    .limit(1)
)
_ALL_NEEDS = sa.select(t.c.addresses, t.c.access_level).where(t.c.share_id == sa.bindparam("of_share"))


def has_twin(tx: Tx, row: Attachment) -> bool:
    """Whether its cluster has attached the share elsewhere by the same rule for a network; found without a search."""
    if row.cluster_id is None or row.addresses != [row.network]:
        return False
    asked = {"cluster": row.cluster_id, "of_share": row.share_id, "network": row.network, "level": row.access_level}
    return tx.scalar(_TWIN, {**asked, "itself": row.id}) is not None


_TWIN = (
    sa.select(t.c.id)
    .where(
        t.c.cluster_id == sa.bindparam("cluster"),
        t.c.share_id == sa.bindparam("of_share"),
        t.c.network == sa.bindparam("network"),
        t.c.access_level == sa.bindparam("level"),
        t.c.id != sa.bindparam("itself"),
    )
    .order_by(t.c.server_id)
    .limit(1)
)


def of_servers(tx: Tx, server_ids: Sequence[str]) -> list[Attachment]:
    """Those of some servers, the oldest first."""
    return tx.entities(Attachment, _OF_SERVERS, {"of_servers": list(server_ids)}) if server_ids else []


_OF_SERVERS = _ATTACHMENTS.where(t.c.server_id.in_(sa.bindparam("of_servers", expanding=True))).order_by(
    t.c.server_id, t.c.created_at, t.c.id
)


def of_share_servers(tx: Tx, share_server_ids: Collection[str]) -> list[Attachment]:
    """Those of shares that are on these share servers, in the order of their shares."""
    asked = {"share_servers": sorted(share_server_ids)}
    return tx.entities(Attachment, _OF_SHARE_SERVERS, asked) if share_server_ids else []


_ON_SHARE_SERVERS = sa.select(share_instances.c.share_id).where(
    share_instances.c.share_server_id.in_(sa.bindparam("share_servers", expanding=True))
)
_OF_SHARE_SERVERS = planned_for_values(
    _ATTACHMENTS.where(t.c.share_id.in_(_ON_SHARE_SERVERS)).order_by(t.c.share_id, t.c.id)
)


def doubt(tx: Tx, attachment_ids: Collection[str]) -> bool:
    """Those of these that are active count as not looked at for ages; whether there is any."""
    return bool(attachment_ids) and tx.execute(_DOUBT_THESE, {"rows": sorted(attachment_ids)}).rowcount > 0


def doubt_cluster(tx: Tx, cluster_id: str) -> bool:
    """The same of all that a cluster has attached, but for what is being changed just now."""
    return tx.execute(_DOUBT_CLUSTER, {"cluster": cluster_id}).rowcount > 0


_DOUBT_THESE = (
    sa.update(t)
    .where(t.c.id.in_(sa.bindparam("rows", expanding=True)), t.c.state == "active")
    .values(last_verified_at=AGES_AGO)
)
# who changes one goes on to its cluster, which whoever asks for this has locked
_RESTS = sa.select(t.c.id).where(t.c.cluster_id == sa.bindparam("cluster"), t.c.state == "active")
_DOUBT_CLUSTER = (
    sa.update(t).where(t.c.id.in_(_RESTS.with_for_update(skip_locked=True))).values(last_verified_at=AGES_AGO)
)


def on_server(tx: Tx, server_id: str, share_id: str) -> Attachment | None:
    """The attachment of a share to a server, or None."""
    return tx.entity(Attachment, _ON_SERVER, {"server": server_id, "share": share_id})


_ON_SERVER = _ATTACHMENTS.where(t.c.server_id == sa.bindparam("server"), t.c.share_id == sa.bindparam("share"))


def update(tx: Tx, attachment_id: str, values: Mapping[str, object]) -> None:
    """Change anything but the state."""
    tx.change(t, attachment_id, values)


def remove(tx: Tx, attachment_id: str) -> bool:
    """`detached`: the row goes; False where it is not `detaching`."""
    is_gone = tx.execute(_REMOVE, {"attachment": attachment_id}).rowcount == 1
    if is_gone:
        attachment_counts.change(tx, -1)
    return is_gone


_REMOVE = sa.delete(t).where(t.c.id == sa.bindparam("attachment"), t.c.state == "detaching")


def key(attachment_id: str) -> str:
    """Under which its operations run one after another: nothing else waits for them."""
    return keys.key("attachment", attachment_id)


def rules_condition(share_id: str) -> str:
    """What is signalled when the access rules of a share are settled, for now."""
    return f"access-rules:{share_id}"


def moved_condition(share_id: str) -> str:
    """What is signalled when an attachment of a share has moved to another export location."""
    return f"attachment-moved:{share_id}"


def detached_condition(share_id: str) -> str:
    """What is signalled when nothing attaches a share any more."""
    return f"detached:{share_id}"


def cluster_condition(cluster_id: str) -> str:
    """What is signalled when nothing of a cluster is on its way any more."""
    return f"cluster:{cluster_id}"


def retry_refused(tx: Tx, share_id: str, error_code: str) -> None:
    """Those of a share that are in error with this code are tried again soon: what stood in their way has changed."""
    tx.execute(_RETRY_REFUSED, {"of_share": share_id, "code": error_code, "at": tx.now})


_RETRY_REFUSED = (
    sa.update(t)
    .where(t.c.share_id == sa.bindparam("of_share"), t.c.state == "error", t.c.error_code == sa.bindparam("code"))
    .values(retry_at=sa.bindparam("at"))
)


# ---------------------------------------------------------------- what the reconciler looks for


def due(tx: Tx, most: int, after: Attachment | None = None) -> list[Attachment]:
    """Those in error whose next try has come, the longest due first; those after a row, if it is given."""
    place = (AGES_AGO, "") if after is None else (after.retry_at, after.id)
    return tx.entities(Attachment, _DUE, {"at": place[0], "id": place[1], "now": tx.now, "most": most})


def unverified(tx: Tx, since: datetime.datetime, most: int, after: Attachment | None = None) -> list[Attachment]:
    """Active ones that nobody has looked at since then, the longest first; those after a row, if it is given."""
    place = (AGES_AGO, "") if after is None else (after.last_verified_at, after.id)
    return tx.entities(Attachment, _UNVERIFIED, {"at": place[0], "id": place[1], "since": since, "most": most})


def _in_order(state: str, time: Column, is_over: sa.ColumnElement[bool]) -> sa.Executable:
    """Those in a state whose time is over, by an index in their order: many may have the same time."""
    # planned without its values it is believed to find a third of all, for which PostgreSQL takes several processes
    return planned_for_values(
        _ATTACHMENTS.where(
            t.c.state == state,
            is_over,
            time >= sa.bindparam("at"),  # by this SQLite goes by the index
            sa.tuple_(time, t.c.id) > sa.tuple_(sa.bindparam("at"), sa.bindparam("id")),
        )
        .order_by(time, t.c.id)
        .limit(sa.bindparam("most"))
    )


_DUE = _in_order("error", t.c.retry_at, t.c.retry_at <= sa.bindparam("now"))
_UNVERIFIED = _in_order("active", t.c.last_verified_at, t.c.last_verified_at < sa.bindparam("since"))


def inactive(tx: Tx, after: str, most: int) -> list[Attachment]:
    """Those of servers that were off, in the order of their ids: let in, or in error for nothing but that."""
    return tx.entities(Attachment, _INACTIVE, {"after": after, "most": most})


_IS_OFF = sa.or_(t.c.state == "inactive", sa.and_(t.c.state == "error", t.c.error_code == SERVER_OFF))
_INACTIVE = planned_for_values(
    _ATTACHMENTS.where(_IS_OFF, t.c.id > sa.bindparam("after")).order_by(t.c.id).limit(sa.bindparam("most"))
)


def moved(tx: Tx, share_ids: Collection[str]) -> list[Attachment]:
    """Active ones of some shares whose export location their share no longer has, while it has others."""
    return tx.entities(Attachment, _MOVED, {"of_shares": sorted(share_ids)})


_OF_THEIR_SHARE = (
    sa.select(export_locations.c.path)
    .join(share_instances, share_instances.c.id == export_locations.c.share_instance_id)
    .where(share_instances.c.share_id == t.c.share_id, export_locations.c.is_admin_only.is_(False), IS_WRITTEN_TO)
    .correlate(t)
)
# Of attachments of named shares the state is compared without its index, which SQLite would go through instead.
_STATE = t.c.state.concat(sa.literal_column("''"))
_MOVED = planned_for_values(
    _ATTACHMENTS.where(
        t.c.share_id.in_(sa.bindparam("of_shares", expanding=True)),
        _STATE == "active",
        ~sa.exists(_OF_THEIR_SHARE.where(export_locations.c.path == t.c.source)),
        sa.exists(_OF_THEIR_SHARE),
    ).order_by(t.c.id)
)


class OnShare(msgspec.Struct, frozen=True, gc=False):
    """An attachment, and which share it attaches."""

    id: str
    share_id: str


def page(tx: Tx, after: str, most: int) -> list[OnShare]:
    """The next of all attachments, in the order of their ids."""
    return tx.entities(OnShare, _PAGE, {"after": after, "most": most})


_PAGE = planned_for_values(
    sa.select(*columns_of(OnShare, t))
    .where(t.c.id > sa.bindparam("after"))
    .order_by(t.c.id)
    .limit(sa.bindparam("most"))
)


def unexplained(tx: Tx, most: int) -> list[Attachment]:
    """Busy ones without a live operation."""
    return tx.entities(Attachment, _UNEXPLAINED, {"most": most})


_UNEXPLAINED = planned_for_values(
    _ATTACHMENTS.where(t.c.state.in_(sorted(ATTACHMENT.busy)), ~keys.is_held("attachment", t.c.id))
    .order_by(t.c.id)
    .limit(sa.bindparam("most"))
)
