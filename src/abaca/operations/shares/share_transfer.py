# SPDX-License-Identifier: Apache-2.0
"""Hand a share over to another project: offered by one, accepted by whoever has the key, in one transaction each.

From the moment at which it is accepted the share is the new project's, with its snapshots and counts, and the old one
sees nothing of it. What ties it to its project is refused when it is offered, and looked for again when it is accepted.
It is available then, since clients go on at once; its back end is told before anything else is asked of it. What can go
wrong there: it refuses, or stays away for long; then the share is the new project's all the same, and a message says
so. The claim under faults: it always ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from abaca import errors
from abaca.db.administration import resource_locks
from abaca.db.catalog import quotas, share_types
from abaca.db.clusters import clusters
from abaca.db.journal import keys
from abaca.db.shares import (
    access_rules,
    export_location_history,
    metadata_figures,
    share_instances,
    shares,
    snapshot_access_rules,
    snapshots,
)
from abaca.db.shares import share_transfers as rows
from abaca.domain.administration.messages import Action, Detail
from abaca.domain.catalog.quotas import METADATA, Counts
from abaca.domain.shares import share_transfers
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.operations import events
from abaca.operations.administration.resource_locks import Locked
from abaca.operations.parts import DRIVER_CALL_S, BackEnd
from abaca.operations.shares import access_rules_sync, snapshot_access_sync
from abaca.operations.shares.share_delete import Attached, HasReplicas, refuse_attached, refuse_replicated
from abaca.operations.shares.share_instances import (
    changed_by,
    contract_instance,
    keys_of_share,
    notify_project,
    target_of,
)

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.callers import Caller
    from abaca.domain.shares.share_transfers import ShareTransfer
    from abaca.domain.shares.shares import Share
    from abaca.journal.op import Op
    from abaca.settings import Settings


class Args(msgspec.Struct, frozen=True):
    """What the driver is told, as the share is from now on."""

    instance: contract.ShareInstance


class Wrong(errors.Invalid):
    """There is no share transfer {id}, or its auth key is another one."""


class InClusters(errors.Forbidden):
    """Share {id} is wanted on the nodes of clusters: {clusters}. Take it out of them first."""


# So many of what stands in the way are named.
_NAMED = 5


# ---------------------------------------------------------------- offering


def offer(tx: Tx, settings: Settings, share: Share, name: str | None, user_id: str) -> tuple[str, str]:
    """Offer a share, whose row was locked before it was read; the offer's id, and the key, which is never known again.

    Raises `Invalid` and `HasReplicas` where it cannot be handed over as it is, `Locked`, `Attached` and `InClusters`
    where somebody holds it.
    """
    if share.status != "available":
        raise errors.Invalid(f"Share {share.id} is {share.status}; it can be handed over when it is available.")
    _check_alone(tx, share)
    _check_snapshots(tx, share.id)
    share_instances.move(tx, share.instance_id, "offer")
    key, salt, key_hash = share_transfers.new_key()
    values = {"project_id": share.project_id, "user_id": user_id, "share_id": share.id, "name": name}
    until = rows.expiry(tx, settings.transfer_retention_time)
    return rows.add(tx, {**values, "salt": salt, "key_hash": key_hash, "expires_at": until}), key


def _check_alone(tx: Tx, share: Share) -> None:
    """Nothing ties it to its project."""
    if share.is_soft_deleted:
        raise errors.Invalid(f"Share {share.id} is in the recycle bin; restore it before it is handed over.")
    row = share_instances.whole(tx, share.instance_id)
    if row is not None and row.share_server_id is not None:
        raise errors.Invalid(f"Share {share.id} is on a share network of its project, and cannot be handed over.")
    if share.share_group_id is not None:
        raise errors.Invalid(f"Share {share.id} is in a share group, and cannot be handed over.")
    refuse_replicated(tx, share.id)
    # before what they attach, which nobody else detaches
    if wanting := clusters.wanting(tx, share.project_id, share.id, _NAMED):
        raise InClusters(id=share.id, clusters=", ".join(f"{one.name} ({one.id})" for one in wanting))
    refuse_attached(tx, share.id)
    held = [*resource_locks.of_share(tx, share.id), *resource_locks.hiding(tx, share.id)]
    if held:
        raise Locked(id=share.id, locks=", ".join(lock.id for lock in held[:_NAMED]))


def _check_snapshots(tx: Tx, share_id: str) -> None:
    if busy := snapshots.unsettled(tx, share_id, _NAMED):
        named = ", ".join(f"{one.id} ({one.status})" for one in busy)
        raise errors.Invalid(
            f"Snapshots of share {share_id} are not available, or in use: {named}. Wait until they are, or delete them."
        )


def withdraw(tx: Tx, transfer: ShareTransfer) -> None:
    """Take an offer back; the share is as before."""
    shares.lock(tx, transfer.share_id)
    if rows.delete(tx, transfer.id):
        for one in share_instances.of_share(tx, transfer.share_id):
            share_instances.try_move(tx, one.id, "keep")


# ---------------------------------------------------------------- accepting


def accept(tx: Tx, settings: Settings, caller: Caller, named: tuple[str, str], *, clear_rules: bool) -> None:
    """Make the share the caller's project's; `named` are the offer's id and key.

    Raises `Wrong`, `Invalid` where the share has changed since, and `OverLimit` where the project has no room for it.
    """
    if not caller.project_id:
        raise errors.Invalid("What is accepted belongs to a project: come with a token of one.")
    transfer_id, key = named
    transfer = rows.find(tx, transfer_id)
    if transfer is None or not transfer.opens(key):
        raise Wrong(id=transfer_id)
    shares.lock(tx, transfer.share_id)
    share = shares.find(tx, transfer.share_id)
    if share is None or transfer.expires_at <= tx.now or not rows.delete(tx, transfer_id):
        raise Wrong(id=transfer_id)
    # whoever changes what is counted of these waits, and then finds whose they are
    access_rules.lock(tx, share.id)
    snapshots.lock_of_share(tx, share.id)
    _check_offered(tx, caller, share)
    counts = _Moved(
        {"shares": 1, "gigabytes": share.size, METADATA: metadata_figures.of_share(tx, share.id)},
        snapshots.counted(tx, share.id),
    )
    shares.update(tx, share.id, {"project_id": caller.project_id, "user_id": caller.user_id})
    snapshots.give_to(tx, share.id, caller.project_id, caller.user_id)
    export_location_history.give_to(tx, share.id, caller.project_id)
    share_instances.move(tx, share.instance_id, "keep")
    _tell_later(tx, share, caller)
    if clear_rules:
        _clear_rules(tx, share.id, caller)
    _count(tx, settings, caller, share, counts)


def _check_offered(tx: Tx, caller: Caller, share: Share) -> None:
    if share.status != "awaiting_transfer":
        raise errors.Invalid(
            f"Share {share.id} is {share.status} and awaits no transfer; ask for it to be offered anew."
        )
    kind = share.share_type_id
    if kind is not None and share_types.find(tx, kind, open_to=caller.project_id) is None:
        raise errors.Invalid("The share's type is private, and your project may not use it; ask an administrator.")
    try:
        _check_alone(tx, share)
    except (Locked, Attached, InClusters, HasReplicas):
        # by what is the other project's business
        raise errors.Invalid(
            f"Share {share.id} is held in the project that offers it; ask them to see what it is locked by, attached "
            "to or copied to, and to end that."
        ) from None
    if keys.held_among(tx, keys_of_share(share.id, [share.instance_id])):
        raise errors.Invalid(f"Share {share.id} is still being worked on; accept it in some seconds.")
    _check_snapshots(tx, share.id)


def _tell_later(tx: Tx, share: Share, caller: Caller) -> None:
    """Queue what tells the back end whose it is from now on."""
    (row,) = share_instances.whole_of(tx, [share.instance_id])
    target = target_of(row.placed().host, share.id, keys_of_share(share.id, [row.id]))
    queueing.enqueue(tx, OPERATION, Args(contract_instance(row)), target, caller)


def _clear_rules(tx: Tx, share_id: str, caller: Caller) -> None:
    """Nobody who could reach it, or a snapshot of it, can any more."""
    access_rules.deny_all(tx, share_id)
    access_rules_sync.start_for_share(tx, share_id, caller)
    for snapshot_id in snapshot_access_rules.deny_all(tx, share_id):
        if (snapshot := snapshots.find(tx, snapshot_id)) is not None:
            snapshot_access_sync.start(tx, snapshot, caller)


class _Moved(NamedTuple):
    """What goes from one project to the other: with the share, and of its snapshots by their users."""

    of_share: Counts
    of_snapshots: list[snapshots.Counted]


def _count(tx: Tx, settings: Settings, caller: Caller, share: Share, counts: _Moved) -> None:
    """From one project to the other; those that hand shares to each other lock their rows in one order."""
    by_user = [
        (one.user_id, {"snapshots": one.number, "snapshot_gigabytes": one.size_gib}) for one in counts.of_snapshots
    ]
    taken = dict(counts.of_share)
    for _, of_one in by_user:
        for name, number in of_one.items():
            taken[name] = taken.get(name, 0) + number
    limits = {**settings.quota.limits, METADATA: settings.limits.project_metadata_characters}

    def take() -> None:
        quotas.take(tx, caller.project_id, caller.user_id, share.share_type_id, taken, limits)

    def give_back() -> None:
        quotas.give_back(tx, share.project_id, share.user_id, share.share_type_id, counts.of_share)
        for user_id, of_one in by_user:
            quotas.give_back(tx, share.project_id, user_id, share.share_type_id, of_one)

    for step in (give_back, take) if share.project_id <= caller.project_id else (take, give_back):
        step()


def accept_on_backend(op: Op[BackEnd]) -> None:
    """Back ends that must know whose a share is."""
    if isinstance(op.parts.driver, contract.AcceptsTransfers):
        instance = changed_by(op, op.args.instance)
        op.parts.driver.accept_transfer(instance, instance.project_id)


def succeed(op: Op[BackEnd], tx: Tx) -> None:
    """There is nothing to write: it may have been offered anew meanwhile."""


def fail(op: Op[BackEnd], tx: Tx, error: errors.AbacaError) -> None:
    """Its back end takes it for another's."""
    notify_project(op, tx, op.args.instance, (Action.TRANSFER_ACCEPT, Detail.UNKNOWN_ERROR), error.message)


OPERATION = kinds.operation(
    kind="share-transfer",
    resource="share",
    args=Args,
    parts=BackEnd,
    steps=(kinds.Step(accept_on_backend, undo=kinds.nothing, within_s=DRIVER_CALL_S),),
    succeed=succeed,
    fail=fail,
    cancellable=False,
    notifies=kinds.Notification(name="share.transfer.accept", payload=events.share),
)
