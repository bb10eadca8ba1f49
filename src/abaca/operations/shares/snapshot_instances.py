# SPDX-License-Identifier: Apache-2.0
"""A snapshot on its back end: as its driver is told of it, and what operations on it hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from abaca import errors
from abaca.db.administration import messages
from abaca.db.catalog import quotas
from abaca.db.journal import keys
from abaca.db.shares import driver_data, share_instances, snapshot_instances, snapshots
from abaca.domain.catalog.quotas import METADATA
from abaca.drivers import contract
from abaca.journal.queueing import Target
from abaca.operations.parts import BackEnd
from abaca.operations.shares.share_instances import changed_by, contract_instance, keys_of_share, service_host

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.administration.messages import Action, Detail
    from abaca.domain.shares.share_instances import ShareInstance
    from abaca.domain.shares.snapshots import SnapshotInstance
    from abaca.journal.op import Op


class Args(msgspec.Struct, frozen=True):
    """What the driver is told, which snapshot that is, and where it is (host@backend#pool).

    One that could not be taken over is not `held`: what is on its back end is not the service's to delete.
    """

    snapshot: contract.Snapshot
    snapshot_id: str
    host: str
    is_mountable: bool = False
    is_held: bool = True

    @property
    def target(self) -> Target:
        """Where the work on it is queued; it holds the snapshot, its share and the instance that it is of."""
        instance = self.snapshot.instance
        held = [keys.key(snapshots.KEY, self.snapshot_id), *keys_of_share(instance.share_id, [instance.id])]
        return Target(queue=service_host(self.host), keys=held, resource_id=self.snapshot_id)


def args_of(row: SnapshotInstance, instance: ShareInstance) -> Args:
    """For a row of `snapshot_instances.whole`, and that of the share instance which it is of."""
    # until it is taken over, it has no size
    return Args(contract_snapshot(row, instance), row.snapshot_id, instance.placed().host, is_held=bool(row.size))


def contract_snapshot(row: SnapshotInstance, instance: ShareInstance) -> contract.Snapshot:
    """The value for a snapshot."""
    return contract.Snapshot(
        id=row.id,
        instance=contract_instance(instance),
        provider_location=row.provider_location,
        driver_data=row.driver_data or {},
    )


def found(tx: Tx, instance_id: str) -> Args:
    """What operations on that snapshot instance are told. Raises `NotFound` where it has just gone."""
    row = snapshot_instances.whole(tx, instance_id)
    instance = None if row is None else share_instances.whole(tx, row.share_instance_id)
    if row is None or instance is None:
        raise errors.NotFound(resource="Snapshot instance", id=instance_id)
    return args_of(row, instance)


def changed_snapshot(op: Op[BackEnd], snapshot: contract.Snapshot) -> contract.Snapshot:
    """The snapshot as the driver is told of it for a change: whatever was begun before this run comes too late."""
    return msgspec.structs.replace(snapshot, instance=changed_by(op, snapshot.instance))


def taking(op: Op[BackEnd]) -> contract.Snapshots:
    """The driver, as one that takes snapshots. Raises `BackendError` when it does not."""
    if not isinstance(op.parts.driver, contract.Snapshots):
        raise errors.BackendError(reason="it cannot take snapshots")
    return op.parts.driver


def releasing(op: Op[BackEnd]) -> contract.ManagesSnapshots:
    """The driver, as one that takes snapshots over. Raises `BackendError` when it does not."""
    if not isinstance(op.parts.driver, contract.ManagesSnapshots):
        raise errors.BackendError(reason="it cannot take snapshots over")
    return op.parts.driver


def take_away(op: Op[BackEnd], snapshot: contract.Snapshot, *, is_held: bool) -> None:
    """Its export and its data; of one that never was taken over all stays on the back end."""
    changed = changed_snapshot(op, snapshot)
    if is_held:
        taking(op).delete_snapshot(changed)
    elif isinstance(op.parts.driver, contract.ManagesSnapshots):
        op.parts.driver.unmanage_snapshot(changed)


def forget(tx: Tx, row: SnapshotInstance, share_type_id: str | None) -> None:
    """Take away the rows of a snapshot (its instance is a row of `whole`), and give back what it took."""
    driver_data.forget(tx, row.id)
    snapshot_instances.delete(tx, row.id)
    characters = snapshots.delete(tx, row.snapshot_id)
    gone = {"snapshots": 1, "snapshot_gigabytes": row.size, METADATA: characters}
    quotas.give_back(tx, row.project_id, row.user_id, share_type_id, gone)


class About(Protocol):
    """Arguments that say which snapshot they are about."""

    @property
    def snapshot(self) -> contract.Snapshot: ...
    @property
    def snapshot_id(self) -> str: ...


def notify_project(op: Op[BackEnd], tx: Tx, args: About, cause: tuple[Action, Detail], reason: str | None) -> None:
    """Tell the snapshot's project what went wrong, whoever had asked for it."""
    action, detail = cause
    about = messages.About(args.snapshot.instance.project_id, op.request_id, "SHARE_SNAPSHOT", args.snapshot_id)
    messages.record(tx, about, action, detail, reason=reason)
