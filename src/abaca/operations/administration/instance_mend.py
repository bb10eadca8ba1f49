# SPDX-License-Identifier: Apache-2.0
"""Make one instance on its back end what the database says, whatever has happened to it there.

Whoever finds that a call may have come too late, or that a back end differs, queues one of these. It runs under the key
of the share, so it never races its other operations, and looks at the database anew. An instance that a deletion of
ours has ended is deleted again; that is all that is ever deleted here. What can go wrong: the back end stays away, or
refuses; then it fails, and the next comparison of the back end queues another. The claim under faults: it always ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca.db.shares import share_instances, shares
from abaca.domain.administration.messages import Action, Detail
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.operations.administration import deleted_instances, ensure_calls, ensured_instances
from abaca.operations.parts import DRIVER_CALL_S, BackEnd
from abaca.operations.shares import access_rules_sync, metadata_limits, share_instance_delete
from abaca.operations.shares.share_instances import changed_by, keys_of_share, notify_project

if TYPE_CHECKING:
    from abaca import errors
    from abaca.db.engine.database import Tx
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester

# In these the database knows what the back end shall have.
MENDABLE = ("available", "ensuring", "extending_error", "shrinking_error")


class Args(msgspec.Struct, frozen=True):
    """The instance as it was known; what it shall be is read when it is mended.

    `is_known` when it was found before, and mending has not helped: then its users are not told once more.
    """

    instance: contract.ShareInstance
    is_known: bool = False


def start(tx: Tx, instance: contract.ShareInstance, host: str, by: Requester | None, *, is_known: bool = False) -> str:
    """Queue it for an instance of `host` (host@backend), or join the one that nobody has begun; its id."""
    target = queueing.Target(
        queue=host,
        keys=keys_of_share(instance.share_id, [instance.id]),
        resource_id=instance.share_id,
        coalesce_key=f"mend:{instance.id}",
    )
    args = Args(msgspec.structs.replace(instance, generation=None), is_known)
    return queueing.enqueue(tx, OPERATION, args, target, by)


def take_instance(op: Op[BackEnd], tx: Tx) -> None:
    """Say what it shall be: as it is told, or gone, or left alone."""
    known = op.args.instance
    row = share_instances.whole(tx, known.id)
    if row is None:
        op.record(wanted=None, is_gone=known.id in deleted_instances.proven(tx, {known.id: known}))
    elif row.status not in MENDABLE or (row.host or "").partition("#")[0] != op.home:
        op.record(wanted=None, is_gone=False)
    else:
        page = ensured_instances.page_of(tx, [], {row.id}, is_held=row.status != "ensuring")
        op.record(wanted=page.instances[0], is_gone=False)


def leave_instance(_op: Op[BackEnd], _tx: Tx) -> None:
    """Nothing was taken."""


def mend_on_backend(op: Op[BackEnd]) -> None:
    """The back end's part; what was begun before comes too late from now on, where that can be refused."""
    driver = op.parts.driver
    if op.data["is_gone"]:
        share_instance_delete.take_away(op, op.args.instance)
    elif op.data["wanted"] is not None:
        instance = changed_by(op, msgspec.convert(op.data["wanted"], contract.ShareInstance))
        if isinstance(driver, contract.Fences):
            driver.fence(instance)
        op.record(outcome=_mend(driver, instance))


def _mend(driver: contract.Driver, instance: contract.ShareInstance) -> contract.EnsureOutcome | None:
    if ensure_calls.can_ensure(driver):
        return ensure_calls.ensure(driver, [instance], 1).get(instance.id)
    if isinstance(driver, contract.Resizes) and instance.is_held:
        driver.extend(instance, instance.size_gib)
    return contract.EnsureOutcome(reapply_access_rules=True)


def succeed(op: Op[BackEnd], tx: Tx) -> None:
    """What the back end says is written down; its rules go there once more where they must."""
    found = op.data.get("outcome")
    if found is None:
        return
    outcome = msgspec.convert(found, contract.EnsureOutcome)
    instance = op.args.instance
    if outcome.share_metadata:
        shares.lock_many(tx, [instance.share_id])
    row = share_instances.whole(tx, instance.id)
    if row is None or row.status not in MENDABLE:
        return
    page = ensured_instances.page_of(tx, [], {row.id}, is_held=True)
    if outcome.status == "error":
        if share_instances.try_move(tx, row.id, "lost"):
            ensured_instances.notify_of_lost(op, tx, [(row, outcome.reason or "The back end cannot serve it.")])
        return
    _, characters = ensured_instances.keep(op, tx, page, {row.id: outcome})
    if ensured_instances.is_synced_again(page, row.id, outcome):
        access_rules_sync.start(tx, row.placed(), op)
    metadata_limits.count_anyway(tx, characters)


def fail(op: Op[BackEnd], tx: Tx, error: errors.AbacaError) -> None:
    """It stays as it is until somebody looks again."""
    if not op.args.is_known and not op.data.get("is_gone"):
        notify_project(op, tx, op.args.instance, (Action.UPDATE, Detail.UNKNOWN_ERROR), error.message)


OPERATION = kinds.operation(
    kind="instance-mend",
    resource="share",
    args=Args,
    parts=BackEnd,
    steps=(
        kinds.DatabaseStep(take_instance, undo=leave_instance),
        kinds.Step(mend_on_backend, undo=kinds.nothing, within_s=DRIVER_CALL_S),
    ),
    succeed=succeed,
    fail=fail,
    cancellable=False,
)
