# SPDX-License-Identifier: Apache-2.0
"""Make a share smaller, never at the price of data.

What can go wrong: more is in use than the new size (the share is `available` at its old size, a message says so), or
the back end fails (`shrinking_error`). Quota and room come back only when the back end has really shrunk it. The
claim under faults: it always ends.
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
    """Accept it for a row with id and instance_id; the operation's id. Raises `Conflict`."""
    share_instances.move(tx, share.instance_id, "shrink")
    row = share_instances.whole(tx, share.instance_id)
    if row is None:
        raise errors.NotFound(resource="Share", id=share.id)
    args = Args(told(row), new_size_gib, row.user_id, row.share_type_id, row.host)
    target = journal.Target(queue=service_host(row.host), key=row.share_id, resource_id=row.share_id)
    return journal.enqueue(tx, OPERATION, args, target, by)


def shrink_on_backend(op: Op) -> None:
    """The back end's part; it refuses rather than lose data."""
    if not isinstance(op.driver, contract.Resizes):
        raise contract.Refused(reason="this back end cannot change the size of a share")
    op.driver.shrink(op.args.instance, op.args.new_size_gib)


def grow_back_on_backend(op: Op) -> None:
    """What it had become before its answer was lost or the way on was barred; what it never became is so already."""
    if isinstance(op.driver, contract.Resizes):
        op.driver.extend(op.args.instance, op.args.instance.size_gib)


def succeed(op: Op, tx: Tx) -> None:
    """The new size is the size, and what it gave up comes back."""
    args, freed = op.args, op.args.instance.size_gib - op.args.new_size_gib
    share_instances.try_move(tx, args.instance.id, "shrunk")
    shares.update(tx, args.instance.share_id, {"size": args.new_size_gib})
    quotas.give_back(tx, args.instance.project_id, args.user_id, args.share_type_id, {"gigabytes": freed})
    pools.release(tx, args.host, freed)


def fail(op: Op, tx: Tx, error: errors.AbacaError) -> None:
    """The old size stays."""
    is_kept = error.code == contract.Refused.code
    share_instances.try_move(tx, op.args.instance.id, "kept" if is_kept else "failed")
    messages.record(
        tx,
        messages.About(op.project_id, op.request_id, "SHARE", op.args.instance.share_id),
        Action.SHRINK,
        Detail.SHRINK_REFUSED if is_kept else Detail.DRIVER_FAILED_SHRINK,
        reason=error.message,
    )


OPERATION = journal.operation(
    kind="share-shrink",
    resource="share",
    args=Args,
    steps=(journal.Step(shrink_on_backend, undo=grow_back_on_backend),),
    succeed=succeed,
    fail=fail,
    cancellable=False,
)
