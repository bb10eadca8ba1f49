# SPDX-License-Identifier: Apache-2.0
"""Take a snapshot of a share while that is in use.

One transaction accepts it: the rows, the quota and this operation. It waits for whatever is under way on the share, and
what is asked of the share later waits for it. What can go wrong: the back end is full, refuses or stays away for long;
then what it had begun is taken back there, the snapshot is in `error`, and a message says why. It keeps its quota until
it is deleted, as any snapshot does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.catalog import quotas
from abaca.db.shares import driver_data, shares, snapshot_export_locations, snapshot_instances, snapshots
from abaca.domain.administration.messages import Action, Detail
from abaca.domain.catalog.quotas import METADATA
from abaca.domain.ids import new_id
from abaca.domain.shares import snapshots as rules
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.operations import events
from abaca.operations.parts import DRIVER_CALL_S, BackEnd
from abaca.operations.shares import inherited_access, metadata_limits
from abaca.operations.shares.snapshot_instances import Args, changed_snapshot, found, notify_project, taking

if TYPE_CHECKING:
    from collections.abc import Mapping

    from abaca.db.engine.database import Tx
    from abaca.domain.callers import Caller
    from abaca.journal.op import Op
    from abaca.settings import Settings


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot as its user wants it; with `force` its share need not be available."""

    share_id: str
    name: str | None = None
    description: str | None = None
    metadata: Mapping[str, str] = msgspec.field(default_factory=dict)
    force: bool = False


def start(tx: Tx, wanted: Wanted, by: Caller, settings: Settings) -> str:
    """Accept it; the new snapshot's id.

    Raises `Invalid` while its share allows none, `Unprocessable` where that can have none, `Forbidden` for one in the
    recycle bin, `NotFound`, `OverLimit`.
    """
    shares.lock(tx, wanted.share_id)
    share = shares.find(tx, wanted.share_id)
    if share is None:
        raise errors.NotFound(resource="Share", id=wanted.share_id)
    if not share.snapshot_support:
        raise errors.Unprocessable(f"Share {share.id} cannot have snapshots: its share type does not say so.")
    if share.is_soft_deleted:
        raise errors.Forbidden(f"Share {share.id} is in the recycle bin; restore it before you take a snapshot of it.")
    rules.check_source(share.id, share.status, share.host, force=wanted.force)
    taken = {"snapshots": 1, "snapshot_gigabytes": share.size}
    limits = settings.quota.limits
    if wanted.metadata:
        taken[METADATA] = metadata_limits.check(settings, {}, wanted.metadata)
        limits = {**limits, METADATA: settings.limits.project_metadata_characters}
    snapshot_id, instance_id = new_id(), new_id()
    values = {
        "id": snapshot_id,
        "share_id": share.id,
        "project_id": share.project_id,
        "user_id": by.user_id,
        "name": wanted.name,
        "description": wanted.description,
        "size": share.size,
        "share_size": share.size,
        "share_proto": share.share_proto,
        "metadata": dict(wanted.metadata),
    }
    snapshots.add(tx, values)
    of = {"snapshot_id": snapshot_id, "share_instance_id": share.instance_id}
    snapshot_instances.add(tx, {"id": instance_id, **of})
    args = msgspec.structs.replace(found(tx, instance_id), is_mountable=share.mount_snapshot_support)
    queueing.enqueue(tx, OPERATION, args, args.target, by)
    quotas.take(tx, share.project_id, by.user_id, share.share_type_id, taken, limits)
    return snapshot_id


def take_on_backend(op: Op[BackEnd]) -> None:
    """The back end's part."""
    made = taking(op).create_snapshot(changed_snapshot(op, op.args.snapshot))
    op.record(provider_location=made.provider_location, driver_data=made.driver_data)


def export_on_backend(op: Op[BackEnd]) -> None:
    """It can be mounted, by nobody yet but whom it inherits; nothing where its share type does not say so."""
    if not op.args.is_mountable:
        return
    driver = op.parts.driver
    if not isinstance(driver, contract.MountsSnapshots):
        raise errors.BackendError(reason="its snapshots cannot be mounted")
    exports = driver.export_snapshot(changed_snapshot(op, op.args.snapshot))
    inherited_access.open_new(op, op.args.snapshot)
    op.record(exports=exports)


def remove_from_backend(op: Op[BackEnd]) -> None:
    """Whatever there is of it."""
    if isinstance(op.parts.driver, contract.Snapshots):
        op.parts.driver.delete_snapshot(changed_snapshot(op, op.args.snapshot))


def succeed(op: Op[BackEnd], tx: Tx) -> None:
    """It can be used from here on."""
    instance_id = op.args.snapshot.id
    exports = msgspec.convert(op.data.get("exports") or [], list[contract.Export])
    snapshot_export_locations.replace_many(tx, {instance_id: exports})
    driver_data.keep(tx, {instance_id: op.data.get("driver_data")})
    snapshot_instances.finish_create(tx, instance_id, op.data.get("provider_location"))


def fail(op: Op[BackEnd], tx: Tx, error: errors.AbacaError) -> None:
    """It stays visible, broken, with the reason."""
    snapshot_instances.try_move(tx, op.args.snapshot.id, "failed", "creating")
    notify_project(op, tx, op.args, (Action.CREATE, Detail.UNKNOWN_ERROR), error.message)


OPERATION = kinds.operation(
    kind="snapshot-create",
    resource="snapshot",
    args=Args,
    parts=BackEnd,
    steps=(
        kinds.Step(take_on_backend, undo=remove_from_backend, within_s=DRIVER_CALL_S),
        kinds.Step(export_on_backend, undo=kinds.nothing, within_s=DRIVER_CALL_S),
    ),
    succeed=succeed,
    fail=fail,
    cancellable=False,
    notifies=kinds.Notification(name="snapshot.create", payload=events.snapshot),
)
