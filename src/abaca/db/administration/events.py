# SPDX-License-Identifier: Apache-2.0
"""Events and their way out: every statement that reads or writes them.

An event commits with what it tells of, and with it one row for each target that wants it. A row goes when its target
has the event. There is no cursor that could pass a transaction that commits late: what is there is undelivered.

A target is served by one worker at a time, the one that holds its lease in `event_targets`; that keeps the order.
`owner` is `worker#life`, as in the journal.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa

from abaca.db.engine import lists
from abaca.db.engine.database import Tx, insert_into
from abaca.db.engine.statements import columns_of, planned_for_values
from abaca.db.tables.administration import event_deliveries as d
from abaca.db.tables.administration import event_targets as g
from abaca.db.tables.administration import events as t
from abaca.db.tables.attachments import attachments
from abaca.db.tables.catalog import share_types
from abaca.db.tables.clusters import clusters
from abaca.db.tables.shares import share_instances, shares, snapshot_instances, snapshots
from abaca.domain.administration.events import QUEUE, About, Event, EventTarget, Undelivered
from abaca.domain.ids import new_id

_ADD = sa.insert(t).inline()
_ADD_DELIVERY = sa.insert(d).inline()


def is_wanted(tx: Tx, event_type: str) -> bool:
    """Whether anybody wants events of this type; nobody does unless an operator has named a target."""
    return tx.subscriptions is not None and bool(tx.subscriptions(event_type))


def write(tx: Tx, event_type: str, about: About, payload: Mapping[str, object]) -> str | None:
    """Tell that this happened, if the transaction commits; the event's id. Nothing is written when nobody wants it."""
    targets = tx.subscriptions(event_type) if tx.subscriptions is not None else ()
    if not targets:
        return None
    event_id = new_id()
    row = {"id": event_id, "event_type": event_type, "payload": payload, "created_at": tx.now}
    tx.execute(_ADD, {**row, **msgspec.structs.asdict(about)})
    for target in targets:
        tx.execute(
            _ADD_DELIVERY,
            {
                "target": target,
                "event_id": event_id,
                "resource_id": about.resource_id,
                "not_before": 0.0,
                "attempts": 0,
                "created_at": tx.now,
            },
        )
    tx.wake(QUEUE)
    return event_id


_SHARE = (
    sa.select(
        shares.c.id.label("share_id"),
        shares.c.user_id,
        shares.c.project_id,
        shares.c.snapshot_id,
        shares.c.share_group_id,
        shares.c.size,
        shares.c.name,
        shares.c.description,
        shares.c.share_proto.label("proto"),
        shares.c.is_public,
        share_instances.c.availability_zone,
        share_instances.c.host,
        share_instances.c.status,
        share_instances.c.share_type_id,
        share_types.c.name.label("share_type"),
    )
    .join(share_instances, share_instances.c.share_id == shares.c.id)
    .outerjoin(share_types, share_types.c.id == share_instances.c.share_type_id)
    .where(shares.c.id == sa.bindparam("share"))
    .order_by(share_instances.c.status_rank)
    .limit(1)
)


def share(tx: Tx, share_id: str) -> dict[str, object] | None:
    """What events say of a share, under the names that Manila's notifications have; None when it is gone."""
    row = tx.row(_SHARE, {"share": share_id})
    return None if row is None else dict(row._mapping)


_SNAPSHOT = (
    sa.select(
        snapshots.c.id.label("snapshot_id"),
        *(snapshots.c[name] for name in ("share_id", "user_id", "project_id", "size", "name", "description")),
        snapshots.c.share_proto.label("proto"),
        snapshot_instances.c.status,
    )
    .join(snapshot_instances, snapshot_instances.c.snapshot_id == snapshots.c.id)
    .where(snapshots.c.id == sa.bindparam("snapshot"))
    .order_by(snapshot_instances.c.status_rank)
    .limit(1)
)


def snapshot(tx: Tx, snapshot_id: str) -> dict[str, object] | None:
    """What events say of a snapshot; None when it is gone."""
    row = tx.row(_SNAPSHOT, {"snapshot": snapshot_id})
    return None if row is None else dict(row._mapping)


_ATTACHMENT = sa.select(
    attachments.c.id.label("attachment_id"),
    *(attachments.c[name] for name in ("share_id", "server_id", "user_id", "project_id")),
    *(attachments.c[name] for name in ("mode", "mount_point", "tag", "access_level", "state")),
    attachments.c.source.label("export_location"),
    attachments.c.error_code,
    attachments.c.error_text,
).where(attachments.c.id == sa.bindparam("attachment"))


def attachment(tx: Tx, attachment_id: str) -> dict[str, object] | None:
    """What events say of an attachment; None when it is gone."""
    row = tx.row(_ATTACHMENT, {"attachment": attachment_id})
    return None if row is None else dict(row._mapping)


_CLUSTER = sa.select(
    clusters.c.id.label("cluster_id"),
    *(clusters.c[name] for name in ("name", "user_id", "project_id", "status", "wanted", "error_code", "error_text")),
).where(clusters.c.id == sa.bindparam("cluster"))


def cluster(tx: Tx, cluster_id: str) -> dict[str, object] | None:
    """What events say of a cluster; None when it is gone."""
    row = tx.row(_CLUSTER, {"cluster": cluster_id})
    return None if row is None else dict(row._mapping)


# ---------------------------------------------------------------- delivering


def register(tx: Tx, target: str) -> None:
    """Make sure that the target has its row."""
    row = {"name": target, "lease_until": 0.0, "not_before": 0.0, "attempts": 0, "delivered": 0, "dropped": 0}
    tx.execute(insert_into(g, tx.dialect).on_conflict_do_nothing().values(**row, created_at=tx.now))


_mine = sa.or_(
    g.c.owner.is_(None),
    g.c.lease_until < sa.bindparam("due"),
    sa.func.substr(g.c.owner, 1, sa.bindparam("length")) == sa.bindparam("worker"),
)
_HOLD = (
    sa.update(g)
    .where(g.c.name == sa.bindparam("target"), _mine)
    .values(owner=sa.bindparam("holder"), lease_until=sa.bindparam("until"))
)
_TARGETS = sa.select(*columns_of(EventTarget, g, lease_until_s=g.c.lease_until, not_before_s=g.c.not_before))
_TARGET = _TARGETS.where(g.c.name == sa.bindparam("target"))


def hold(tx: Tx, target: str, owner: str, now_s: float, until_s: float) -> bool:
    """Take the target's lease, or prolong it; False while another worker has it."""
    worker = owner.rpartition("#")[0] + "#"
    parameters = {"target": target, "holder": owner, "worker": worker, "length": len(worker)}
    return tx.execute(_HOLD, {**parameters, "due": now_s, "until": until_s}).rowcount == 1


def standing(tx: Tx, target: str) -> EventTarget | None:
    """How the target stands; None when nobody has registered it."""
    return tx.entity(EventTarget, _TARGET, {"target": target})


def release(tx: Tx, target: str, owner: str) -> None:
    """Leave the target to others, who are told."""
    tx.wake(QUEUE)
    tx.execute(sa.update(g).where(g.c.name == target, g.c.owner == owner).values(owner=None, lease_until=0.0))


_earlier = d.alias("earlier")
_waits_behind = sa.exists().where(
    _earlier.c.target == d.c.target,
    _earlier.c.resource_id == d.c.resource_id,
    _earlier.c.seq < d.c.seq,
    _earlier.c.not_before > sa.bindparam("due"),
)
_DUE = (
    sa.select(d.c.seq, d.c.attempts, *columns_of(Event, t))
    .join(t, t.c.id == d.c.event_id)
    .where(d.c.target == sa.bindparam("of"), d.c.not_before <= sa.bindparam("due"), ~_waits_behind)
    .order_by(d.c.seq)
    .limit(sa.bindparam("most"))
)


class Delivery(msgspec.Struct, frozen=True):
    """An event on its way to a target, and how often it was refused there."""

    seq: int
    attempts: int
    event: Event


def due(tx: Tx, target: str, now_s: float, most: int) -> list[Delivery]:
    """What the target shall get now, in order; nothing of a resource that has an event waiting for its next try."""
    rows = tx.rows(_DUE, {"of": target, "due": now_s, "most": most})
    return [Delivery(row.seq, row.attempts, Event(*row[2:])) for row in rows]


_NEXT = sa.select(sa.func.min(d.c.not_before)).where(
    d.c.target == sa.bindparam("of"), d.c.not_before > sa.bindparam("due")
)


def next_due(tx: Tx, target: str, now_s: float) -> float | None:
    """When the next refused event is tried again, or None."""
    found = tx.scalar(_NEXT, {"of": target, "due": now_s})
    return None if found is None else float(found)


_DONE = sa.delete(d).where(d.c.seq.in_(sa.bindparam("seqs", expanding=True)))
_COUNT = (
    sa.update(g)
    .where(g.c.name == sa.bindparam("target"))
    .values(
        delivered=g.c.delivered + sa.bindparam("number"),
        delivered_at=sa.bindparam("at"),
        attempts=0,
        not_before=0.0,
        error=None,
        failing_since=None,
    )
)
_REFUSED = (
    sa.update(d)
    .where(d.c.seq == sa.bindparam("one"))
    .values(attempts=sa.bindparam("tries"), not_before=sa.bindparam("after"), error=sa.bindparam("why"))
)
_AWAY = (
    sa.update(g)
    .where(g.c.name == sa.bindparam("target"))
    .values(
        attempts=sa.bindparam("tries"),
        not_before=sa.bindparam("after"),
        error=sa.bindparam("why"),
        failing_since=sa.func.coalesce(g.c.failing_since, sa.bindparam("at", type_=g.c.failing_since.type)),
    )
)


def delivered(tx: Tx, target: str, seqs: Sequence[int]) -> None:
    """These have arrived, so the target is well."""
    tx.execute(_DONE, {"seqs": seqs})
    tx.execute(_COUNT, {"target": target, "number": len(seqs), "at": tx.now})


def refused(tx: Tx, delivery: Delivery, after_s: float, why: str) -> None:
    """Try this one again, not before then; those of its resource wait behind it."""
    tx.execute(_REFUSED, {"one": delivery.seq, "tries": delivery.attempts + 1, "after": after_s, "why": why})


def away(tx: Tx, target: str, attempts: int, after_s: float, why: str) -> None:
    """The target could not be reached, so many times in a row; nothing is tried before then."""
    tx.execute(_AWAY, {"target": target, "tries": attempts, "after": after_s, "why": why, "at": tx.now})


# ---------------------------------------------------------------- looking, and forgetting


_MISSING = sa.select(sa.func.count()).where(d.c.event_id == t.c.id).correlate(t).scalar_subquery()
EVENTS = lists.Listing(
    t,
    columns={"undelivered": _MISSING},
    filters={
        **{name: lists.equal(t.c[name]) for name in ("event_type", "resource_type", "project_id")},
        "resource_id": lists.steady(lists.equal(t.c.resource_id)),
        "id_prefix": lists.begins(t.c.id),
    },
    sorts={"seq": ("seq",)},
)


_WAITING = sa.select(
    *columns_of(
        Undelivered,
        d,
        undelivered=sa.func.count(),
        oldest=sa.func.min(d.c.created_at),
        refused=sa.func.sum(sa.case((d.c.attempts > 0, 1), else_=0)),
        refusal=sa.func.max(d.c.error),
    )
).group_by(d.c.target)


def targets(tx: Tx) -> list[tuple[EventTarget, Undelivered]]:
    """Every target that ever was served or has events waiting: how it stands and what it still has to get."""
    waiting = {one.target: one for one in tx.entities(Undelivered, _WAITING)}
    found = {one.name: one for one in tx.entities(EventTarget, _TARGETS)}
    names = sorted({*waiting, *found})
    return [(found.get(name, EventTarget(name)), waiting.get(name, Undelivered(name))) for name in names]


def retry_now(tx: Tx, target: str) -> bool:
    """Let everything that waits for its next try be tried at once; False when there is no such target."""
    is_known = tx.execute(sa.update(g).where(g.c.name == target).values(not_before=0.0)).rowcount == 1
    tx.execute(sa.update(d).where(d.c.target == target, d.c.not_before > 0.0).values(not_before=0.0))
    tx.wake(QUEUE)
    return is_known


_OLD = planned_for_values(
    sa.select(t.c.id)
    .where(t.c.created_at <= sa.bindparam("until"))
    .order_by(t.c.created_at, t.c.seq)
    .limit(sa.bindparam("most"))
)


def expire(tx: Tx, keep_s: float, most: int = 500) -> tuple[int, dict[str, int]]:
    """Forget events older than `keep_s`, at most so many: how many, and of them the undelivered by target."""
    until = tx.now - datetime.timedelta(seconds=keep_s)
    old = [row.id for row in tx.rows(_OLD, {"until": until, "most": most})]
    if not old:
        return 0, {}
    lost = sa.select(d.c.target, sa.func.count().label("number")).where(d.c.event_id.in_(old)).group_by(d.c.target)
    dropped = {row.target: int(row.number) for row in tx.rows(lost)}
    for target, number in dropped.items():
        tx.execute(sa.update(g).where(g.c.name == target).values(dropped=g.c.dropped + number))
    tx.execute(sa.delete(d).where(d.c.event_id.in_(old)))
    tx.execute(sa.delete(t).where(t.c.id.in_(old)))
    return len(old), dropped
