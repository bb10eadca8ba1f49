# SPDX-License-Identifier: Apache-2.0
"""Make a share smaller, never at the price of data.

What can go wrong: more is in use than the new size (the share is `available` at its old size, a message says so), or
the back end fails (`shrinking_error`). Quota and room come back only when the back end has really shrunk it. The
claim under faults: it always ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from abaca.db.administration import pools
from abaca.db.catalog import quotas
from abaca.db.shares import share_instances, shares
from abaca.domain.administration.messages import Action, Detail
from abaca.drivers import contract
from abaca.journal import kinds
from abaca.operations import events
from abaca.operations.parts import DRIVER_CALL_S, BackEnd
from abaca.operations.shares import share_resize
from abaca.operations.shares.share_instances import changed_by, notify_project

if TYPE_CHECKING:
    from abaca import errors
    from abaca.db.engine.database import Tx
    from abaca.domain.shares.shares import Share
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


def start(tx: Tx, share: Share, new_size_gib: int, by: Requester | None) -> int:
    """Accept it; by how many GiB it shrinks. Raises `Conflict`, `Invalid`."""
    return share_resize.start(tx, OPERATION, "shrink", share, new_size_gib, by)


def shrink_on_backend(op: Op[BackEnd]) -> None:
    """The back end's part; it refuses rather than lose data."""
    share_resize.resizing(op).shrink(changed_by(op, op.args.instance), op.args.new_size_gib)


def succeed(op: Op[BackEnd], tx: Tx) -> None:
    """The new size is the size, and what it gave up comes back."""
    args, instance = op.args, op.args.instance
    # in the order in which others lock these: shares before instances
    shares.update(tx, instance.share_id, {"size": args.new_size_gib})
    share_instances.try_move(tx, instance.id, "shrunk")
    freed = {"gigabytes": args.difference_gib}
    quotas.give_back(tx, instance.project_id, args.user_id, args.share_type_id, freed)
    pools.release(tx, args.host, args.difference_gib)


def fail(op: Op[BackEnd], tx: Tx, error: errors.AbacaError) -> None:
    """The old size stays."""
    is_kept = error.code == contract.Refused.code
    share_instances.try_move(tx, op.args.instance.id, "kept" if is_kept else "failed", "shrinking")
    detail = Detail.SHRINK_REFUSED if is_kept else Detail.DRIVER_FAILED_SHRINK
    notify_project(op, tx, op.args.instance, (Action.SHRINK, detail), error.message)


OPERATION = kinds.operation(
    kind="share-shrink",
    resource="share",
    args=share_resize.Args,
    parts=BackEnd,
    steps=(kinds.Step(shrink_on_backend, undo=share_resize.back_on_backend, within_s=DRIVER_CALL_S),),
    succeed=succeed,
    fail=fail,
    cancellable=False,
    notifies=kinds.Notification(name="share.shrink", payload=events.resized_share),
)
