# SPDX-License-Identifier: Apache-2.0
"""What is done about calls to back ends, and to machines, that may have come too late, or still may.

The worker says of each run of an operation that it, or its predecessor, was no longer entitled to go on: `returned`
when such a run has come back from the world, `taken` when the work of a silent worker goes on here. A new kind of
operation on back ends needs nothing for it: instances are found in its arguments, and without any the whole back end is
compared. One that changes share servers is named here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca.db.shares import share_instances
from abaca.drivers import contract
from abaca.operations.administration import backend_reconcile, instance_mend, snapshot_mend
from abaca.operations.attachments import attachment_late
from abaca.operations.attachments.attachment_parts import QUEUE
from abaca.operations.networks import (
    share_network_add_subnet,
    share_server_add_subnet,
    share_server_create,
    share_server_delete,
    share_server_manage,
    share_server_mend,
    share_server_remove_subnet,
    share_server_unmanage,
)
from abaca.operations.parts import BackEnd
from abaca.operations.shares.share_instances import contract_instance

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.db.journal.claims import Left
    from abaca.journal.queues import WorkQueue


# What changes share servers, as its arguments say.
CHANGES_OF_SERVERS = frozenset(
    what.OPERATION.kind
    for what in (
        share_network_add_subnet,
        share_server_add_subnet,
        share_server_create,
        share_server_delete,
        share_server_manage,
        share_server_mend,
        share_server_remove_subnet,
        share_server_unmanage,
    )
)


class LateCalls:
    """For the back ends that one worker serves, by their names."""

    def __init__(self, served: Mapping[str, WorkQueue[BackEnd]]) -> None:
        self.served = served

    def returned(self, tx: Tx, left: Left) -> None:
        """Its effect is there, whatever that is: each instance is mended, or the whole back end is compared."""
        if left.home == QUEUE:
            attachment_late.returned(tx, left)
        one = self.served.get(left.home)
        if one is None:
            return
        server_ids = _servers_of(left)
        for server_id in server_ids:
            share_server_mend.look_after(tx, server_id, left.home, None)
        if server_ids:
            return
        instances = _instances(tx, left)
        for instance in instances:
            instance_mend.start(tx, instance, left.home, None)
        snapshot = _snapshot(left)
        if snapshot is not None:
            snapshot_mend.start(tx, snapshot, left.home, None)
        if not instances and isinstance(one.parts.driver, contract.Inspects):
            backend_reconcile.start(tx, left.home)

    def taken(self, tx: Tx, left: Left, after_s: float) -> None:
        """Its effect may come at any time; what is done now is refused afterwards by a back end that fences.

        Others are looked at in a while, in case that nobody comes back to tell. The transaction is the one that takes
        over and holds rows of operations: one is added to it, and none locked (db/journal/order.py).
        """
        if left.home == QUEUE:
            attachment_late.taken(tx, left, after_s)
        one = self.served.get(left.home)
        if one is None or isinstance(one.parts.driver, contract.Fences):
            return
        server_ids = _servers_of(left)
        for server_id in server_ids:
            share_server_mend.suspect(tx, server_id, left.home, after_s)
        if server_ids:
            return
        instances = _instances(tx, left)
        if instances and isinstance(one.parts.driver, contract.Inspects):
            backend_reconcile.suspect(tx, left.home, instances, after_s)


def _snapshot(left: Left) -> snapshot_mend.Args | None:
    """That which the operation is about, if it is about one."""
    try:
        return msgspec.convert(left.args, snapshot_mend.Args)
    except msgspec.ValidationError:
        return None


class _AboutServer(msgspec.Struct):
    """What arguments of operations on share servers say of these."""

    server: contract.ShareServer | None = None
    server_id: str | None = None
    server_ids: tuple[str, ...] = ()


def _servers_of(left: Left) -> Sequence[str]:
    """The ids of the share servers that the operation changes, in their order; none for one on anything else."""
    if left.kind not in CHANGES_OF_SERVERS:
        return ()
    try:
        said = msgspec.convert(left.args, _AboutServer)
    except msgspec.ValidationError:  # of another release
        return ()
    one = said.server.id if said.server is not None else said.server_id
    return sorted(said.server_ids) if one is None else [one]


class _About(msgspec.Struct):
    """What arguments of operations, and what these have recorded, say of instances."""

    instance: contract.ShareInstance | None = None
    snapshot: contract.Snapshot | None = None
    instance_id: str | None = None


def _instances(tx: Tx, left: Left) -> list[contract.ShareInstance]:
    """Those that the operation is about, as drivers are told of them, in the order in which these are queued."""
    try:
        said = [msgspec.convert(given, _About) for given in (left.args, left.data)]
    except msgspec.ValidationError:  # another release wrote it; taking its work over shall not fail for that
        return []
    found = {one.snapshot.instance.id: one.snapshot.instance for one in said if one.snapshot is not None}
    found |= {one.instance.id: one.instance for one in said if one.instance is not None}
    for one in said:
        if one.instance_id is not None and one.instance_id not in found:
            row = share_instances.whole(tx, one.instance_id)
            if row is not None:
                found[row.id] = contract_instance(row)
    return [found[id] for id in sorted(found)]
