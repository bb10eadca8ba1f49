# SPDX-License-Identifier: Apache-2.0
"""Attachments stay true: looked at on their machines, tried again after errors, moved with their exports, and gone
with their servers.

It takes no input and may run in any number of workers at any time: what it finds it hands to the operations, each in a
transaction that looks again. Pages are bounded, so that one look never holds many machines.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from abaca import errors
from abaca.db.attachments import attachment_counts, attachments
from abaca.db.shares import export_location_history
from abaca.domain.attachments.attachments import Attachment
from abaca.operations.attachments import attachment_attach, attachment_detach
from abaca.operations.attachments.attachment_looks import Looks, in_error, let_go, remount

if TYPE_CHECKING:
    from abaca.db.engine.database import Database, Tx
    from abaca.operations.attachments.attachment_parts import AttachmentParts

log = logging.getLogger(__name__)

BATCH = 500
# What an earlier life of the worker may have left, and how much later than it says a transaction may commit.
ENDED_LATELY, LATE = datetime.timedelta(days=1), datetime.timedelta(minutes=2)
# Of so many attachments it is asked each time whether their exports have moved though nothing says that these ended, as
# after a change by hand: a hundred thousand in four days. Verifying asks it of each that it looks at.
WALK = 5
# So many machines are looked at together.
PAGE = 48


class Attachments:
    """Keeps all attachments true; each worker runs one of these."""

    def __init__(self, db: Database, tools: AttachmentParts, *, verify_interval_s: float, batch: int = BATCH) -> None:
        """`batch` rows are read at once."""
        self.batch = batch
        self.db = db
        self.tools = tools
        self.looks = Looks(db, tools)
        self.verify_interval_s = verify_interval_s
        # since when export locations that end have not been looked at
        self._since: datetime.datetime | None = None
        # how far the walk through all attachments has come
        self._walked = ""

    # ---------------------------------------------------------------- what the database says

    def heal(self) -> int:
        """Fail busy attachments without an operation, retry errors, follow moved exports; how many were touched."""
        with self.db.read() as tx:
            unexplained = attachments.unexplained(tx, self.batch)
        mended = sum(self.looks.one(row, self._fail) for row in unexplained)
        mended += sum(self.looks.one(row, remount) for row in self._moved())
        return mended + sum(self._try_again(row) for row in self._due())

    def _moved(self) -> Iterator[Attachment]:
        """The attachments whose exports have moved: of shares whose export locations ended lately, and of some more."""
        now = self.db.now()
        since, last = self._since or now - ENDED_LATELY, None
        while True:
            with self.db.read() as tx:
                ended = export_location_history.ended(tx, since, self.batch, last)
                found = attachments.moved(tx, {one.share_id for one in ended}) if ended else []
            yield from found
            if len(ended) < self.batch:
                break
            last = ended[-1]
        self._since = now - LATE
        with self.db.read() as tx:
            walked = attachments.page(tx, self._walked, WALK)
            found = attachments.moved(tx, {one.share_id for one in walked}) if walked else []
        self._walked = walked[-1].id if len(walked) == WALK else ""
        yield from found

    def _due(self) -> Iterator[Attachment]:
        """All attachments whose next try has come; one whose server cannot be looked up holds up no other."""
        last = None
        while True:
            with self.db.read() as tx:
                found = attachments.due(tx, self.batch, last)
            yield from found
            if len(found) < self.batch:
                return
            last = found[-1]

    def _try_again(self, row: Attachment) -> bool:
        try:
            is_gone = self.tools.is_gone(row.server_id)
        except errors.AbacaError as away:
            log.warning("attachment=%s waits: %s", row.id, away.message)
            return False
        return self.looks.one(row, let_go if is_gone else _again)

    # ---------------------------------------------------------------- what the machines say

    def verify(self) -> int:
        """Look at the attachments that nobody has looked at for long, page after page; how many there were.

        An attachment whose server cannot be looked up now waits for the next time, and holds up no other page.
        """
        since = self.db.now() - datetime.timedelta(seconds=self.verify_interval_s)
        number, last = 0, None
        while True:
            with self.db.read() as tx:
                found = attachments.unverified(tx, since, PAGE, last)
            self._look_at(found)
            number += len(found)
            if len(found) < PAGE:
                return number
            last = found[-1]

    def _look_at(self, found: Sequence[Attachment]) -> None:
        jobs, away = {}, {}
        for row in found:
            try:
                job = self.looks.job(row)
            except errors.Unavailable as error:
                away[row.server_id] = error.message
                continue
            if job is not None:
                jobs[row.id] = (row, job)
        for server_id, said in [*away.items()][:1]:
            log.warning("servers=%d cannot be looked up, such as %s: %s", len(away), server_id, said)
        outcomes = self.tools.nodes.many([job for _, job in jobs.values()])
        for (row, _), outcome in zip(jobs.values(), outcomes, strict=True):
            if outcome.error is None:
                self.looks.judge(row, outcome.seen)
            else:
                self.looks.lose(row, outcome.error)

    def wake(self) -> int:
        """Go on with the attachments of servers that were off and are on; how many there were."""
        woken, after = 0, ""
        while True:
            with self.db.read() as tx:
                found = attachments.inactive(tx, after, self.batch)
            for row in found:
                woken += self._wake(row)
            if len(found) < self.batch:
                return woken
            after = found[-1].id

    def _wake(self, row: Attachment) -> bool:
        try:
            server = self.tools.servers.show(row.server_id)
            if server is None:
                return self.looks.one(row, let_go)
            if row.wanted == "detached":
                server = self.tools.mounting(server, row.mode)
        except errors.AbacaError as away:
            log.warning("server=%s cannot be looked up: %s", row.server_id, away.message)
            return False
        is_on = server.status == "ACTIVE" if row.state == "inactive" else server.status != "SHUTOFF"
        return is_on and self.looks.one(row, _again)

    def add_up(self) -> None:
        """Keep few the rows whose sum is how many there are."""
        while self._add_up() == self.batch:
            pass

    def _add_up(self) -> int:
        with self.db.write() as tx:
            return attachment_counts.add_up(tx, self.batch)

    # ---------------------------------------------------------------- what becomes of them

    def _fail(self, tx: Tx, row: Attachment) -> None:
        if not attachments.try_move(tx, row.id, "failed"):
            raise errors.NotFound(resource="Attachment", id=row.id)
        log.warning("attachment=%s was %s without an operation", row.id, row.state)
        why = errors.AbacaError(f"The attachment was {row.state}, and nothing was going to end that.")
        in_error(tx, row, why, self.tools.longest_pause_s)


def _again(tx: Tx, row: Attachment) -> None:
    (attachment_detach if row.wanted == "detached" else attachment_attach).start(tx, row, None)
