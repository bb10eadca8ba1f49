# SPDX-License-Identifier: Apache-2.0
"""Messages to users: written by what failed, read and deleted by their project, gone when they expire."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from abaca.db.engine.database import Tx
from abaca.db.engine.lists import Listing, before, equal, since, steady
from abaca.db.engine.statements import planned_for_values
from abaca.db.tables.administration import messages as t
from abaca.domain.administration.messages import ERROR, About, Action, Detail, Message
from abaca.domain.ids import new_id

__all__ = ["MESSAGES", "About", "Action", "Detail", "delete", "expire", "record", "show"]

_EQUAL = ("request_id", "resource_type", "action_id", "detail_id", "message_level")

MESSAGES = Listing(
    t,
    # how long they stay is a setting, the same for all
    columns={"expires_at": t.c.created_at},
    filters={
        "project_id": steady(equal(t.c.project_id)),
        "resource_id": steady(equal(t.c.resource_id)),
        **{name: equal(t.c[name]) for name in _EQUAL},
        "created_since": since(t.c.created_at),
        "created_before": before(t.c.created_at),
    },
    sorts={
        "created_at": ("created_at", "id"),
        "expires_at": ("created_at", "id"),
        "id": ("id",),
        "project_id": ("project_id", "created_at", "id"),
        "resource_id": (),
        **{name: (name, "created_at", "id") for name in _EQUAL},
    },
)

_ADD = sa.insert(t).inline()


def show(tx: Tx, message_id: str) -> Message | None:
    """One message, or None. Who may read it is the caller's business."""
    return MESSAGES.entity(tx, Message, {"id": message_id})


def record(tx: Tx, about: About, action: Action, detail: Detail, *, reason: str | None = None) -> str | None:
    """Tell a project's users what went wrong; the message's id. `reason` says what was special about this case."""
    if about.project_id is None:
        return None
    message = _message(tx, about.project_id, about, (action, detail), reason)
    tx.execute(_ADD, msgspec.structs.asdict(message))
    return message.id


def record_many(tx: Tx, reasons: Sequence[tuple[About, str | None]], action: Action, detail: Detail) -> None:
    """The same about many things, each with its reason."""
    found = [
        _message(tx, about.project_id, about, (action, detail), reason)
        for about, reason in reasons
        if about.project_id is not None
    ]
    if found:
        tx.execute(_ADD, [msgspec.structs.asdict(one) for one in found])


def _message(tx: Tx, project_id: str, about: About, cause: tuple[Action, Detail], reason: str | None) -> Message:
    return Message(
        id=new_id(),
        project_id=project_id,
        request_id=about.request_id,
        resource_type=about.resource_type,
        resource_id=about.resource_id,
        action_id=cause[0].value,
        detail_id=cause[1].value,
        message_level=ERROR,
        reason=reason,
        created_at=tx.now,
    )


_DELETE = sa.delete(t).where(t.c.id == sa.bindparam("message"))
_OLD = sa.select(t.c.id).where(t.c.created_at <= sa.bindparam("until")).limit(sa.bindparam("most"))
_EXPIRE = planned_for_values(sa.delete(t).where(t.c.id.in_(_OLD)))


def delete(tx: Tx, message_id: str) -> bool:
    """Remove a message; False when it is gone already."""
    return tx.execute(_DELETE, {"message": message_id}).rowcount > 0


def expire(tx: Tx, keep_s: float, most: int = 1000) -> int:
    """Remove messages that are older than `keep_s`, at most so many; how many it were."""
    until = tx.now - datetime.timedelta(seconds=keep_s)
    return int(tx.execute(_EXPIRE, {"until": until, "most": most}).rowcount)
