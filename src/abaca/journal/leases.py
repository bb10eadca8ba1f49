# SPDX-License-Identifier: Apache-2.0
"""The leases of one worker: it renews those that it holds, and takes over those that have ended."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import exc

from abaca.db.journal import claims

if TYPE_CHECKING:
    from abaca.db.engine.database import Database, Tx
    from abaca.domain.operations import OperationRecord
    from abaca.journal.op import Op

log = logging.getLogger(__name__)


class Leases:
    """`held` are the operations under way, by their ids; `wake` is told of queues with work that was left."""

    def __init__(self, name: str, owner: str, db: Database, lease_s: float, pause_s: float = 30.0) -> None:
        self.name = name
        self.owner = owner
        self.db = db
        self.lease_s = lease_s
        self.pause_s = pause_s
        self.held: dict[str, Op[object]] = {}
        # held while work is taken and noted down, lest what was just taken looks like left behind
        self.taking = threading.Lock()
        self.wake: Callable[[str], None] = lambda _queue: None
        # told to look at a queue in so many seconds
        self.again: Callable[[str, float], None] = lambda _queue, _delay_s: None
        # told, in that transaction, of work taken over from a worker that may still be in the middle of it; it locks no
        # rows that are there
        self.on_taken: Callable[[Tx, claims.Left, float], None] = lambda _tx, _left, _after_s: None

    def claim(self, queue: str, kinds: Sequence[str], most: int) -> tuple[Sequence[OperationRecord], float]:
        """Take up to so many operations of a queue; they, and until when they are ours.

        Raises `IntegrityError` when another worker was faster.
        """
        now_s = self.db.time()
        lease = claims.Lease(owner=self.owner, now_s=now_s, until_s=now_s + self.lease_s)
        # SQLite needs two statements for what is one on PostgreSQL
        with self.db.write() if self.db.is_sqlite else self.db.once() as tx:
            return claims.claim(tx, queue, kinds, most, lease), lease.until_s

    def keep(self, is_over: threading.Event, stopping: threading.Event, started: Callable[[], Sequence[str]]) -> None:
        """Renew, again and again; until `stopping` also take over what others, or this one, have left."""
        pause_s = self.lease_s / 3
        while not is_over.wait(pause_s):
            pause_s = self.lease_s / 3
            try:
                self.db.agree_on_time()
                self.renew()
                if not stopping.is_set():
                    self.reclaim(started())
            except exc.SQLAlchemyError as error:
                log.warning("leases cannot be renewed: %s", str(error).split("\n")[0])
                pause_s = min(1.0, pause_s)
            except Exception:
                log.exception("the lease keeper stumbled")

    def renew(self) -> None:
        """Prolong the leases of all that is under way."""
        held: Mapping[str, Op[object]] = dict(self.held)
        if held:
            until_s = self.db.time() + self.lease_s
            with self.db.once() as tx:
                renewed = claims.renew(tx, self.owner, list(held), until_s)
                # one at a time: who waits for a row holds none
                later = [op_id for op_id in held if op_id not in renewed and op_id in self.held]
                renewed.update(op_id for op_id in later if claims.renew_one(tx, self.owner, op_id, until_s))
            for op_id in renewed:
                held[op_id].leased_until_s = until_s

    def reclaim(self, queues: Sequence[str]) -> None:
        """Queue again what nobody holds any more."""
        self._look(lambda tx: claims.regain(tx, queues, list(self.held), owner=self.owner))
        self._look(lambda tx: self._take_over(tx, queues))

    def inherit(self, queue: str) -> None:
        """Queue again what has been left on a queue: by an earlier life of this worker at any time."""
        self._look(
            lambda tx: claims.inherit(tx, [queue], list(self.held), worker=self.name, at=self._now()),
        )
        with self.db.read() as tx:
            later = claims.left_by(tx, [queue], list(self.held), worker=self.name)
        for op_id in later:  # one at a time: who waits for a row holds none
            self._look(functools.partial(self._inherit_one, op_id, queue))
        self._look(lambda tx: self._take_over(tx, [queue]))

    def _inherit_one(self, op_id: str, queue: str, tx: Tx) -> Sequence[claims.Left]:
        return claims.inherit_one(tx, op_id, [queue], list(self.held), worker=self.name, at=self._now())

    def _take_over(self, tx: Tx, queues: Sequence[str]) -> Sequence[claims.Left]:
        found = claims.take_over(tx, queues, list(self.held), at=self._now())
        for row in found:
            self.on_taken(tx, row, 2 * self.lease_s)
            self.again(row.queue, 2 * self.lease_s)
        return found

    def _now(self) -> claims.Moment:
        return claims.Moment(now_s=self.db.time(), pause_s=self.pause_s)

    def _look(self, take: Callable[[Tx], Sequence[claims.Left]]) -> None:
        """Each in a transaction of its own: the rows that one statement locks are in order, those of two are not."""
        with self.taking, self.db.write() as tx:
            found = take(tx)
        for row in found:
            log.info("op=%s kind=%s goes on here, at step %d (%s)", row.id, row.kind, row.step, row.direction)
            self.wake(row.queue)
            if row.not_before:
                self.again(row.queue, row.not_before - self.db.time())
