# SPDX-License-Identifier: Apache-2.0
"""Back ends are compared with the database all the time: when one round is over for a while, the next begins.

A round is an operation (operations/administration/backend_reconcile.py), so it goes on at its page after a restart, and
one of them at most is under way for a back end, whoever serves that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from abaca.drivers import contract
from abaca.operations.administration import backend_reconcile
from abaca.operations.administration.backend_reconcile import Pace

if TYPE_CHECKING:
    from abaca.db.engine.database import Database
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
        self.percent = pace["percent"]
        self.pace = Pace(percent=float(self.percent or 1), page_size=int(pace["page_size"]))

    def begin(self) -> int:
        """Begin a round wherever one is due; how many."""
        if not self.percent:
            return 0
        begun = 0
        for one in self.served:
            if one.is_started and isinstance(one.parts.driver, contract.Inspects) and self._is_due(one.name):
                with self.db.write() as tx:
                    backend_reconcile.begin_round(tx, one.name, self.pace)
                begun += 1
        return begun

    def _is_due(self, host: str) -> bool:
        with self.db.read() as tx:
            return backend_reconcile.is_due(tx, host, self.every_s)
