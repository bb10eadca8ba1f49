# SPDX-License-Identifier: Apache-2.0
"""What the database knows of a worker's back ends: that they are alive, and how full their pools are."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.administration import pools, services
from abaca.db.catalog import availability_zones
from abaca.drivers import load
from abaca.operations.administration import backend_ensure, ensure_calls

if TYPE_CHECKING:
    from abaca.db.engine.database import Database, Tx
    from abaca.journal.queues import WorkQueue
    from abaca.operations.administration.backend_ensure import Manner
    from abaca.operations.parts import BackEnd

log = logging.getLogger(__name__)

# Announced when a worker has left: another that serves the same back end says at once that it is alive.
LEFT = "services"


class Backends:
    """The back ends that one worker serves."""

    def __init__(self, db: Database, served: Iterable[WorkQueue[BackEnd]], manner: Manner | None = None) -> None:
        self.db = db
        self.served = tuple(served)
        self.manner = manner or backend_ensure.Manner()
        # nobody is called up by us any more; held while somebody is
        self._has_left = False
        self._calling = threading.Lock()

    def expect(self, service_down_time_s: int) -> None:
        """The worker begins: what is asked for waits for those back ends that have served before."""
        with self.db.write() as tx:
            services.expect(tx, [one.name for one in self.served], service_down_time_s)

    def announce(self, one: WorkQueue[BackEnd]) -> None:
        """A back end has started: its service is up, its zone exists, its pools can be chosen.

        Its shares are ensured, while it serves, when it says something else of itself than when they last were.
        """
        if one not in self.served:
            return
        said = backend_ensure.digest(one.parts.driver)
        with self._calling, self.db.write() as tx:
            if self._has_left:
                return
            availability_zones.ensure(tx, one.parts.backend.availability_zone)
            service_id = services.register(tx, services.SHARE_BINARY, one.name, one.parts.backend.availability_zone)
            self._compare(tx, one, service_id, said)
        self._report(one)

    def change(self, one: WorkQueue[BackEnd], options: object) -> None:
        """It serves by these options from now on, and its shares are ensured where they are concerned."""
        one.parts.driver.change(options)
        said = backend_ensure.digest(one.parts.driver)
        with self.db.write() as tx:
            service = services.find(tx, one.name)
            if service is not None:
                self._compare(tx, one, service.id, said)
        if one.is_started:
            self._report(one)

    def _compare(self, tx: Tx, one: WorkQueue[BackEnd], service_id: int, said: str) -> None:
        known = services.backend_info(tx, one.name)
        if known == said:
            return
        if known is None or not ensure_calls.can_ensure(one.parts.driver):
            services.set_backend_info(tx, one.name, said)
            return
        asked = backend_ensure.start(tx, service_id, one.name, self.manner, None)
        does = "is paused and will ensure" if asked.is_paused else "ensures"
        log.info("back end %s has another configuration: op=%s %s its shares", one.parts.backend.name, asked.id, does)

    def beat(self) -> None:
        """Those that have started are alive."""
        hosts = [one.name for one in self.served if one.is_started]
        if hosts:
            with self._calling, self.db.write() as tx:
                if not self._has_left:
                    services.heartbeat(tx, hosts)

    def record_problem(self, one: WorkQueue[BackEnd], problem: str) -> None:
        """Why a back end is not served at the moment, for operators to see."""
        if one not in self.served:
            return
        with self.db.write() as tx:
            services.report_problem(tx, services.SHARE_BINARY, one.name, one.parts.backend.availability_zone, problem)

    def report(self, one: WorkQueue[BackEnd]) -> None:
        """How full its pools are; a back end that cannot say keeps its last figures, and it is seen why."""
        if not one.is_started:
            return
        try:
            self._report(one)
        except errors.BackendError as error:
            self.record_problem(one, error.message)
            raise
        with self.db.write() as tx:
            services.solve_problem(tx, services.SHARE_BINARY, one.name)

    def _report(self, one: WorkQueue[BackEnd]) -> None:
        taken_at = self.db.now()
        announced = load.capabilities(one.parts.driver)
        stats = [
            msgspec.structs.replace(pool, capabilities={**announced, **pool.capabilities})
            for pool in one.parts.driver.pools()
        ]
        with self.db.write() as tx:
            pools.report(tx, one.name, stats, taken_at)

    def leave(self) -> None:
        """The worker ends as it was told to."""
        self._has_left = True  # whoever waits for the database to call it up does not
        with self._calling, self.db.write() as tx:
            services.stop(tx, [one.name for one in self.served])
            tx.wake(LEFT)
