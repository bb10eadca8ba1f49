# SPDX-License-Identifier: Apache-2.0
"""Take a snapshot away: first the back end's part, then its rows and what it took of quota, in one transaction.

Accepted means it goes. What can go wrong: the back end refuses or stays away for long; then the snapshot is
`error_deleting` with a message, and deleting again tries again. The claim under faults: it always ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from abaca.db.shares import share_instances, snapshot_instances
from abaca.domain.administration.messages import Action, Detail
from abaca.journal import kinds, queueing
from abaca.operations import events
from abaca.operations.parts import DRIVER_CALL_S, BackEnd
from abaca.operations.shares.snapshot_instances import Args, forget, found, notify_project, take_away

if TYPE_CHECKING:
    from abaca import errors
    from abaca.db.engine.database import Tx
    from abaca.domain.shares.snapshots import Snapshot
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


def start(tx: Tx, snapshot: Snapshot, by: Requester | None, *, event: str = "delete") -> str:
    """Accept it; the operation's id. Raises `Conflict` where the snapshot's status forbids `event`, `NotFound`."""
    snapshot_instances.move(tx, snapshot.instance_id, event)
    args = found(tx, snapshot.instance_id)
    return queueing.enqueue(tx, OPERATION, args, args.target, by)


def delete_on_backend(op: Op[BackEnd]) -> None:
    """Its export first, then the data."""
    take_away(op, op.args.snapshot, is_held=op.args.is_held)


def succeed(op: Op[BackEnd], tx: Tx) -> None:
    """Forget it, and give back what it took."""
    row = snapshot_instances.whole(tx, op.args.snapshot.id)
    if row is not None:
        instance = share_instances.whole(tx, row.share_instance_id)
        forget(tx, row, None if instance is None else instance.share_type_id)


def fail(op: Op[BackEnd], tx: Tx, error: errors.AbacaError) -> None:
    """It stays, in error, for another try."""
    snapshot_instances.try_move(tx, op.args.snapshot.id, "failed", "deleting")
    notify_project(op, tx, op.args, (Action.DELETE, Detail.UNKNOWN_ERROR), error.message)


OPERATION = kinds.operation(
    kind="snapshot-delete",
    resource="snapshot",
    args=Args,
    parts=BackEnd,
    steps=(kinds.Step(delete_on_backend, undo=kinds.nothing, within_s=DRIVER_CALL_S),),
    succeed=succeed,
    fail=fail,
    cancellable=False,
    notifies=kinds.Notification(name="snapshot.delete", payload=events.snapshot, gone={"status": "deleted"}),
)
