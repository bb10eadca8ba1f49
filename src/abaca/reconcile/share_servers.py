# SPDX-License-Identifier: Apache-2.0
"""Share servers that nothing has been on for long are deleted."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from abaca import errors
from abaca.db.networks import share_servers
from abaca.operations.networks import share_server_delete

if TYPE_CHECKING:
    from abaca.db.engine.database import Database
    from abaca.domain.networks.share_servers import ShareServer

log = logging.getLogger(__name__)

# How many are looked at together.
BATCH = 100


class UnusedShareServers:
    """Those of the back ends `hosts` (host@backend) of one worker."""

    def __init__(self, db: Database, hosts: Iterable[str], *, unused_for_s: float) -> None:
        self.db = db
        self.hosts = tuple(hosts)
        self.unused_for_s = unused_for_s

    def delete(self) -> int:
        """Begin their deletion; how many go."""
        before = self.db.now() - datetime.timedelta(seconds=self.unused_for_s)
        found: list[ShareServer] = []
        for host in self.hosts:
            with self.db.read() as tx:
                found += share_servers.unused(tx, host, before, BATCH)
        return sum(self._delete(one) for one in found)

    def _delete(self, server: ShareServer) -> bool:
        try:
            with self.db.write() as tx:
                share_server_delete.start(tx, server, None)
        except (errors.Conflict, errors.NotFound) as refusal:
            log.info("share server %s stays: %s", server.id, refusal.message)
            return False
        return True
