# SPDX-License-Identifier: Apache-2.0
"""Make a share larger while it is in use.

Quota and the pool's room are taken when the request is accepted. What can go wrong: the back end is full or refuses;
then the share is `extending_error` at its old size, on the back end too, what was taken is given back, and a message
says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from abaca import errors
from abaca.db import messages, pools, quotas, share_instances, shares
from abaca.domain.messages import Action, Detail
from abaca.drivers import contract
from abaca.operations import journal
from abaca.operations.share_instances import service_host, told

if TYPE_CHECKING:
    from abaca.db.engine import Tx
    from abaca.operations.journal import Op, Requester


class Args(msgspec.Struct, frozen=True):
    """What the driver is told, and the size it shall have, in GiB."""

    instance: contract.ShareInstance
    new_size_gib: int
    user_id: str | None
    share_type_id: str | None
    host: str


def start(tx: Tx, share: Any, new_size_gib: int, by: Requester | None) -> str:
    """Accept it for a row with id and instance_id; the operation's id.

    The caller has taken the quota and the room in the pool in this transaction. Raises `Conflict`.
    """
    share_instances.move(tx, share.instance_id, "extend")
    row = share_instances.whole(tx, share.instance_id)
    if row is None:
        raise errors.NotFound(resource="Share", id=share.id)
    args = Args(told(row), new_size_gib, row.user_id, row.share_type_id, row.host)
    target = journal.Target(queue=service_host(row.host), key=row.share_id, resource_id=row.share_id)
    return journal.enqueue(tx, OPERATION, args, target, by)


def grow_on_backend(op: Op) -> None:
    """The back end's part."""
    if not isinstance(op.driver, contract.Resizes):
        raise contract.Refused(reason="this back end cannot change the size of a share")
    op.driver.extend(op.args.instance, op.args.new_size_gib)


def shrink_back_on_backend(op: Op) -> None:
    """What it had become before its answer was lost or the way on was barred; what it never became is so already."""
    if isinstance(op.driver, contract.Resizes):
        op.driver.shrink(op.args.instance, op.args.instance.size_gib)


def succeed(op: Op, tx: Tx) -> None:
    """The new size is the size."""
    args = op.args
    share_instances.try_move(tx, args.instance.id, "extended")
    shares.update(tx, args.instance.share_id, {"size": args.new_size_gib})


def fail(op: Op, tx: Tx, error: errors.AbacaError) -> None:
    """The old size stays, and what was taken comes back."""
    args, grown = op.args, op.args.new_size_gib - op.args.instance.size_gib
    share_instances.try_move(tx, args.instance.id, "failed")
    messages.record(
        tx,
        messages.About(op.project_id, op.request_id, "SHARE", args.instance.share_id),
        Action.EXTEND,
        Detail.DRIVER_FAILED_EXTEND,
        reason=error.message,
    )
    quotas.give_back(tx, args.instance.project_id, args.user_id, args.share_type_id, {"gigabytes": grown})
    pools.release(tx, args.host, grown)


OPERATION = journal.operation(
    kind="share-extend",
    resource="share",
    args=Args,
    steps=(journal.Step(grow_on_backend, undo=shrink_back_on_backend),),
    succeed=succeed,
    fail=fail,
    cancellable=False,
)
