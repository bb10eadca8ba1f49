# SPDX-License-Identifier: Apache-2.0
"""Locks on shares and access rules. They go with what they lock: the foreign keys see to that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from abaca.db.engine.database import Tx
from abaca.db.engine.lists import Listing, Unindexed, before, contains, equal, since, steady
from abaca.db.engine.statements import columns_of
from abaca.db.tables.administration import LOCK_OF_ANY_PROJECT
from abaca.db.tables.administration import resource_locks as t
from abaca.domain.administration.resource_locks import ACCESS_RULE, DELETE, SHARE, SHOW, ResourceLock
from abaca.domain.ids import new_id

_EQUAL = ("user_id", "lock_context", "resource_type", "resource_action")

LOCKS = Listing(
    t,
    filters={
        **{name: equal(t.c[name]) for name in (*_EQUAL, "lock_reason")},
        **{name: steady(equal(t.c[name])) for name in ("project_id", "resource_id")},
        "lock_reason_like": contains(t.c.lock_reason),
        "created_since": since(t.c.created_at),
        "created_before": before(t.c.created_at),
    },
    sorts={
        "created_at": ("created_at", "id"),
        "id": ("id",),
        "project_id": ("project_id", "created_at", "id"),
        **{name: (name, "created_at", "id") for name in _EQUAL},
        **dict.fromkeys(("updated_at", "resource_id", "lock_reason"), ()),
    },
    # opens the index over all projects (db/tables)
    unless=(frozenset({"id", "project_id"}), LOCK_OF_ANY_PROJECT),
    unindexed=Unindexed(("lock_reason", "lock_reason_like", "by lock_reason", "by updated_at")),
)


def add(tx: Tx, values: Mapping[str, object]) -> str:
    """A new lock; its id."""
    lock_id = new_id()
    tx.execute(_ADD, {**_NEW, "id": lock_id, "created_at": tx.now, **values})
    return lock_id


_NEW: dict[str, None] = {"access_rule_id": None, "because_of": None, "lock_reason": None}
_ADD = sa.insert(t).inline()


def update(tx: Tx, lock_id: str, values: Mapping[str, object]) -> None:
    """Change its reason or its action."""
    tx.change(t, lock_id, values)


def delete(tx: Tx, lock_id: str) -> None:
    """Take it away, and what it put on the share."""
    tx.execute(_DELETE, {"lock": lock_id})


def delete_consequence(tx: Tx, lock_id: str) -> None:
    """Take away only what it put on the share."""
    tx.execute(_DELETE_CONSEQUENCE, {"lock": lock_id})


_DELETE = sa.delete(t).where(t.c.id == sa.bindparam("lock"))
_DELETE_CONSEQUENCE = sa.delete(t).where(t.c.because_of == sa.bindparam("lock"))


def show(tx: Tx, lock_id: str) -> ResourceLock | None:
    """One lock, or None. Who may see it is the caller's business."""
    return LOCKS.entity(tx, ResourceLock, {"id": lock_id})


def of_share(tx: Tx, share_id: str) -> Sequence[ResourceLock]:
    """What keeps a share from being deleted, oldest first."""
    return tx.entities(ResourceLock, _OF_SHARE, {"share": share_id})


def of_rule(tx: Tx, rule_id: str, action: str) -> Sequence[ResourceLock]:
    """A rule's locks of one kind, oldest first."""
    return tx.entities(ResourceLock, _OF_RULE, {"rule": rule_id, "action": action})


def hiding(tx: Tx, share_id: str) -> Sequence[ResourceLock]:
    """The locks that hide rules of a share, oldest first."""
    return tx.entities(ResourceLock, _HIDING, {"share": share_id})


def hidden(tx: Tx, share_id: str) -> set[str]:
    """The ids of a share's rules that somebody hides."""
    return {lock.resource_id for lock in hiding(tx, share_id)}


_OLDEST_FIRST = sa.select(*columns_of(ResourceLock, t)).order_by(t.c.created_at, t.c.id)
_OF_SHARE = _OLDEST_FIRST.where(
    t.c.share_id == sa.bindparam("share"), t.c.resource_type == SHARE, t.c.resource_action == DELETE
)
_OF_RULE = _OLDEST_FIRST.where(
    t.c.access_rule_id == sa.bindparam("rule"), t.c.resource_action == sa.bindparam("action")
)
_HIDING = _OLDEST_FIRST.where(
    t.c.share_id == sa.bindparam("share"), t.c.resource_type == ACCESS_RULE, t.c.resource_action == SHOW
)
