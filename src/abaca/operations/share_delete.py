# SPDX-License-Identifier: Apache-2.0
"""Take a share away: first the back end's part, then its rows and what it took of quota and pool, in one transaction.

Accepted means it goes. What can go wrong: the back end refuses or stays away for long; then the share is
`error_deleting` with a message, nothing of it is forgotten, and deleting again tries again. The claim under faults:
it always ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from abaca import errors
from abaca.db import access_rules, export_location_history, pools, quotas, share_instances, shares
from abaca.db.export_location_history import NOBODY, Cause
from abaca.domain.messages import Action, Detail
from abaca.drivers import contract
from abaca.operations import events, journal
from abaca.operations.share_instances import service_host, tell, told

if TYPE_CHECKING:
    from abaca.db.engine import Tx
    from abaca.operations.journal import Op, Requester


class Args(msgspec.Struct, frozen=True):
    """What the driver is told."""

    instance: contract.ShareInstance


def start(tx: Tx, share: Any, by: Requester | None, *, event: str = "delete") -> str | None:
    """Accept the deletion of a row with id, instance_id and host; the operation's id.

    None when no back end ever had it: then it is gone at once. Raises `Conflict` where its status forbids `event`.
    """
    share_instances.move(tx, share.instance_id, event)
    row = share_instances.whole(tx, share.instance_id)
    if row is None:
        raise errors.NotFound(resource="Share", id=share.id)
    if row.host is None:
        events.tell_share(tx, "share.delete.start", row.share_id, by)
        events.tell_share(tx, "share.delete.end", row.share_id, by, status="deleted")
        _forget(tx, row)
        return None
    target = journal.Target(queue=service_host(row.host), key=row.share_id, resource_id=row.share_id)
    return journal.enqueue(tx, OPERATION, Args(instance=told(row)), target, by)


def delete_on_backend(op: Op) -> None:
    """The export first, then the data."""
    op.driver.delete(op.args.instance)


def succeed(op: Op, tx: Tx) -> None:
    """Forget it, and give back what it took."""
    row = share_instances.whole(tx, op.args.instance.id)
    if row is not None:
        _forget(tx, row, Cause(op.id, op.what.kind))


def _forget(tx: Tx, row: Any, cause: Cause = NOBODY) -> None:
    # the share, its rules, its instance: in the order in which those who change its rules lock them
    shares.lock(tx, row.share_id)
    access_rules.lock(tx, row.share_id)
    export_location_history.end_of_instance(tx, row.id, cause)
    share_instances.delete(tx, row.id)
    if share_instances.INSTANCES.one(tx, ("id",), {"share_id": row.share_id}) is None:
        shares.delete(tx, row.share_id)
        quotas.give_back(tx, row.project_id, row.user_id, row.share_type_id, {"shares": 1, "gigabytes": row.size})
    if row.host is not None:
        pools.release(tx, row.host, row.size, row.created_at)


def fail(op: Op, tx: Tx, error: errors.AbacaError) -> None:
    """It stays, in error, for another try."""
    share_instances.try_move(tx, op.args.instance.id, "failed")
    tell(op, tx, op.args.instance, (Action.DELETE, Detail.UNKNOWN_ERROR), error.message)


OPERATION = journal.operation(
    kind="share-delete",
    resource="share",
    args=Args,
    steps=(journal.Step(delete_on_backend, undo=journal.nothing),),
    succeed=succeed,
    fail=fail,
    cancellable=False,
    tells=events.Telling(name="share.delete", payload=events.share, removes=True),
)
