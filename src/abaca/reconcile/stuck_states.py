# SPDX-License-Identifier: Apache-2.0
"""Nothing stays busy without an operation that will end it.

The journal writes both in one transaction, so what is found here was set by hand, came with an import, or is a bug. It
takes no input and may run at any time: what an operation explains is left alone, also when that one comes in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from abaca.db.administration import messages, services
from abaca.db.journal import keys, operations, waits
from abaca.db.networks import share_networks, share_servers
from abaca.db.shares import share_instances, snapshot_instances, snapshots
from abaca.domain.administration.messages import About, Action, Detail
from abaca.operations.administration import backend_ensure
from abaca.operations.networks import share_server_change
from abaca.operations.shares import access_rules_sync
from abaca.operations.shares.share_instances import service_host

if TYPE_CHECKING:
    from abaca.db.engine.database import Database, Tx
    from abaca.domain.networks.share_servers import ShareServer
    from abaca.domain.shares.share_instances import PlacedInstance, ShareInstance
    from abaca.domain.shares.snapshots import SnapshotInstance

log = logging.getLogger(__name__)

Found = TypeVar("Found")

# How much is looked at together.
BATCH = 500
_ACTIONS = {
    "creating": Action.CREATE,
    "creating_from_snapshot": Action.CREATE,
    "deleting": Action.DELETE,
    "extending": Action.EXTEND,
    "shrinking": Action.SHRINK,
    "ensuring": Action.UPDATE,
    "manage_starting": Action.MANAGE,
    "unmanage_starting": Action.UNMANAGE,
    "reverting": Action.REVERT,
    "restoring": Action.REVERT,
}


class _Explained(Exception):
    """An operation came in between."""


class StuckStates:
    """Heals the back ends `hosts` (host@backend) of one worker."""

    def __init__(self, db: Database, hosts: Iterable[str]) -> None:
        self.db = db
        self.hosts = tuple(hosts)

    def heal(self) -> int:
        """What is busy fails, rules on their way get a new operation, services tell the truth; how many of all.

        A share network is active again once none of its share servers is in change.
        """
        with self.db.write() as tx:
            settled = services.settle(tx, self.hosts)
        for host in self.hosts:
            settled += self._heal_on(host, share_instances.busy_without_operation, _fail)
            settled += self._heal_on(host, share_instances.rules_without_operation, _sync)
            settled += self._heal_on(host, snapshot_instances.busy_without_operation, _fail_snapshot)
            settled += self._heal_on(host, share_servers.busy_without_operation, _fail_server)
        return settled + self._heal(share_networks.changing_without_server, _settle_network)

    def _heal_on(
        self, host: str, find: Callable[[Tx, str, int], Sequence[Found]], mend: Callable[[Tx, Found], None]
    ) -> int:
        return self._heal(lambda tx, most: find(tx, host, most), mend)

    def _heal(self, find: Callable[[Tx, int], Sequence[Found]], mend: Callable[[Tx, Found], None]) -> int:
        healed = 0
        while True:
            with self.db.read() as tx:
                found = find(tx, BATCH)
            mended = sum(self._mended(row, mend) for row in found)
            healed += mended
            if len(found) < BATCH or not mended:
                return healed

    def _mended(self, row: Found, mend: Callable[[Tx, Found], None]) -> bool:
        try:
            with self.db.write() as tx:
                mend(tx, row)
        except _Explained:
            return False
        return True


def _fail(tx: Tx, row: ShareInstance) -> None:
    # moving locks the row: whoever begins an operation on it has committed before, or waits until we have
    if not share_instances.try_move(tx, row.id, "failed") or _is_explained(tx, row):
        raise _Explained
    log.warning("share=%s instance=%s was %s without an operation", row.share_id, row.id, row.status)
    messages.record(
        tx,
        About(row.project_id, None, "SHARE", row.share_id),
        _ACTIONS.get(row.status, Action.UPDATE),
        Detail.UNKNOWN_ERROR,
        reason=f"The share was {row.status}, and nothing was going to end that.",
    )


def _fail_snapshot(tx: Tx, row: SnapshotInstance) -> None:
    key = keys.key(snapshots.KEY, row.snapshot_id)
    if not snapshot_instances.try_move(tx, row.id, "failed") or keys.holders(tx, key):
        raise _Explained
    log.warning("snapshot=%s was %s without an operation", row.snapshot_id, row.status)
    messages.record(
        tx,
        About(row.project_id, None, "SHARE_SNAPSHOT", row.snapshot_id),
        _ACTIONS.get(row.status, Action.UPDATE),
        Detail.UNKNOWN_ERROR,
        reason=f"The snapshot was {row.status}, and nothing was going to end that.",
    )


def _fail_server(tx: Tx, server: ShareServer) -> None:
    if not share_servers.try_move(tx, server.id, "failed") or keys.holders(tx, keys.key(share_servers.KEY, server.id)):
        raise _Explained
    log.warning("share server %s was %s without an operation", server.id, server.status)
    if server.share_network_id is not None:
        share_server_change.settle(tx, server.share_network_id)
    share_servers.note_use(tx, server.id)
    waits.signal(tx, share_servers.settled_condition(server.id))


def _settle_network(tx: Tx, network_id: str) -> None:
    share_networks.hold(tx, network_id)
    if not share_server_change.settle(tx, network_id):
        raise _Explained
    log.warning("share network %s was in change without a share server that is", network_id)


def _sync(tx: Tx, row: PlacedInstance) -> None:
    log.warning("share=%s instance=%s had rules on their way without an operation", row.share_id, row.id)
    access_rules_sync.start(tx, row, None)


def _is_explained(tx: Tx, row: ShareInstance) -> bool:
    if row.status == "ensuring":  # that operation is about the whole back end
        kind, queue = backend_ensure.OPERATION.kind, service_host(row.placed().host)
        found = operations.find(tx, live=True, kind=kind, queue=queue, limit=1)
        return bool(found) and found[0].state != "paused"
    held = keys.holders(tx, keys.key(share_instances.INSTANCE_KEY, row.id))
    return any(one.kind != access_rules_sync.OPERATION.kind for one in held)
