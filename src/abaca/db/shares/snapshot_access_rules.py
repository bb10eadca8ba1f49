# SPDX-License-Identifier: Apache-2.0
"""Who may mount a snapshot, and how far that is so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa

from abaca import errors
from abaca.db.engine import moving
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Row, columns_of
from abaca.db.tables.shares import snapshot_access_rules as t
from abaca.db.tables.shares import snapshots
from abaca.domain.ids import new_id
from abaca.domain.shares.access_rules import AccessType

STATE = moving.Mover(t.c.state, "Snapshot access rule")


class SnapshotRule(msgspec.Struct, frozen=True, gc=False):
    """A rule of a snapshot."""

    id: str
    snapshot_id: str
    access_type: AccessType
    client: str
    is_denied: bool
    state: str


def add(tx: Tx, values: Mapping[str, object]) -> str:
    """A new rule's id. Raises `Invalid` where the snapshot has one for the same client."""
    row = {"id": new_id(), "is_denied": False, "created_at": tx.now, "updated_at": None, **values}
    if not moving.add(tx, t, row, {"state": "allow"}, unless_taken=True):
        raise errors.Invalid(f"The snapshot has an access rule of type {row['access_type']} for that client already.")
    return str(row["id"])


def find(tx: Tx, rule_id: str) -> SnapshotRule | None:
    """One rule, or None."""
    return tx.entity(SnapshotRule, _ONE, {"rule": rule_id})


_SELECT = sa.select(*columns_of(SnapshotRule, t))
_ONE = _SELECT.where(t.c.id == sa.bindparam("rule"))
_OF = t.c.snapshot_id == sa.bindparam("of_snapshot")
_OF_SNAPSHOT = _SELECT.where(_OF).order_by(t.c.created_at, t.c.id)


def shown(tx: Tx, names: tuple[str, ...], **of: str) -> Sequence[Row]:
    """The rules of a snapshot (`snapshot_id`), or one (`id`), as columns for a view."""
    statement = sa.select(*(t.c[name] for name in names)).order_by(t.c.created_at, t.c.id)
    for column, value in of.items():
        statement = statement.where(t.c[column] == value)
    return tx.rows(statement)


def deny(tx: Tx, rule_id: str) -> None:
    """It is in no later set."""
    STATE.move(tx, rule_id, "deny")
    tx.change(t, rule_id, {"is_denied": True})


def deny_all(tx: Tx, share_id: str) -> list[str]:
    """The same for the rules of all snapshots of a share; the ids of those that had any."""
    given = {"of_share": share_id, "at": tx.now}
    moved = _DENY_ALL.run(tx, given)
    tx.execute(_DENIED, given)
    return sorted({row.snapshot_id for row in moved})


_IS_OF_SHARE = t.c.snapshot_id.in_(sa.select(snapshots.c.id).where(snapshots.c.share_id == sa.bindparam("of_share")))
_DENY_ALL = STATE.moves("deny", _IS_OF_SHARE, returning=(t.c.snapshot_id,))
_DENIED = (
    sa.update(t).where(_IS_OF_SHARE, t.c.is_denied.is_(False)).values(is_denied=True, updated_at=sa.bindparam("at"))
)


def take(tx: Tx, snapshot_id: str) -> list[SnapshotRule]:
    """All rules of a snapshot, as they are now that they are worked on."""
    _TAKE.run(tx, {"of_snapshot": snapshot_id, "at": tx.now})
    _DROP.run(tx, {"of_snapshot": snapshot_id, "at": tx.now})
    return tx.entities(SnapshotRule, _OF_SNAPSHOT, {"of_snapshot": snapshot_id})


_TAKE = STATE.moves("take", _OF)
_DROP = STATE.moves("drop", _OF, t.c.is_denied.is_(True))


def finish(tx: Tx, rule_ids: Sequence[str], event: str) -> None:
    """What has become of them: `done` or `failed`."""
    STATE.move_many(tx, rule_ids, event)


def drop(tx: Tx, rule_ids: Sequence[str]) -> None:
    """These are gone."""
    if rule_ids:
        tx.execute(_DROPPED, {"rules": list(rule_ids)})


_DROPPED = sa.delete(t).where(t.c.id.in_(sa.bindparam("rules", expanding=True)))
