# SPDX-License-Identifier: Apache-2.0
"""What has had its time: messages, the journal's history, checks of share networks, shares in the recycle bin."""

from __future__ import annotations

import datetime
import logging
from typing import TYPE_CHECKING

from abaca import errors
from abaca.db.administration import events, messages
from abaca.db.catalog import quotas
from abaca.db.journal import operations
from abaca.db.networks import share_network_checks
from abaca.db.shares import export_location_history, share_transfers, shares
from abaca.operations.administration import resource_locks
from abaca.operations.shares import share_delete, share_transfer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from abaca.db.engine.database import Database

log = logging.getLogger(__name__)

# How much is removed in one transaction, so that none is long.
BATCH = 500
# So many counts of what is used are looked at a time: all of them in the end, whose number grows with the projects.
COUNTS = 200


class Expiry:
    """Removes what is over, for the back ends `hosts` (host@backend) of one worker."""

    def __init__(
        self,
        db: Database,
        hosts: Iterable[str],
        *,
        keep_messages_s: float,
        keep_operations_s: float,
        keep_events_s: float,
        keep_export_locations_s: float = 31_536_000,
    ) -> None:
        self.db = db
        self.hosts = tuple(hosts)
        self.keep_messages_s = keep_messages_s
        self.keep_operations_s = keep_operations_s
        self.keep_events_s = keep_events_s
        self.keep_export_locations_s = keep_export_locations_s
        # up to where the counts have been looked at
        self._counted: quotas.Scope | None = None

    def messages(self) -> None:
        """Remove messages whose time is over."""
        while self._expire_messages() == BATCH:
            pass

    def _expire_messages(self) -> int:
        with self.db.write() as tx:
            return messages.expire(tx, self.keep_messages_s, BATCH)

    def operations(self) -> None:
        """Remove operations that ended long ago, and as old answers of back ends, whose reasons these knew."""
        before = self.db.now() - datetime.timedelta(seconds=self.keep_operations_s)
        while self._purge(before) == BATCH:
            pass
        while self._purge_checks(before) == BATCH:
            pass

    def _purge(self, ended_before: datetime.datetime) -> int:
        with self.db.write() as tx:
            return operations.purge(tx, ended_before, BATCH)

    def _purge_checks(self, asked_before: datetime.datetime) -> int:
        with self.db.write() as tx:
            return share_network_checks.purge(tx, asked_before, BATCH)

    def events(self) -> None:
        """Remove events whose time is over; those that a target never got are logged and counted."""
        while self._expire_events() == BATCH:
            pass

    def _expire_events(self) -> int:
        with self.db.write() as tx:
            number, dropped = events.expire(tx, self.keep_events_s, BATCH)
        for target, lost in dropped.items():
            log.error("%d events for %s are given up: they could not be delivered for too long", lost, target)
        return number

    def export_locations(self) -> None:
        """Remove the history of export locations that ended long ago."""
        ended_before = self.db.now() - datetime.timedelta(seconds=self.keep_export_locations_s)
        while self._purge_export_locations(ended_before) == BATCH:
            pass

    def _purge_export_locations(self, ended_before: datetime.datetime) -> int:
        with self.db.write() as tx:
            return export_location_history.purge(tx, ended_before, BATCH)

    def counts(self) -> None:
        """Remove those of the next `COUNTS` counts of what projects, users and types use that are all nothing."""
        with self.db.write() as tx:
            self._counted = quotas.prune(tx, COUNTS, self._counted)

    def share_transfers(self) -> None:
        """Take back what nobody has accepted in time."""
        while self._expire_share_transfers() == BATCH:
            pass

    def _expire_share_transfers(self) -> int:
        with self.db.read() as tx:
            found = share_transfers.expired(tx, BATCH)
        for transfer in found:  # each by itself: the share is locked before its offer
            with self.db.write() as tx:
                share_transfer.withdraw(tx, transfer)
        return len(found)

    def recycle_bin(self) -> None:
        """Begin the deletion of shares that nobody took out of the recycle bin in time."""
        # those that no pool could take are on no back end: whoever comes first has them
        for host in (*self.hosts, None):
            with self.db.write() as tx:
                for share in shares.expired(tx, host, BATCH):
                    try:
                        with tx.savepoint():
                            share_delete.start(tx, share.id, share.instance_id, None)
                    except errors.NotFound:
                        continue
                    except (errors.Conflict, resource_locks.Locked, share_delete.HasSnapshots) as refusal:
                        log.info("share=%s stays in the recycle bin: %s", share.id, refusal.message)
