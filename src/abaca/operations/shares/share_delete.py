# SPDX-License-Identifier: Apache-2.0
"""Take a share away: first the back ends' part, then its rows and what it took of quota and pool, in one transaction.

It deletes the instance that speaks for the share itself, and before that starts the deletion of every other one, each
on its own back end. Accepted means it goes. What can go wrong: a back end refuses or stays away for long; then the
share is `error_deleting` with a message, nothing of what is left is forgotten, and deleting again tries again. The
claim under faults: it always ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.attachments import attachments
from abaca.db.journal import children
from abaca.db.shares import share_instances, shares, snapshot_instances, snapshots
from abaca.db.shares.export_location_history import Cause
from abaca.domain.administration.messages import Action, Detail
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.journal.interruptions import Wait
from abaca.operations import events
from abaca.operations.administration import resource_locks
from abaca.operations.attachments import attachment_detach
from abaca.operations.parts import DRIVER_CALL_S, BackEnd
from abaca.operations.shares import share_instance_delete
from abaca.operations.shares.share_instance_delete import forget, notify_deletion, take_away
from abaca.operations.shares.share_instances import contract_instance, keys_of_share, notify_project, target_of

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


class Args(msgspec.Struct, frozen=True):
    """What the driver is told, and the other instances of the share."""

    instance: contract.ShareInstance
    others: tuple[share_instance_delete.Args, ...] = ()


class Attached(errors.Forbidden):
    """Share {id} is attached to servers and stays: {attachments}. Detach it first."""


class StillAttached(errors.Conflict):
    """The share is still attached to servers: {reason}"""


class HasSnapshots(errors.Forbidden):
    """Share {id} still has snapshots: {snapshots}. Delete them first."""


class HasReplicas(errors.Conflict):
    """Share {id} has replicas. Delete the replicas before you delete the share."""


# How long it waits for its servers to let go of it, in seconds.
DETACHED_WITHIN_S = 240.0
# So many of what stands in the way are named.
_NAMED = 5


def start(tx: Tx, share_id: str, instance_id: str, by: Requester | None, *, event: str = "delete") -> str | None:
    """Accept the deletion of a share, for which that instance speaks, and of all its instances; the operation's id.

    None when no back end ever had it: then it is gone at once. Raises `Conflict` where the status of an instance
    forbids `event`, `NotFound` where it has just gone, `Locked` where somebody has locked it, `HasReplicas`,
    `HasSnapshots`, and `Attached` where servers use it; with `force_delete` those are made to let go of it first.
    """
    shares.lock(tx, share_id)
    resource_locks.refuse_deletion(tx, share_id)
    refuse_replicated(tx, share_id)
    refuse_copied(tx, share_id)
    if event == "force_delete":
        _detach(tx, share_id, by)
    else:
        refuse_attached(tx, share_id)
    found = [one.id for one in share_instances.of_share(tx, share_id)]
    if not found:
        # whoever held the lock before has taken the share away
        raise errors.NotFound(resource="Share", id=share_id)
    return _start(tx, sorted(found, key=lambda one: one != instance_id), event, by)


def start_of_instance(tx: Tx, share_id: str, instance_id: str, by: Requester | None) -> str | None:
    """Accept the forced deletion of an instance; with the last one its share goes.

    None as for `start`, which says what it raises. A server that has mounted this instance follows to another.
    """
    shares.lock(tx, share_id)
    resource_locks.refuse_deletion(tx, share_id)
    if snapshot_instances.is_on(tx, instance_id):
        refuse_copied(tx, share_id)
    if len(share_instances.of_share(tx, share_id)) == 1:
        _detach(tx, share_id, by)
        return _start(tx, [instance_id], "force_delete", by)
    share_instances.move(tx, instance_id, "force_delete")
    (row,) = share_instances.whole_of(tx, [instance_id])
    if row.host is None:
        forget(tx, row)
        return None
    return share_instance_delete.start(tx, row, by)


def _start(tx: Tx, instance_ids: Sequence[str], event: str, by: Requester | None) -> str | None:
    """The same for all instances of a share, of which the first speaks for it."""
    for instance_id in sorted(instance_ids):
        share_instances.move(tx, instance_id, event)
    whole = {row.id: row for row in share_instances.whole_of(tx, instance_ids)}
    found = [whole[instance_id] for instance_id in instance_ids]
    placed = [row for row in found if row.host is not None]
    if not placed:
        notify_deletion(tx, found[0].share_id, by)
    for row in found:
        if row.host is None:
            forget(tx, row)
    if not placed:
        return None
    first, *others = placed
    args = Args(instance=contract_instance(first), others=tuple(share_instance_delete.args_of(row) for row in others))
    held = keys_of_share(first.share_id, [row.id for row in placed])
    return queueing.enqueue(tx, OPERATION, args, target_of(first.placed().host, first.share_id, held), by)


def refuse_attached(tx: Tx, share_id: str) -> None:
    """Raises `Attached`, naming the attachments, when the share has any."""
    found = [f"{row.id} (server {row.server_id}, {row.mount_point})" for row in attachments.of_share(tx, share_id)]
    if found:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise Attached(id=share_id, attachments=", ".join(found[:_NAMED]) + more)


def refuse_copied(tx: Tx, share_id: str) -> None:
    """Raises `HasSnapshots`, naming some, when the share has any."""
    found = [one.id for one in snapshots.of_share(tx, share_id, _NAMED + 1)]
    if found:
        more = " and more" if len(found) > _NAMED else ""
        raise HasSnapshots(id=share_id, snapshots=", ".join(found[:_NAMED]) + more)


def refuse_replicated(tx: Tx, share_id: str) -> None:
    """Raises `HasReplicas` when the share has any beside the one that is written to."""
    if sum(one.replica_state is not None for one in share_instances.of_share(tx, share_id)) > 1:
        raise HasReplicas(id=share_id)


def _detach(tx: Tx, share_id: str, by: Requester | None) -> None:
    for row in attachments.of_share(tx, share_id):
        attachment_detach.start(tx, row, by, force=True)


def _check_detached(op: Op[BackEnd]) -> None:
    """Not before all servers have let go of it: only a forced deletion finds any.

    Raises `HasSnapshots` where some were taken since, because an operator had said that it is available.
    """
    with op.db.read() as tx:
        refuse_copied(tx, op.args.instance.share_id)
        left = [row.id for row in attachments.of_share(tx, op.args.instance.share_id)]
    if left:
        still = StillAttached(reason=", ".join(left[:5]))
        what = f"share {op.args.instance.share_id} to be detached from {len(left)} servers"
        detached = attachments.detached_condition(op.args.instance.share_id)
        raise Wait(what, conditions=[detached], within_s=DETACHED_WITHIN_S, error=still)


def _delete_others(op: Op[BackEnd]) -> None:
    """Start the deletion of the other instances, once, and wait until all of them are gone."""
    with op.write() as tx:
        if not children.of(tx, op.id):
            op.start(tx, share_instance_delete.OPERATION, [(one, one.target) for one in op.args.others])
    op.join()


def delete_on_backend(op: Op[BackEnd]) -> None:
    """The export first, then the data; the instance that speaks for the share is the last."""
    _check_detached(op)
    if op.args.others:
        _delete_others(op)
    take_away(op, op.args.instance)


def succeed(op: Op[BackEnd], tx: Tx) -> None:
    """Forget it, and give back what it took."""
    row = share_instances.whole(tx, op.args.instance.id)
    if row is not None:
        forget(tx, row, Cause(op.id, op.what.kind))


def fail(op: Op[BackEnd], tx: Tx, error: errors.AbacaError) -> None:
    """What is left of it stays, in error, for another try."""
    # all that nobody has come to; those whose own deletion failed say so already
    for instance_id in sorted(one.instance.id for one in (op.args, *op.args.others)):
        share_instances.try_move(tx, instance_id, "failed")
    notify_project(op, tx, op.args.instance, (Action.DELETE, Detail.UNKNOWN_ERROR), error.message)


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
