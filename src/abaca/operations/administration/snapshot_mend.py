# SPDX-License-Identifier: Apache-2.0
"""Take away on its back end what is left of a snapshot that is gone, or was never taken as it should be.

Queued when a call about a snapshot may have come too late. It runs under the keys of the snapshot and of its share, and
looks at the database anew: of one that is there only the access rules are set again. What can go wrong: the back end
stays away, or refuses; then it fails with a message. The claim under faults: it always ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca.db.journal import keys, operations
from abaca.db.shares import shares, snapshot_instances, snapshots
from abaca.domain.administration.messages import Action, Detail
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.operations.parts import DRIVER_CALL_S, BackEnd
from abaca.operations.shares import snapshot_access_sync, snapshot_delete
from abaca.operations.shares.share_instances import keys_of_share
from abaca.operations.shares.snapshot_instances import changed_snapshot, notify_project, taking

if TYPE_CHECKING:
    from abaca import errors
    from abaca.db.engine.database import Tx
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


class Args(msgspec.Struct, frozen=True):
    """The snapshot as it was known."""

    snapshot: contract.Snapshot
    snapshot_id: str


def start(tx: Tx, args: Args, host: str, by: Requester | None) -> str:
    """Queue it for a snapshot on `host` (host@backend), or join the one that nobody has begun; its id."""
    snapshot = args.snapshot
    instance = snapshot.instance
    known = msgspec.structs.replace(snapshot, instance=msgspec.structs.replace(instance, generation=None))
    target = queueing.Target(
        queue=host,
        keys=[keys.key(snapshots.KEY, args.snapshot_id), *keys_of_share(instance.share_id, [instance.id])],
        resource_id=args.snapshot_id,
        coalesce_key=f"mend-snapshot:{snapshot.id}",
    )
    return queueing.enqueue(tx, OPERATION, Args(known, args.snapshot_id), target, by)


def look(op: Op[BackEnd], tx: Tx) -> None:
    """Say whether the back end shall have it."""
    row = snapshot_instances.whole(tx, op.args.snapshot.id)
    if row is None:
        op.record(is_gone=_is_deleted(tx, op.args.snapshot_id))
    else:
        # one that was taken has its data, whatever status an operator gives it
        op.record(is_gone=row.status == "error" and row.progress != "100%" and bool(row.size))


def _is_deleted(tx: Tx, snapshot_id: str) -> bool:
    """Whether an operation of ours has deleted what the back end held; what was released stays there."""
    done = operations.done_on(tx, [snapshot_id], [snapshot_delete.OPERATION.kind])
    return any(msgspec.convert(one.args, Held).is_held for one in done)


class Held(msgspec.Struct):
    """What the arguments of a deletion say of the snapshot."""

    is_held: bool = True


def look_away(_op: Op[BackEnd], _tx: Tx) -> None:
    """Nothing was taken."""


def remove_from_backend(op: Op[BackEnd]) -> None:
    """What is left of one that is gone."""
    if op.data["is_gone"]:
        taking(op).delete_snapshot(changed_snapshot(op, op.args.snapshot))


def succeed(op: Op[BackEnd], tx: Tx) -> None:
    """Who may mount one that is there goes to the back end once more."""
    snapshot = snapshots.find(tx, op.args.snapshot_id)
    share = None if snapshot is None else shares.find(tx, snapshot.share_id)
    if snapshot is not None and share is not None and share.mount_snapshot_support and not op.data["is_gone"]:
        snapshot_access_sync.start(tx, snapshot, op)


def fail(op: Op[BackEnd], tx: Tx, error: errors.AbacaError) -> None:
    """It is told: something may be left."""
    notify_project(op, tx, op.args, (Action.DELETE, Detail.UNKNOWN_ERROR), error.message)


OPERATION = kinds.operation(
    kind="snapshot-mend",
    resource="snapshot",
    args=Args,
    parts=BackEnd,
    steps=(
        kinds.DatabaseStep(look, undo=look_away),
        kinds.Step(remove_from_backend, undo=kinds.nothing, within_s=DRIVER_CALL_S),
    ),
    succeed=succeed,
    fail=fail,
    cancellable=False,
)
