# SPDX-License-Identifier: Apache-2.0
"""Take one of several instances of a share away; the share stays while it has another.

Asked for by an administrator, or started by the deletion of a share, which deletes the instance that speaks for it
itself. What can go wrong: the back end refuses or stays away for long; then the instance is `error_deleting`, and
deleting it again tries again. The claim under faults: it always ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.administration import pools
from abaca.db.catalog import quotas
from abaca.db.networks import share_servers
from abaca.db.shares import (
    access_rules,
    driver_data,
    export_location_history,
    export_locations,
    instance_access_rules,
    share_instances,
    shares,
)
from abaca.db.shares.export_location_history import NOBODY, Cause
from abaca.domain.administration.messages import Action, Detail
from abaca.domain.catalog.quotas import METADATA
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.operations import events
from abaca.operations.parts import DRIVER_CALL_S, BackEnd
from abaca.operations.shares import affinities, encryption_keys, metadata_limits
from abaca.operations.shares.share_instances import (
    changed_by,
    contract_instance,
    keys_of_share,
    notify_project,
    target_of,
)

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.shares.share_instances import ShareInstance
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


class Args(msgspec.Struct, frozen=True):
    """What the driver is told, and where the instance is (host@backend#pool)."""

    instance: contract.ShareInstance
    host: str

    @property
    def target(self) -> queueing.Target:
        """Where it is queued, and what it holds."""
        share_id = self.instance.share_id
        return target_of(self.host, share_id, keys_of_share(share_id, [self.instance.id]))


def args_of(row: ShareInstance) -> Args:
    """For an instance that a back end has, a row of `share_instances.whole`."""
    return Args(instance=contract_instance(row), host=row.placed().host)


def start(tx: Tx, row: ShareInstance, by: Requester | None) -> str:
    """Queue it for such a row, to which `force_delete` has happened; the operation's id."""
    args = args_of(row)
    return queueing.enqueue(tx, OPERATION, args, args.target, by)


def delete_on_backend(op: Op[BackEnd]) -> None:
    """The export first, then the data."""
    take_away(op, op.args.instance)


def take_away(op: Op[BackEnd], instance: contract.ShareInstance) -> None:
    """Its export and its data; of one that never was taken over, and so has no size, all stays on the back end."""
    driver, changed = op.parts.driver, changed_by(op, instance)
    if instance.size_gib:
        driver.delete(changed)
    elif isinstance(driver, contract.Manages):
        driver.unmanage(changed)


def succeed(op: Op[BackEnd], tx: Tx) -> None:
    """Forget it; when another deletion was faster with the other instances, the share as well."""
    row = share_instances.whole(tx, op.args.instance.id)
    if row is None:
        return
    affinities.lock(tx, row.share_id, row.metadata)
    if len(share_instances.of_share(tx, row.share_id)) == 1:
        notify_deletion(tx, row.share_id, op)
    forget(tx, row, Cause(op.id, op.what.kind))


def notify_deletion(tx: Tx, share_id: str, by: Requester | None) -> None:
    """The events of the deletion of a share that no operation of its own tells; the share is still there."""
    events.notify_share(tx, "share.delete.start", share_id, by)
    events.notify_share(tx, "share.delete.end", share_id, by, status="deleted")


def forget(tx: Tx, row: ShareInstance, cause: Cause = NOBODY) -> None:
    """Take away the rows of an instance (a row of `share_instances.whole`), with the last those of its share."""
    # the share, its rules, its instance: in the order in which those who change its rules lock them
    others = affinities.lock(tx, row.share_id, row.metadata)
    access_rules.lock(tx, row.share_id)
    export_location_history.end_of_instance(tx, row.id, cause)
    if row.driver_data is not None:
        driver_data.forget(tx, row.id)
    characters = export_locations.remove_all(tx, row.id)
    share_instances.delete(tx, row.id)
    if row.share_server_id is not None:
        share_servers.note_use(tx, row.share_server_id)
    if share_instances.INSTANCES.one(tx, ("id",), {"share_id": row.share_id}) is None:
        characters += access_rules.remove_all(tx, row.share_id)
        characters += shares.delete(tx, row.share_id)
        elsewhere = affinities.forget(tx, row.share_id, others)
        characters -= elsewhere.pop(row.project_id, 0)
        metadata_limits.count_anyway(tx, elsewhere)
        gone = {"shares": 1, "gigabytes": row.size, METADATA: characters}
        if row.encryption_key_ref is not None:
            encryption_keys.count_without(tx, row.project_id, row.share_id, row.encryption_key_ref)
        quotas.give_back(tx, row.project_id, row.user_id, row.share_type_id, gone)
    else:
        characters += instance_access_rules.forget_dropped(tx, row.share_id)
        metadata_limits.count_anyway(tx, {row.project_id: -characters})
    if row.host is not None:
        pools.release(tx, row.host, row.size, row.created_at)


def fail(op: Op[BackEnd], tx: Tx, error: errors.AbacaError) -> None:
    """It stays, in error, for another try. What the deletion of its share had started, that tells."""
    share_instances.try_move(tx, op.args.instance.id, "failed")
    if op.parent_id is None:
        notify_project(op, tx, op.args.instance, (Action.DELETE, Detail.UNKNOWN_ERROR), error.message)


OPERATION = kinds.operation(
    kind="share-instance-delete",
    resource="share",
    args=Args,
    parts=BackEnd,
    steps=(kinds.Step(delete_on_backend, undo=kinds.nothing, within_s=DRIVER_CALL_S),),
    succeed=succeed,
    fail=fail,
    cancellable=False,
)
