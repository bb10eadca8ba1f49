# SPDX-License-Identifier: Apache-2.0
"""Back ends are compared with the database all the time: when one round is over for a while, the next begins.

A round is an operation (operations/administration/backend_reconcile.py), so it goes on at its page after a restart, and
one of them at most is under way for a back end, whoever serves that.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from abaca.db.journal import operations
from abaca.drivers import contract
from abaca.operations.administration import backend_reconcile
from abaca.operations.administration.backend_reconcile import Pace

if TYPE_CHECKING:
    from abaca.db.engine.database import Database, Tx
    from abaca.journal.queues import WorkQueue
    from abaca.operations.parts import BackEnd


class Comparison:
    """Of the back ends that one worker serves; `every_s` seconds lie between the beginnings of two rounds at least."""

    def __init__(
        self, db: Database, served: Iterable[WorkQueue[BackEnd]], every_s: float, pace: Mapping[str, float | int]
    ) -> None:
        self.db = db
        self.served = tuple(served)
        self.every_s = every_s
        self.pace = pace

    def begin(self) -> int:
        """Begin a round wherever one is due; how many."""
        if not self.pace["percent"]:
            return 0
        begun = 0
        for one in self.served:
            if one.is_started and isinstance(one.parts.driver, contract.Inspects):
                with self.db.write() as tx:
                    if self._is_due(tx, one.name):
                        page_size = int(self.pace["page_size"])
                        pace = Pace(percent=float(self.pace["percent"]), page_size=page_size)
                        begun += backend_reconcile.start(tx, one.name, pace) is not None
        return begun

    def _is_due(self, tx: Tx, host: str) -> bool:
        found = operations.find(tx, kind=backend_reconcile.OPERATION.kind, queue=host, limit=1)
        return not found or found[0].created_at <= tx.now - datetime.timedelta(seconds=self.every_s)
