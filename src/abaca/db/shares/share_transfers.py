# SPDX-License-Identifier: Apache-2.0
"""Shares that are offered to other projects. An offer goes with its share, when it is accepted, and in time."""

from __future__ import annotations

import datetime

import sqlalchemy as sa
from sqlalchemy import exc

from abaca import errors
from abaca.db.engine.database import Tx
from abaca.db.engine.lists import Listing, Unindexed, contains, equal, steady
from abaca.db.engine.statements import columns_of, planned_for_values
from abaca.db.tables.shares import TRANSFER_OF_ANY_PROJECT
from abaca.db.tables.shares import share_transfers as t
from abaca.domain.ids import new_id
from abaca.domain.shares.share_transfers import ShareTransfer

TRANSFERS = Listing(
    t,
    columns={
        **{name: t.c[name] for name in ("id", "name", "created_at", "expires_at", "project_id", "share_id")},
        "resource_type": sa.literal_column("'share'", sa.String()),
        "resource_id": t.c.share_id,
        "source_project_id": t.c.project_id,
        # whoever accepts it takes it away
        "destination_project_id": sa.null(),
        "accepted": sa.false(),
    },
    filters={
        "name": equal(t.c.name),
        **{name: steady(equal(t.c[name])) for name in ("project_id", "share_id")},
        "name_like": contains(t.c.name),
    },
    sorts={"created_at": ("created_at", "id"), "id": ("id",), "name": (), "expires_at": ()},
    # opens the index over all projects (db/tables)
    unless=(frozenset({"id", "project_id"}), TRANSFER_OF_ANY_PROJECT),
    unindexed=Unindexed(("name", "name_like", "by name", "by expires_at")),
)


def add(tx: Tx, values: dict[str, object]) -> str:
    """A new offer; its id. Raises `Conflict` where the share is offered already."""
    transfer_id = new_id()
    try:
        tx.execute(_ADD, {**values, "id": transfer_id, "created_at": tx.now})
    except exc.IntegrityError:
        raise errors.Conflict(f"Share {values['share_id']} is offered to another project already.") from None
    return transfer_id


_ADD = sa.insert(t).inline()


def find(tx: Tx, transfer_id: str) -> ShareTransfer | None:
    """One offer, or None. Who may see it is the caller's business."""
    return tx.entity(ShareTransfer, _FIND, {"transfer": transfer_id})


_OFFERS = sa.select(*columns_of(ShareTransfer, t))
_FIND = _OFFERS.where(t.c.id == sa.bindparam("transfer"))


def delete(tx: Tx, transfer_id: str) -> bool:
    """Take it away; False when somebody was faster."""
    return tx.execute(_DELETE, {"transfer": transfer_id}).rowcount == 1


_DELETE = sa.delete(t).where(t.c.id == sa.bindparam("transfer"))


def expired(tx: Tx, most: int) -> list[ShareTransfer]:
    """Those whose time is over."""
    return tx.entities(ShareTransfer, _EXPIRED, {"until": tx.now, "most": most})


_EXPIRED = planned_for_values(
    _OFFERS.where(t.c.expires_at <= sa.bindparam("until")).order_by(t.c.expires_at).limit(sa.bindparam("most"))
)


def expiry(tx: Tx, retention_s: float) -> datetime.datetime:
    """Until when an offer stands that is made now."""
    return tx.now + datetime.timedelta(seconds=retention_s)
