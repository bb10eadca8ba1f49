# SPDX-License-Identifier: Apache-2.0
"""Take a share away: first the back end's part, then its rows and what it took of quota and pool, in one transaction.

Accepted means it goes. What can go wrong: the back end refuses or stays away for long; then the share is
`error_deleting` with a message, nothing of it is forgotten, and deleting again tries again. The claim under faults:
it always ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.administration import pools
from abaca.db.attachments import attachments
from abaca.db.catalog import quotas
from abaca.db.shares import (
    access_rules,
    driver_data,
    export_location_history,
    instance_access_rules,
    share_instances,
    shares,
)
from abaca.db.shares.export_location_history import NOBODY, Cause
from abaca.domain.administration.messages import Action, Detail
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.journal.interruptions import Wait
from abaca.operations import events
from abaca.operations.administration import resource_locks
from abaca.operations.attachments import attachment_detach
from abaca.operations.parts import DRIVER_CALL_S, BackEnd
from abaca.operations.shares.share_instances import target_of, tell, told

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.shares.share_instances import ShareInstance
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


class Args(msgspec.Struct, frozen=True):
    """What the driver is told."""

    instance: contract.ShareInstance


class Attached(errors.Conflict):
    """Share {id} is attached to servers and stays: {attachments}. Detach it first."""


class StillAttached(errors.Conflict):
    """The share is still attached to servers: {reason}"""


# How long it waits for its servers to let go of it, in seconds.
DETACHED_WITHIN_S = 240.0


def start(tx: Tx, share_id: str, instance_id: str, by: Requester | None, *, event: str = "delete") -> str | None:
    """Accept the deletion of an instance of a share, and with the last one of the share; the operation's id.

    None when no back end ever had it: then it is gone at once. Raises `Conflict` where its status forbids `event`,
    `Locked` where somebody has locked it, and `Attached` where servers use it; with `force_delete` those are made to
    let go of it first.
    """
    shares.lock(tx, share_id)
    resource_locks.refuse_deletion(tx, share_id)
    if event == "force_delete":
        _detach(tx, share_id, by)
    else:
        refuse_attached(tx, share_id)
    share_instances.move(tx, instance_id, event)
    row = share_instances.whole(tx, instance_id)
    if row is None:
        raise errors.NotFound(resource="Share", id=share_id)
    if row.host is None:
        events.notify_share(tx, "share.delete.start", row.share_id, by)
        events.notify_share(tx, "share.delete.end", row.share_id, by, status="deleted")
        _forget(tx, row)
        return None
    target = target_of(row.share_id, row.host)
    return queueing.enqueue(tx, OPERATION, Args(instance=told(row)), target, by)


def refuse_attached(tx: Tx, share_id: str) -> None:
    """Raises `Attached`, naming the attachments, when the share has any."""
    found = [f"{row.id} (server {row.server_id}, {row.mount_point})" for row in attachments.of_share(tx, share_id)]
    if found:
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        raise Attached(id=share_id, attachments=", ".join(found[:5]) + more)


def _detach(tx: Tx, share_id: str, by: Requester | None) -> None:
    for row in attachments.of_share(tx, share_id):
        attachment_detach.start(tx, row, by, force=True)


def _check_detached(op: Op[BackEnd]) -> None:
    """Not before all servers have let go of it: only a forced deletion finds any."""
    with op.db.read() as tx:
        left = [row.id for row in attachments.of_share(tx, op.args.instance.share_id)]
    if left:
        still = StillAttached(reason=", ".join(left[:5]))
        what = f"share {op.args.instance.share_id} to be detached from {len(left)} servers"
        detached = attachments.detached_condition(op.args.instance.share_id)
        raise Wait(what, conditions=[detached], within_s=DETACHED_WITHIN_S, error=still)


def delete_on_backend(op: Op[BackEnd]) -> None:
    """The export first, then the data."""
    _check_detached(op)
    op.parts.driver.delete(op.args.instance)


def succeed(op: Op[BackEnd], tx: Tx) -> None:
    """Forget it, and give back what it took."""
    row = share_instances.whole(tx, op.args.instance.id)
    if row is not None:
        _forget(tx, row, Cause(op.id, op.what.kind))


def _forget(tx: Tx, row: ShareInstance, cause: Cause = NOBODY) -> None:
    # the share, its rules, its instance: in the order in which those who change its rules lock them
    shares.lock(tx, row.share_id)
    access_rules.lock(tx, row.share_id)
    export_location_history.end_of_instance(tx, row.id, cause)
    if row.driver_data is not None:
        driver_data.forget(tx, row.id)
    share_instances.delete(tx, row.id)
    if share_instances.INSTANCES.one(tx, ("id",), {"share_id": row.share_id}) is None:
        shares.delete(tx, row.share_id)
        quotas.give_back(tx, row.project_id, row.user_id, row.share_type_id, {"shares": 1, "gigabytes": row.size})
    else:
        instance_access_rules.forget_dropped(tx, row.share_id)
    if row.host is not None:
        pools.release(tx, row.host, row.size, row.created_at)


def fail(op: Op[BackEnd], tx: Tx, error: errors.AbacaError) -> None:
    """It stays, in error, for another try."""
    share_instances.try_move(tx, op.args.instance.id, "failed")
    tell(op, tx, op.args.instance, (Action.DELETE, Detail.UNKNOWN_ERROR), error.message)


OPERATION = kinds.operation(
    kind="share-delete",
    resource="share",
    args=Args,
    parts=BackEnd,
    steps=(kinds.Step(delete_on_backend, undo=kinds.nothing, within_s=DRIVER_CALL_S),),
    succeed=succeed,
    fail=fail,
    cancellable=False,
    notifies=kinds.Notification(name="share.delete", payload=events.share, gone={"status": "deleted"}),
)
