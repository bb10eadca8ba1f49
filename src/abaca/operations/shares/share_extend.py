# SPDX-License-Identifier: Apache-2.0
"""Make a share larger while it is in use.

Quota and the pool's room are taken when the request is accepted. What can go wrong: the back end is full or refuses;
then the share is `extending_error` at its old size, on the back end too, what was taken is given back, and a message
says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from abaca.db.administration import pools
from abaca.db.catalog import quotas
from abaca.db.shares import share_instances, shares
from abaca.domain.administration.messages import Action, Detail
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
    """Accept it; by how many GiB it grows.

    The caller takes the quota and the room in the pool for them in this transaction. Raises `Conflict`, `Invalid`.
    """
    return share_resize.start(tx, OPERATION, "extend", share, new_size_gib, by)


def grow_on_backend(op: Op[BackEnd]) -> None:
    """The back end's part."""
    share_resize.resizing(op).extend(changed_by(op, op.args.instance), op.args.new_size_gib)


def succeed(op: Op[BackEnd], tx: Tx) -> None:
    """The new size is the size."""
    args = op.args
    # in the order in which others lock these: shares before instances
    shares.update(tx, args.instance.share_id, {"size": args.new_size_gib})
    share_instances.try_move(tx, args.instance.id, "extended")


def fail(op: Op[BackEnd], tx: Tx, error: errors.AbacaError) -> None:
    """The old size stays, and what was taken comes back."""
    args, instance = op.args, op.args.instance
    share_instances.try_move(tx, instance.id, "failed", "extending")
    notify_project(op, tx, instance, (Action.EXTEND, Detail.DRIVER_FAILED_EXTEND), error.message)
    taken = {"gigabytes": args.difference_gib}
    quotas.give_back(tx, instance.project_id, args.user_id, args.share_type_id, taken)
    pools.release(tx, args.host, args.difference_gib)


OPERATION = kinds.operation(
    kind="share-extend",
    resource="share",
    args=share_resize.Args,
    parts=BackEnd,
    steps=(kinds.Step(grow_on_backend, undo=share_resize.back_on_backend, within_s=DRIVER_CALL_S),),
    succeed=succeed,
    fail=fail,
    cancellable=False,
    notifies=kinds.Notification(name="share.extend", payload=events.resized_share),
)
