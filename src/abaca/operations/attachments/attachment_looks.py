# SPDX-License-Identifier: Apache-2.0
"""A look at the machine of an active attachment, and what comes of it.

It stays `active` where it is mounted as it shall be; else it is mended, moved, or in error. Each is written in a
transaction that looks at the attachment again: it may be somewhere else meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from abaca import errors
from abaca.db.attachments import attachments
from abaca.db.shares import shares
from abaca.domain.attachments.attachments import Attachment
from abaca.nodes.contract import Job, Seen, Stopping
from abaca.operations import events
from abaca.operations.attachments import (
    attachment_attach,
    attachment_clusters,
    attachment_detach,
    attachment_rules,
)
from abaca.operations.attachments.attachment_parts import NotMounted, ServerGone

if TYPE_CHECKING:
    from abaca.db.engine.database import Database, Tx
    from abaca.operations.attachments.attachment_parts import AttachmentParts

log = logging.getLogger(__name__)

# What is told of an attachment that was believed to be well, or under way, and is not.
NOT_SO = "share.attachment.verify.error"


class Looks:
    """Looks at machines with the means of one worker."""

    def __init__(self, db: Database, parts: AttachmentParts) -> None:
        self.db = db
        self.parts = parts

    def job(self, row: Attachment) -> Job | None:
        """The look at an attachment's machine; None where there is nothing to look at. Raises `Unavailable`."""
        try:
            server = self.parts.servers.show(row.server_id)
            if server is None:
                self.one(row, let_go)
                return None
            if server.status == "SHUTOFF":
                self.one(row, _stop)
                return None
            mounting = self.parts.mounting(server, row.mode)
            at = [address.ip for address in mounting.addresses]
            self.one(row, lambda tx, fresh: _follow(tx, fresh, at))
            login, guest = self.parts.way(row.server_id, row.mode, row.tag)
        except errors.Unavailable:
            raise
        except errors.AbacaError as error:
            self.lose(row, error)
            return None
        with self.db.read() as tx:
            plan = attachment_attach.plan_of(tx, row, shares.find(tx, row.share_id))
        source = plan.source or plan.wanted_source
        if source is None:
            return None
        return Job(action="look", login=login, mount=attachment_attach.mount_of(plan, source, guest))

    def judge(self, row: Attachment, seen: Seen | None) -> None:
        """Write down what a look has shown, and mend what is not as it shall be."""
        self.one(row, lambda tx, fresh: _judge(tx, fresh, seen))

    def lose(self, row: Attachment, error: errors.AbacaError) -> None:
        """It could not be looked at: it is in error. A worker that stops knows nothing of it; the next one looks."""
        if isinstance(error, Stopping):
            return
        self.one(row, lambda tx, fresh: lose(tx, fresh, error, self.parts.longest_pause_s))

    def one(self, row: Attachment, mend: Callable[[Tx, Attachment], None]) -> bool:
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


def lose(tx: Tx, row: Attachment, error: errors.AbacaError, longest_pause_s: float) -> None:
    """From active to error. Raises `Conflict` where it is not active."""
    attachments.move(tx, row.id, "lost")
    in_error(tx, row, error, longest_pause_s)


def in_error(tx: Tx, row: Attachment, error: errors.AbacaError, longest_pause_s: float) -> None:
    """Why an attachment is in error, which its users and all who want its events are told."""
    attachment_attach.write_error(tx, row.id, error, longest_pause_s)
    events.notify_attachment(tx, NOT_SO, row.id, error)
    attachment_clusters.signal_lost(tx, row.cluster_id)


def remount(tx: Tx, row: Attachment) -> None:
    """It follows its export."""
    log.info("attachment=%s: the share can no longer be mounted from %s; it moves", row.id, row.source)
    attachment_attach.start(tx, row, None, event="remount")


def let_go(tx: Tx, row: Attachment) -> None:
    """It ends with its server."""
    log.info("attachment=%s: server %s is gone; so are its rules", row.id, row.server_id)
    events.notify_attachment(tx, NOT_SO, row.id, ServerGone(server=row.server_id))
    attachment_detach.start(tx, row, None)


def _follow(tx: Tx, row: Attachment, addresses: Sequence[str]) -> None:
    attachment_rules.follow(tx, row, shares.find(tx, row.share_id), addresses, None)


def _judge(tx: Tx, row: Attachment, seen: Seen | None) -> None:
    if seen is None or not _is_as_wanted(row, seen):
        log.warning("attachment=%s is not mounted on server %s as it shall be; again", row.id, row.server_id)
        events.notify_attachment(tx, NOT_SO, row.id, NotMounted(server=row.server_id, mount_point=row.mount_point))
        attachment_attach.start(tx, row, None)
    elif attachment_attach.has_moved(tx, row):
        remount(tx, row)
    elif seen.needs_certificate:
        log.info("attachment=%s: the certificate of server %s ends soon; it gets another", row.id, row.server_id)
        attachment_attach.start(tx, row, None)
    elif seen.is_outdated:
        log.info("attachment=%s: after a boot server %s would mount it as before; written anew", row.id, row.server_id)
        attachment_attach.start(tx, row, None)
    else:
        attachments.update(tx, row.id, {"last_verified_at": tx.now})


def _is_as_wanted(row: Attachment, seen: Seen) -> bool:
    """What a guest is handed its hypervisor plugs anew after a boot, whatever is kept there."""
    comes_back = seen.is_persistent or row.mode != "network"
    return comes_back and seen.is_read_only == (row.access_level == "ro")


def _stop(tx: Tx, row: Attachment) -> None:
    attachments.move(tx, row.id, "stopped")
    events.notify_attachment(tx, "share.attachment.stopped", row.id)
    attachment_clusters.signal_lost(tx, row.cluster_id)
