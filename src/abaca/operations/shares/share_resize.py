# SPDX-License-Identifier: Apache-2.0
"""What extending and shrinking a share have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.journal import keys
from abaca.db.shares import share_instances
from abaca.domain.shares import shares as rules
from abaca.drivers import contract
from abaca.journal import queueing
from abaca.operations.parts import BackEnd
from abaca.operations.shares.share_instances import changed_by, contract_instance, keys_of_share, target_of

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.shares.shares import Share
    from abaca.journal.kinds import Operation
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester

# Of these a share has one at a time, since each counts from the size that it found.
KINDS = ("share-extend", "share-shrink")


class Args(msgspec.Struct, frozen=True):
    """What the driver is told, and the size it shall have, in GiB."""

    instance: contract.ShareInstance
    new_size_gib: int
    user_id: str | None
    share_type_id: str | None
    host: str

    @property
    def difference_gib(self) -> int:
        """By how much it changes, whichever way."""
        return abs(self.new_size_gib - self.instance.size_gib)


def start(tx: Tx, what: Operation, event: str, share: Share, new_size_gib: int, by: Requester | None) -> int:
    """Move a share and queue `what`; by how many GiB its size will change.

    The size that counts is the one after the move: from then on nobody else changes it. Raises `Conflict`, and
    `Invalid` for a size that is no larger, or no smaller, than that.
    """
    share_instances.move(tx, share.instance_id, event)
    _refuse_second(tx, share.id)
    _refuse_several(tx, share.id)
    row = share_instances.whole(tx, share.instance_id)
    if row is None:
        raise errors.NotFound(resource="Share", id=share.id)
    host = row.placed().host
    rules.check_new_size(row.size, new_size_gib, grow=event == "extend")
    args = Args(contract_instance(row), new_size_gib, row.user_id, row.share_type_id, host)
    target = target_of(host, row.share_id, keys_of_share(row.share_id, [row.id]))
    queueing.enqueue(tx, what, args, target, by)
    return args.difference_gib


def _refuse_second(tx: Tx, share_id: str) -> None:
    """An operator may have said that the share is available, while it is being resized."""
    for row in keys.holders(tx, keys.key("share", share_id)):
        if row.kind in KINDS:
            raise errors.Conflict(
                f"Share {share_id} is still being resized, whatever its status says; wait for operation {row.id}."
            )


def _refuse_several(tx: Tx, share_id: str) -> None:
    """All instances have the share's size: none of them changes alone."""
    number = len(share_instances.of_share(tx, share_id))
    if number > 1:
        raise errors.Conflict(
            f"Share {share_id} has {number} instances and cannot be resized: all of them would have to change as one. "
            "Wait until its migration has ended, or delete its replicas."
        )


def resizing(op: Op[BackEnd]) -> contract.Resizes:
    """The driver, as one that resizes. Raises `BackendError` when it does not."""
    if not isinstance(op.parts.driver, contract.Resizes):
        raise errors.BackendError(reason="it cannot change the size of a share")
    return op.parts.driver


def back_on_backend(op: Op[BackEnd]) -> None:
    """Undo: the size that it had, whether or not it ever became another one."""
    if isinstance(op.parts.driver, contract.Resizes):
        was = op.args.instance.size_gib
        resize = op.parts.driver.shrink if op.args.new_size_gib > was else op.parts.driver.extend
        resize(changed_by(op, op.args.instance), was)
