# SPDX-License-Identifier: Apache-2.0
"""Attachments stay true: looked at on their machines, tried again after errors, moved with their exports, and gone
with their servers.

It takes no input and may run in any number of workers at any time: what it finds it hands to the operations, each in a
transaction that looks again. Pages are bounded, so that one look never holds many machines.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from abaca import errors
from abaca.db.attachments import attachments
from abaca.db.shares import shares
from abaca.domain.attachments.attachments import Attachment
from abaca.nodes.contract import Job, Outcome
from abaca.operations import events
from abaca.operations.attachments import attachment_attach, attachment_detach, attachment_rules
from abaca.operations.attachments.attachment_parts import NotMounted, ServerGone

if TYPE_CHECKING:
    from abaca.db.engine.database import Database, Tx
    from abaca.operations.attachments.attachment_parts import AttachmentParts

log = logging.getLogger(__name__)

BATCH = 500
# So many machines are looked at together.
PAGE = 48
# What is told of an attachment that was believed to be well, or under way, and is not.
NOT_SO = "share.attachment.verify.error"


class Attachments:
    """Keeps all attachments true; each worker runs one of these."""

    def __init__(self, db: Database, tools: AttachmentParts, *, verify_interval_s: float, batch: int = BATCH) -> None:
        """`batch` rows are read at once."""
        self.batch = batch
        self.db = db
        self.tools = tools
        self.verify_interval_s = verify_interval_s

    # ---------------------------------------------------------------- what the database says

    def heal(self) -> int:
        """Fail busy attachments without an operation, retry errors, follow moved exports; how many were touched."""
        mended = sum(
            self._one(row, mend)
            for find, mend in ((attachments.unexplained, self._fail), (attachments.moved, _remount))
            for row in self._found(find)
        )
        return mended + sum(self._try_again(row) for row in self._due())

    def _found(self, find: Callable[[Tx, int], Sequence[Attachment]]) -> Sequence[Attachment]:
        with self.db.read() as tx:
            return find(tx, self.batch)

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

    def _one(self, row: Attachment, mend: Callable[[Tx, Attachment], None]) -> bool:
        """Whether the attachment was mended here; False where another worker was faster."""
        try:
            with self.db.write() as tx:
                shares.lock(tx, row.share_id)
                fresh = attachments.show(tx, row.id)
                if fresh is None or (fresh.state, fresh.retry_at) != (row.state, row.retry_at):
                    return False
                mend(tx, fresh)
        except (errors.Conflict, errors.NotFound):
            return False
        return True

    def _try_again(self, row: Attachment) -> bool:
        try:
            is_gone = self.tools.is_gone(row.server_id)
        except errors.AbacaError as away:
            log.warning("attachment=%s waits: %s", row.id, away.message)
            return False
        return self._one(row, _let_go if is_gone else _again)

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
                job = self._job(row)
            except errors.Unavailable as error:
                away[row.server_id] = error.message
                continue
            if job is not None:
                jobs[row.id] = (row, job)
        for server_id, said in [*away.items()][:1]:
            log.warning("servers=%d cannot be looked up, such as %s: %s", len(away), server_id, said)
        outcomes = self.tools.nodes.many([job for _, job in jobs.values()])
        for (row, _), outcome in zip(jobs.values(), outcomes, strict=True):
            self._one(row, lambda tx, fresh, outcome=outcome: self._judge(tx, fresh, outcome))  # type: ignore[misc]

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
                return self._one(row, _let_go)
            if row.wanted == "detached":
                server = self.tools.mounting(server, row.mode)
        except errors.AbacaError as away:
            log.warning("server=%s cannot be looked up: %s", row.server_id, away.message)
            return False
        is_on = server.status == "ACTIVE" if row.state == "inactive" else server.status != "SHUTOFF"
        return is_on and self._one(row, _again)

    def _job(self, row: Attachment) -> Job | None:
        """The look at the attachment's machine; None where there is nothing to look at. Raises `Unavailable`."""
        try:
            server = self.tools.servers.show(row.server_id)
            if server is None:
                self._one(row, _let_go)
                return None
            if server.status == "SHUTOFF":
                self._one(row, _stop)
                return None
            mounting = self.tools.mounting(server, row.mode)
            at = [address.ip for address in mounting.addresses]
            self._one(row, lambda tx, fresh: attachment_rules.follow(tx, fresh, at, None))
            login, guest = self.tools.way(row.server_id, row.mode, row.tag)
        except errors.Unavailable:
            raise
        except errors.AbacaError as error:
            problem = error
            self._one(row, lambda tx, fresh: self._lose(tx, fresh, problem))
            return None
        with self.db.read() as tx:
            plan = attachment_attach.plan_of(tx, row)
        source = plan.source or plan.wanted_source
        if source is None:
            return None
        return Job(action="look", login=login, mount=attachment_attach.mount_of(plan, source, guest))

    # ---------------------------------------------------------------- what becomes of them

    def _fail(self, tx: Tx, row: Attachment) -> None:
        if not attachments.try_move(tx, row.id, "failed"):
            raise errors.NotFound(resource="Attachment", id=row.id)
        log.warning("attachment=%s was %s without an operation", row.id, row.state)
        self._in_error(
            tx, row, errors.AbacaError(f"The attachment was {row.state}, and nothing was going to end that.")
        )

    def _lose(self, tx: Tx, row: Attachment, error: errors.AbacaError) -> None:
        attachments.move(tx, row.id, "lost")
        self._in_error(tx, row, error)

    def _in_error(self, tx: Tx, row: Attachment, error: errors.AbacaError) -> None:
        attachment_attach.write_error(tx, row.id, error, self.tools.longest_pause_s)
        events.notify_attachment(tx, NOT_SO, row.id, error)

    def _judge(self, tx: Tx, row: Attachment, outcome: Outcome) -> None:
        """Write down what a look at the machine has shown, and mend what is not as it shall be."""
        if outcome.error is not None:
            self._lose(tx, row, outcome.error)
        elif outcome.seen is None or outcome.seen.is_read_only != (row.access_level == "ro"):
            log.warning("attachment=%s is not mounted on server %s as it shall be; again", row.id, row.server_id)
            events.notify_attachment(tx, NOT_SO, row.id, NotMounted(server=row.server_id, mount_point=row.mount_point))
            attachment_attach.start(tx, row, None)
        elif attachment_attach.has_moved(tx, row):
            _remount(tx, row)
        else:
            attachments.update(tx, row.id, {"last_verified_at": tx.now})


def _again(tx: Tx, row: Attachment) -> None:
    (attachment_detach if row.wanted == "detached" else attachment_attach).start(tx, row, None)


def _remount(tx: Tx, row: Attachment) -> None:
    log.info("attachment=%s: the share can no longer be mounted from %s; it moves", row.id, row.source)
    attachment_attach.start(tx, row, None, event="remount")


def _let_go(tx: Tx, row: Attachment) -> None:
    log.info("attachment=%s: server %s is gone; so are its rules", row.id, row.server_id)
    events.notify_attachment(tx, NOT_SO, row.id, ServerGone(server=row.server_id))
    attachment_detach.start(tx, row, None)


def _stop(tx: Tx, row: Attachment) -> None:
    attachments.move(tx, row.id, "stopped")
    events.notify_attachment(tx, "share.attachment.stopped", row.id)
