# SPDX-License-Identifier: Apache-2.0
"""Writing operations down: one is queued in the transaction of whoever wants it, and exists if that commits."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca.db.journal import operations as rows
from abaca.db.journal import waits
from abaca.domain.ids import new_id
from abaca.journal import events

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.journal.interruptions import Wait
    from abaca.journal.kinds import Operation
    from abaca.journal.requester import Requester


class Target(msgspec.Struct, frozen=True):
    """Where an operation runs and what it is about.

    It runs when it is the oldest unfinished one on each of its `keys` (db/journal/keys.py). Of those that have the same
    `coalesce_key` only one is ever queued: it does the work of all.
    """

    queue: str
    keys: Sequence[str]
    resource_id: str
    coalesce_key: str | None = None


def enqueue(
    tx: Tx, what: Operation, args: msgspec.Struct, target: Target, by: Requester | None, *, wait: Wait | None = None
) -> str:
    """Write the operation into the caller's transaction; its id. With `wait` it is begun when that is so."""
    row = row_of(what, args, target, by)
    if wait is not None:
        row["not_before"] = tx.now.replace(tzinfo=datetime.UTC).timestamp() + wait.look_again_s
        row["wait"] = {"what": wait.what}
    op_id = row["id"] = new_id()
    found = rows.add(tx, row)
    if found == op_id:  # otherwise one that waits already takes this with it, and has told
        if wait is not None:
            waits.add(tx, op_id, wait.conditions)
        announce(tx, what, target, args, by)
    return found


def announce(tx: Tx, what: Operation, target: Target, args: msgspec.Struct, by: Requester | None) -> None:
    """Tell those who want its events that it is queued."""
    if what.notifies is not None and tx.subscriptions is not None:
        events.accepted(tx, what.notifies, (what.resource, target.resource_id), args, by)


def enqueue_many(tx: Tx, what: Operation, found: Iterable[tuple[msgspec.Struct, Target]], by: Requester | None) -> None:
    """The same for many that all coalesce, in a few statements."""
    rows.add_many(tx, [row_of(what, args, target, by) for args, target in found])


def row_of(what: Operation, args: msgspec.Struct, target: Target, by: Requester | None) -> rows.NewOperation:
    """The columns that a new operation sets."""
    return {
        "kind": what.kind,
        "queue": target.queue,
        "keys": list(target.keys),
        "coalesce_key": target.coalesce_key,
        "args": msgspec.to_builtins(args),
        "resource_type": what.resource,
        "resource_id": target.resource_id,
        "request_id": by.request_id if by else None,
        "project_id": by.project_id if by else None,
        "user_id": by.user_id if by else None,
    }
