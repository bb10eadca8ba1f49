# SPDX-License-Identifier: Apache-2.0
"""Give a share up: its rows go, and what it took of quota and pool; its data, its exports and who can reach it stay.

So does the share server that it is on, which is not deleted by itself any more.

What can go wrong: the back end stays away for long; then the share is `unmanage_error` with a message, and unmanaging
it again tries again. The claim under faults: it always ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.networks import share_servers
from abaca.db.shares import share_instances, shares
from abaca.db.shares.export_location_history import Cause
from abaca.domain.administration.messages import Action, Detail
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.operations import events
from abaca.operations.administration import resource_locks
from abaca.operations.parts import DRIVER_CALL_S, BackEnd
from abaca.operations.shares.share_delete import refuse_attached, refuse_copied, refuse_replicated
from abaca.operations.shares.share_instance_delete import forget
from abaca.operations.shares.share_instances import (
    changed_by,
    contract_instance,
    keys_of_share,
    notify_project,
    target_of,
)

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


class Args(msgspec.Struct, frozen=True):
    """What the driver is told."""

    instance: contract.ShareInstance


class OnShareServer(errors.Forbidden):
    """Share {id} is on share server {server}; from version 2.49 on such a share can be released."""


class HasInstances(errors.Conflict):
    """Share {id} has {number} instances; wait until its migration has ended, or delete its replicas."""


def start(tx: Tx, share_id: str, by: Requester | None, *, also_on_servers: bool = True) -> str | None:
    """Accept it; the operation's id, None when no back end ever had the share: then it is gone at once.

    Raises `Conflict` where its status forbids it, `Locked` where somebody has locked it, `Attached` where servers use
    it, `HasSnapshots`, `HasReplicas`, `HasInstances`, `OnShareServer`, and `NotFound` where it has just gone.
    """
    shares.lock(tx, share_id)
    resource_locks.refuse_deletion(tx, share_id)
    refuse_replicated(tx, share_id)
    refuse_copied(tx, share_id)
    refuse_attached(tx, share_id)
    found = share_instances.of_share(tx, share_id)
    if not found:
        raise errors.NotFound(resource="Share", id=share_id)
    if len(found) > 1:
        raise HasInstances(id=share_id, number=len(found))
    share_instances.move(tx, found[0].id, "unmanage")
    (row,) = share_instances.whole_of(tx, [found[0].id])
    if row.share_server_id is not None and not also_on_servers:
        raise OnShareServer(id=share_id, server=row.share_server_id)
    if row.host is None:
        events.notify_share(tx, "share.unmanage.start", share_id, by)
        events.notify_share(tx, "share.unmanage.end", share_id, by, status="unmanaged")
        forget(tx, row)
        return None
    target = target_of(row.host, share_id, keys_of_share(share_id, [row.id]))
    return queueing.enqueue(tx, OPERATION, Args(contract_instance(row)), target, by)


def unmanage_on_backend(op: Op[BackEnd]) -> None:
    """The back end forgets whose it is; one that takes no shares over has nothing to forget.

    Raises `HasSnapshots` where some were taken since, because an operator had said that it is available.
    """
    with op.db.read() as tx:
        refuse_copied(tx, op.args.instance.share_id)
    if isinstance(op.parts.driver, contract.Manages):
        op.parts.driver.unmanage(changed_by(op, op.args.instance))


def succeed(op: Op[BackEnd], tx: Tx) -> None:
    """Forget it, and give back what it took."""
    row = share_instances.whole(tx, op.args.instance.id)
    if row is None:
        return
    forget(tx, row, Cause(op.id, op.what.kind))
    if row.share_server_id is not None:
        share_servers.keep_unused(tx, row.share_server_id)


def fail(op: Op[BackEnd], tx: Tx, error: errors.AbacaError) -> None:
    """It stays, for another try."""
    share_instances.try_move(tx, op.args.instance.id, "failed", "unmanage_starting")
    notify_project(op, tx, op.args.instance, (Action.UNMANAGE, Detail.NOT_UNMANAGED), error.message)


OPERATION = kinds.operation(
    kind="share-unmanage",
    resource="share",
    args=Args,
    parts=BackEnd,
    steps=(kinds.Step(unmanage_on_backend, undo=kinds.nothing, within_s=DRIVER_CALL_S),),
    succeed=succeed,
    fail=fail,
    cancellable=False,
    notifies=kinds.Notification(name="share.unmanage", payload=events.share, gone={"status": "unmanaged"}),
)
