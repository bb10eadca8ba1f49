# SPDX-License-Identifier: Apache-2.0
"""The snapshot that a new share shall be made from: what it says of the share, and whether it may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.shares import share_instances, shares, snapshot_instances, snapshots
from abaca.domain.shares import snapshots as rules
from abaca.drivers import contract
from abaca.operations.shares.snapshot_instances import contract_snapshot

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.callers import Caller


class Source(msgspec.Struct, frozen=True):
    """A snapshot that a share can be made from; `host` is where it lies, host@backend#pool, sizes are in GiB."""

    snapshot: rules.Snapshot
    value: contract.Snapshot
    host: str
    share_proto: str
    share_type_id: str | None
    share_network_id: str | None
    encryption_key_ref: str | None

    def check(self, size: int, share_proto: str, share_type_id: str | None, share_network_id: str | None) -> None:
        """Raises `Invalid` for a share that cannot have its content."""
        rules.check_clone(self.snapshot, size)
        if share_proto != self.share_proto:
            raise errors.Invalid(f"Snapshot {self.snapshot.id} is of a share of protocol {self.share_proto}.")
        if share_type_id != self.share_type_id:
            raise errors.Invalid("A share made from a snapshot has the share type of the snapshot's share.")
        if share_network_id != self.share_network_id:
            raise errors.Invalid("A share made from a snapshot has the share network of the snapshot's share.")

    def check_key(self, encryption_key_ref: str | None) -> None:
        """Raises `Invalid` for a share with another key than the content is encrypted with."""
        if encryption_key_ref != self.encryption_key_ref:
            raise errors.Invalid("A share made from a snapshot is encrypted as the snapshot's share is.")


def find(tx: Tx, snapshot_id: str, caller: Caller, *, by_type: bool) -> Source:
    """The snapshot, which stays as it is until this transaction ends.

    With `by_type` its share's type must say that shares can be made from its snapshots. Raises `NotFound` for what the
    caller does not see, `Invalid`.
    """
    snapshot_instances.lock(tx, _seen(tx, snapshot_id, caller).instance_id)
    snapshot = _seen(tx, snapshot_id, caller)
    row = snapshot_instances.whole(tx, snapshot.instance_id)
    instance = None if row is None else share_instances.whole(tx, row.share_instance_id)
    parent = None if row is None else shares.show(tx, row.share_id, _OF_PARENT)
    if row is None or instance is None or parent is None:
        raise errors.NotFound(resource="Snapshot", id=snapshot_id)
    if by_type and not parent.create_share_from_snapshot_support:
        raise errors.Invalid(f"No shares can be made from snapshots of share {row.share_id}: its type does not say so.")
    return Source(
        snapshot,
        contract_snapshot(row, instance),
        instance.placed().host,
        instance.share_proto,
        instance.share_type_id,
        parent.share_network_id,
        instance.encryption_key_ref,
    )


def _seen(tx: Tx, snapshot_id: str, caller: Caller) -> rules.Snapshot:
    snapshot = snapshots.find(tx, snapshot_id)
    if snapshot is None or (snapshot.project_id != caller.project_id and not caller.is_admin):
        raise errors.NotFound(resource="Snapshot", id=snapshot_id)
    return snapshot


_OF_PARENT = ("share_network_id", "create_share_from_snapshot_support")
