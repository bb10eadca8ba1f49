# SPDX-License-Identifier: Apache-2.0
"""What an operation that goes through many things found of each that needs saying; forgotten with it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from abaca.db.engine import lists
from abaca.db.engine.database import Tx
from abaca.db.tables.journal import operation_findings as t
from abaca.domain.ids import new_id


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Of one share instance: what kind of finding, and why."""

    kind: str
    share_id: str
    instance_id: str
    why: str


def add_many(tx: Tx, op_id: str, found: Sequence[Found]) -> None:
    """Remember these, in one statement."""
    if found:
        tx.execute(_ADD, [_row(tx, op_id, one) for one in found])


def _row(tx: Tx, op_id: str, one: Found) -> dict[str, object]:
    return {
        "id": new_id(),
        "operation_id": op_id,
        "kind": one.kind,
        "share_id": one.share_id,
        "share_instance_id": one.instance_id,
        "why": one.why,
        "created_at": tx.now,
    }


_ADD = sa.insert(t).inline()


def named(tx: Tx, op_id: str, instance_ids: Sequence[str]) -> dict[str, Found]:
    """What an operation has found of these instances, by their ids."""
    if not instance_ids:
        return {}
    rows = tx.rows(_NAMED, {"op": op_id, "instances": instance_ids})
    found = (
        Found(kind=row.kind, share_id=row.share_id, instance_id=row.share_instance_id, why=row.why) for row in rows
    )
    return {one.instance_id: one for one in found}


_NAMED = sa.select(t.c.kind, t.c.share_id, t.c.share_instance_id, t.c.why).where(
    t.c.operation_id == sa.bindparam("op"), t.c.share_instance_id.in_(sa.bindparam("instances", expanding=True))
)


def forget(tx: Tx, op_id: str) -> None:
    """All of an operation that begins anew."""
    tx.execute(sa.delete(t).where(t.c.operation_id == op_id))


FINDINGS = lists.Listing(
    t,
    filters={name: lists.equal(t.c[name]) for name in ("operation_id", "kind", "share_id")},
    sorts=("created_at",),
)
