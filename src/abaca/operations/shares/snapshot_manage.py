# SPDX-License-Identifier: Apache-2.0
"""Take a snapshot that exists on a share's back end under management: it stays where it is, and gets a row here.

Who may mount it begins anew: nobody, until rules are added. Its size counts from when the back end has told it,
whatever the limits of the project are, since it is there already. What can go wrong: nothing is there, another
snapshot has it; then the snapshot is `manage_error` with a message, and unmanaging it, or deleting it by force, makes
way for another try: neither touches what is on the back end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.catalog import quotas
from abaca.db.shares import (
    driver_data,
    share_instances,
    shares,
    snapshot_export_locations,
    snapshot_instances,
    snapshots,
)
from abaca.domain.administration.messages import Action, Detail
from abaca.domain.catalog.quotas import METADATA
from abaca.domain.ids import new_id
from abaca.domain.shares import snapshots as rules
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.operations import events
from abaca.operations.parts import DRIVER_CALL_S, BackEnd
from abaca.operations.shares import inherited_access, metadata_limits
from abaca.operations.shares.share_delete import refuse_replicated
from abaca.operations.shares.snapshot_instances import Args as AboutSnapshot
from abaca.operations.shares.snapshot_instances import changed_snapshot, found, notify_project, releasing

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.callers import Caller
    from abaca.domain.shares.shares import Share
    from abaca.journal.op import Op
    from abaca.settings import Settings


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot as its administrator describes it: of which share, where it is, and what it shall be called."""

    share_id: str
    provider_location: str
    name: str | None = None
    description: str | None = None
    metadata: Mapping[str, str] = msgspec.field(default_factory=dict)
    options: Mapping[str, str] = msgspec.field(default_factory=dict)


class Args(AboutSnapshot, frozen=True):
    """What the driver is told, and by which `options` it finds the snapshot."""

    options: Mapping[str, str] = msgspec.field(default_factory=dict)


class AlreadyManaged(errors.Conflict):
    """What is at {place} is under management already, as snapshot {snapshot_id}."""


def start(tx: Tx, wanted: Found, by: Caller, settings: Settings) -> str:
    """Accept it, for a share whose row is locked; the new snapshot's id.

    Raises `Conflict` where the share has no snapshots now, `AlreadyManaged`, `HasReplicas`, `NotFound`, `OverLimit`.
    """
    share = shares.find(tx, wanted.share_id)
    if share is None:
        raise errors.NotFound(resource="Share", id=wanted.share_id)
    refuse_replicated(tx, share.id)
    _check(share)
    other = snapshot_instances.at(tx, share.instance_id, wanted.provider_location)
    if other is not None:
        raise AlreadyManaged(place=wanted.provider_location, snapshot_id=other)
    if wanted.metadata:
        more = metadata_limits.check(settings, {}, wanted.metadata)
        limits = {METADATA: settings.limits.project_metadata_characters}
        quotas.take(tx, share.project_id, by.user_id, share.share_type_id, {METADATA: more}, limits)
    snapshot_id, instance_id = new_id(), new_id()
    values = {
        "id": snapshot_id,
        "share_id": share.id,
        "project_id": share.project_id,
        "user_id": by.user_id,
        "name": wanted.name,
        "description": wanted.description,
        "size": 0,
        "share_size": share.size,
        "share_proto": share.share_proto,
        "metadata": dict(wanted.metadata),
    }
    snapshots.add(tx, values)
    of = {"snapshot_id": snapshot_id, "share_instance_id": share.instance_id}
    at = {"provider_location": wanted.provider_location, "progress": None}
    snapshot_instances.add(tx, {"id": instance_id, **of, **at}, event="manage")
    about = found(tx, instance_id)
    args = Args(about.snapshot, snapshot_id, about.host, share.mount_snapshot_support, options=wanted.options)
    queueing.enqueue(tx, OPERATION, args, args.target, by)
    quotas.give_back(tx, share.project_id, by.user_id, share.share_type_id, {"snapshots": -1})
    return snapshot_id


def _check(share: Share) -> None:
    """Raises `Conflict` where the share has no snapshots now."""
    if share.is_soft_deleted:
        raise errors.Forbidden(
            f"Share {share.id} is in the recycle bin; restore it before you manage a snapshot of it."
        )
    if not share.snapshot_support:
        raise errors.Conflict(f"Share {share.id} cannot have snapshots: its share type does not say so.")
    try:
        rules.check_source(share.id, share.status, share.host, force=False)
    except errors.Invalid as refusal:
        raise errors.Conflict(refusal.message) from None


def manage_on_backend(op: Op[BackEnd]) -> None:
    """The back end's part."""
    made = releasing(op).manage_snapshot(changed_snapshot(op, op.args.snapshot), op.args.options)
    op.record(size_gib=made.size_gib, provider_location=made.provider_location, driver_data=made.driver_data)


def give_up_on_backend(op: Op[BackEnd]) -> None:
    """Undo: it is there as before, and nobody's."""
    if isinstance(op.parts.driver, contract.ManagesSnapshots):
        op.parts.driver.unmanage_snapshot(changed_snapshot(op, op.args.snapshot))


def export_on_backend(op: Op[BackEnd]) -> None:
    """It can be mounted, by nobody yet but whom it inherits; nothing where its share type does not say so."""
    if not op.args.is_mountable:
        return
    driver = op.parts.driver
    if not isinstance(driver, contract.MountsSnapshots):
        raise errors.BackendError(reason="its snapshots cannot be mounted")
    place, kept = op.data.get("provider_location"), op.data.get("driver_data") or {}
    known = msgspec.structs.replace(op.args.snapshot, provider_location=place, driver_data=kept)
    exports = driver.export_snapshot(changed_snapshot(op, known))
    inherited_access.open_new(op, known)
    op.record(exports=exports)


def succeed(op: Op[BackEnd], tx: Tx) -> None:
    """It can be used from here on, and has its size, which the project has in use."""
    instance_id = op.args.snapshot.id
    exports = msgspec.convert(op.data.get("exports") or [], list[contract.Export])
    snapshot_instances.lock(tx, instance_id)
    row = snapshot_instances.whole(tx, instance_id)
    if row is None:
        return
    snapshot_export_locations.replace_many(tx, {instance_id: exports})
    driver_data.keep(tx, {instance_id: op.data.get("driver_data")})
    snapshot_instances.finish_manage(tx, instance_id, op.data.get("provider_location"))
    if not row.size:
        size_gib = int(op.data["size_gib"])
        snapshots.update(tx, row.snapshot_id, {"size": size_gib})
        instance = share_instances.whole(tx, row.share_instance_id)
        kind = None if instance is None else instance.share_type_id
        quotas.give_back(tx, row.project_id, row.user_id, kind, {"snapshot_gigabytes": -size_gib})


def fail(op: Op[BackEnd], tx: Tx, error: errors.AbacaError) -> None:
    """It stays visible, with the reason."""
    snapshot_instances.try_move(tx, op.args.snapshot.id, "failed", "manage_starting")
    notify_project(op, tx, op.args, (Action.MANAGE, Detail.NOT_MANAGED), error.message)


OPERATION = kinds.operation(
    kind="snapshot-manage",
    resource="snapshot",
    args=Args,
    parts=BackEnd,
    steps=(
        kinds.Step(manage_on_backend, undo=give_up_on_backend, within_s=DRIVER_CALL_S),
        kinds.Step(export_on_backend, undo=kinds.nothing, within_s=DRIVER_CALL_S),
    ),
    succeed=succeed,
    fail=fail,
    cancellable=False,
    notifies=kinds.Notification(name="snapshot.manage", payload=events.snapshot),
)
