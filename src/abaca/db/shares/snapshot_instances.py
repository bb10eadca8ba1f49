# SPDX-License-Identifier: Apache-2.0
"""Snapshots on back ends: what they are, and how their states move."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import sqlalchemy as sa

from abaca.db.engine import lists, moving
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Select, columns_of, planned_for_values
from abaca.db.journal import keys
from abaca.db.shares.snapshots import KEY
from abaca.db.tables.shares import driver_data, share_instances, shares, snapshots
from abaca.db.tables.shares import snapshot_instances as t
from abaca.domain.shares.snapshots import SNAPSHOT_INSTANCE, SnapshotInstance

STATUS = moving.Mover(t.c.status, "Snapshot instance", conflict=("Snapshot", t.c.snapshot_id))

move, try_move, reset = STATUS.move, STATUS.try_move, STATUS.reset

INSTANCES = lists.Listing(
    t.join(snapshots, snapshots.c.id == t.c.snapshot_id),
    columns={**{column.name: column for column in t.c}, "share_id": snapshots.c.share_id},
    filters={"snapshot_id": lists.steady(lists.equal(t.c.snapshot_id))},
    sorts=("created_at", "id"),
)


def add(tx: Tx, values: Mapping[str, object], event: str = "create") -> None:
    """A new instance, which is being made, or taken over where `event` is manage."""
    moving.add(tx, t, {"created_at": tx.now, "progress": "0%", **values}, {"status": event})


def finish_create(tx: Tx, instance_id: str, provider_location: str | None) -> None:
    """`created`; nothing where an operator has set another status meanwhile."""
    STATUS.try_move(tx, instance_id, "created", also={"progress": "100%", "provider_location": provider_location})


def finish_manage(tx: Tx, instance_id: str, provider_location: str | None) -> None:
    """`managed`; nothing where an operator has set another status meanwhile."""
    also = {"progress": "100%"} | ({} if provider_location is None else {"provider_location": provider_location})
    STATUS.try_move(tx, instance_id, "managed", also=also)


def at(tx: Tx, share_instance_id: str, provider_location: str) -> str | None:
    """The id of the snapshot of that share instance that is there on the back end; None where none is."""
    asked = {"of_instance": share_instance_id, "place": provider_location}
    found: str | None = tx.scalar(_AT, asked)
    return found


_AT = (
    sa.select(t.c.snapshot_id)
    .where(t.c.share_instance_id == sa.bindparam("of_instance"), t.c.provider_location == sa.bindparam("place"))
    .limit(1)
)


def delete(tx: Tx, instance_id: str) -> None:
    """The row."""
    tx.execute(_DELETE, {"instance": instance_id})


_DELETE = sa.delete(t).where(t.c.id == sa.bindparam("instance"))

_WHOLE = (
    sa.select(
        *columns_of(
            SnapshotInstance,
            t,
            snapshots,
            driver_data=driver_data.c.data,
            host=share_instances.c.host,
        )
    )
    .select_from(t)
    .join(snapshots, snapshots.c.id == t.c.snapshot_id)
    .join(share_instances, share_instances.c.id == t.c.share_instance_id)
    .outerjoin(driver_data, driver_data.c.resource_id == t.c.id)
)
_WHOLE_ONE = _WHOLE.where(t.c.id == sa.bindparam("instance"))


def whole(tx: Tx, instance_id: str) -> SnapshotInstance | None:
    """An instance with what its driver is told of it."""
    return tx.entity(SnapshotInstance, _WHOLE_ONE, {"instance": instance_id})


def inheriting(tx: Tx, share_instance_id: str) -> list[SnapshotInstance]:
    """The snapshots on a share instance that were taken and exported, and inherit the access rules of their share."""
    return tx.entities(SnapshotInstance, _INHERITING, {"of_instance": share_instance_id})


_INHERITING = (
    _WHOLE.join(shares, shares.c.id == snapshots.c.share_id)
    .where(
        t.c.share_instance_id == sa.bindparam("of_instance"),
        t.c.progress == sa.literal_column("'100%'"),
        shares.c.snapshot_inherit_share_access_support.is_(True),
        shares.c.mount_snapshot_support.is_(True),
    )
    .order_by(t.c.id)
)


def lock(tx: Tx, instance_id: str) -> None:
    """Nobody else changes the instance until this transaction ends."""
    tx.rows(_LOCK, {"instance": instance_id})


_LOCK = sa.select(t.c.id).where(t.c.id == sa.bindparam("instance")).with_for_update()


def is_on(tx: Tx, share_instance_id: str) -> bool:
    """Whether any snapshot is on that share instance."""
    return tx.row(_ON, {"of_instance": share_instance_id}) is not None


_ON = sa.select(t.c.id).where(t.c.share_instance_id == sa.bindparam("of_instance")).limit(1)


def busy_without_operation(tx: Tx, service_host: str, most: int = 500) -> list[SnapshotInstance]:
    """Busy instances of a back end that no live operation explains."""
    return tx.entities(SnapshotInstance, _busy(service_host), {"most": most})


@functools.lru_cache(64)
def _busy(service_host: str) -> Select:
    found = _WHOLE.where(
        t.c.status.in_(sorted(SNAPSHOT_INSTANCE.busy)),
        share_instances.c.host.startswith(service_host + "#", autoescape=True),
        ~keys.is_held(KEY, t.c.snapshot_id),
    )
    return planned_for_values(found.limit(sa.bindparam("most")))
