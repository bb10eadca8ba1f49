# SPDX-License-Identifier: Apache-2.0
"""Give a snapshot up: its rows go, and what it took of quota; on its back end it stays, mounted by whoever could.

So does the share server that exports it, which is not deleted by itself any more.

What can go wrong: the back end stays away for long; then the snapshot is `unmanage_error` with a message, and
unmanaging it again tries again. The claim under faults: it always ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from abaca import errors
from abaca.db.shares import share_instances, snapshot_instances
from abaca.domain.administration.messages import Action, Detail
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.operations import events
from abaca.operations.parts import DRIVER_CALL_S, BackEnd
from abaca.operations.shares.share_delete import refuse_replicated
from abaca.operations.shares.snapshot_instances import Args, changed_snapshot, forget, found, notify_project

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.shares.snapshots import Snapshot
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


class OnShareServer(errors.Forbidden):
    """Snapshot {id} is on share server {server}; from version 2.49 on such a snapshot can be released."""


def start(tx: Tx, snapshot: Snapshot, by: Requester | None, *, also_on_servers: bool = True) -> str:
    """Accept it, for a snapshot whose row is locked; the operation's id.

    Raises `Conflict` where its status forbids it, `HasReplicas`, `OnShareServer`, `NotFound` where it has just gone.
    """
    refuse_replicated(tx, snapshot.share_id)
    args = found(tx, snapshot.instance_id)
    server = args.snapshot.instance.server
    if server is not None and args.is_held and not also_on_servers:
        raise OnShareServer(id=snapshot.id, server=server.id)
    snapshot_instances.move(tx, snapshot.instance_id, "unmanage")
    return queueing.enqueue(tx, OPERATION, args, args.target, by)


def unmanage_on_backend(op: Op[BackEnd]) -> None:
    """The back end forgets whose it is; one that takes no snapshots over has nothing to forget."""
    if isinstance(op.parts.driver, contract.ManagesSnapshots):
        op.parts.driver.unmanage_snapshot(changed_snapshot(op, op.args.snapshot))


def succeed(op: Op[BackEnd], tx: Tx) -> None:
    """Forget it, and give back what it took."""
    row = snapshot_instances.whole(tx, op.args.snapshot.id)
    if row is not None:
        instance = share_instances.whole(tx, row.share_instance_id)
        forget(tx, row, None if instance is None else instance.share_type_id)


def fail(op: Op[BackEnd], tx: Tx, error: errors.AbacaError) -> None:
    """It stays, for another try."""
    snapshot_instances.try_move(tx, op.args.snapshot.id, "failed", "unmanage_starting")
    notify_project(op, tx, op.args, (Action.UNMANAGE, Detail.NOT_UNMANAGED), error.message)


OPERATION = kinds.operation(
    kind="snapshot-unmanage",
    resource="snapshot",
    args=Args,
    parts=BackEnd,
    steps=(kinds.Step(unmanage_on_backend, undo=kinds.nothing, within_s=DRIVER_CALL_S),),
    succeed=succeed,
    fail=fail,
    cancellable=False,
    notifies=kinds.Notification(name="snapshot.unmanage", payload=events.snapshot, gone={"status": "unmanaged"}),
)
