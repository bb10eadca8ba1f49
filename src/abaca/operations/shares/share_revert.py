# SPDX-License-Identifier: Apache-2.0
"""Take a share back to its newest snapshot; what was written since is gone.

It holds the share, its instance and the snapshot, so that nothing else happens to any of them meanwhile. The size
stays, and so does who may reach it. What can go wrong: the back end refuses or stays away for long; then the share is
`reverting_error`, since its content may be either, the snapshot is available again, and a message says why. Reverting
again tries again. The claim under faults: it always ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.journal import keys
from abaca.db.shares import instance_access_rules, share_instances, shares, snapshot_instances, snapshots
from abaca.domain.administration.messages import Action, Detail
from abaca.domain.shares import snapshots as rules
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.journal.interruptions import Wait
from abaca.operations import events
from abaca.operations.parts import DRIVER_CALL_S, BackEnd
from abaca.operations.shares.share_instances import contract_rules, keys_of_share, notify_project, target_of
from abaca.operations.shares.snapshot_instances import changed_snapshot, found

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.shares.shares import Share
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester

# How often a back end that takes its time is looked at, in seconds.
LOOK_S = 5.0


class Args(msgspec.Struct, frozen=True):
    """The share instance, and what the driver is told of the snapshot and of who may reach the share."""

    instance: contract.ShareInstance
    source: contract.Snapshot
    snapshot_id: str
    rules: tuple[contract.AccessRule, ...]


def start(tx: Tx, share: Share, snapshot_id: str, by: Requester | None) -> str:
    """Accept it; the operation's id.

    Raises `Invalid` for a snapshot that is not the share's, `Conflict` for one that is not its newest, and while share,
    rules or snapshot are not as they must be.
    """
    shares.lock(tx, share.id)
    snapshot = snapshots.find(tx, snapshot_id)
    if snapshot is None or snapshot.share_id != share.id:
        raise errors.Invalid(f"Share {share.id} has no snapshot {snapshot_id}.")
    rules.check_revert(snapshot, snapshots.of_share(tx, share.id, 1)[0].id, share.size)
    in_force = contract_rules(instance_access_rules.in_force(tx, [share.instance_id]).get(share.instance_id))
    if in_force is None:
        raise errors.Conflict(f"Access rules of share {share.id} are on their way or in error; wait, or deny those.")
    share_instances.move(tx, share.instance_id, "revert")
    snapshot_instances.move(tx, snapshot.instance_id, "restore")
    known = found(tx, snapshot.instance_id)
    instance = known.snapshot.instance
    held = [*keys_of_share(share.id, [instance.id]), keys.key(snapshots.KEY, snapshot_id)]
    args = Args(instance, known.snapshot, snapshot_id, tuple(in_force))
    return queueing.enqueue(tx, OPERATION, args, target_of(known.host, share.id, held), by)


def _revert(op: Op[BackEnd]) -> contract.Revert:
    return contract.Revert(snapshot=changed_snapshot(op, op.args.source), rules=op.args.rules)


def _reverting(op: Op[BackEnd]) -> contract.Reverts:
    if not isinstance(op.parts.driver, contract.Reverts):
        raise errors.BackendError(reason="it cannot take a share back to a snapshot")
    return op.parts.driver


def begin_on_backend(op: Op[BackEnd]) -> None:
    """The back end begins."""
    _reverting(op).start_revert(_revert(op))


def cancel_on_backend(op: Op[BackEnd]) -> None:
    """The share keeps what it has, where that can still be had."""
    if isinstance(op.parts.driver, contract.Reverts):
        op.parts.driver.cancel_revert(_revert(op))


def wait_for_backend(op: Op[BackEnd]) -> None:
    """Until only the end is left."""
    progress = _reverting(op).look_at_revert(_revert(op))
    if not progress.is_done:
        op.progress(progress.percent, 100)
        raise Wait(progress.details or "the share to be taken back", look_again_s=LOOK_S)


def finish_on_backend(op: Op[BackEnd]) -> None:
    """The share's content is the snapshot's."""
    _reverting(op).end_revert(_revert(op))


def succeed(op: Op[BackEnd], tx: Tx) -> None:
    """It can be used again, as it was then."""
    share_instances.try_move(tx, op.args.instance.id, "reverted")
    snapshot_instances.try_move(tx, op.args.source.id, "restored")


def fail(op: Op[BackEnd], tx: Tx, error: errors.AbacaError) -> None:
    """What it has now nobody knows for sure."""
    share_instances.try_move(tx, op.args.instance.id, "failed", "reverting")
    snapshot_instances.try_move(tx, op.args.source.id, "failed", "restoring")
    notify_project(op, tx, op.args.instance, (Action.REVERT, Detail.UNKNOWN_ERROR), error.message)


OPERATION = kinds.operation(
    kind="share-revert",
    resource="share",
    args=Args,
    parts=BackEnd,
    steps=(
        kinds.Step(begin_on_backend, undo=cancel_on_backend, within_s=DRIVER_CALL_S),
        kinds.Step(wait_for_backend, undo=kinds.nothing, within_s=DRIVER_CALL_S),
        kinds.Step(finish_on_backend, undo=kinds.nothing, within_s=DRIVER_CALL_S),
    ),
    succeed=succeed,
    fail=fail,
    cancellable=False,
    notifies=kinds.Notification(name="share.revert", payload=events.share),
)
