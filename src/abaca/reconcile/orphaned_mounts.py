# SPDX-License-Identifier: Apache-2.0
"""Orphaned mounts are taken away when their machines can be entered again.

This may run in any number of workers at any time: to take away what is away already is no error.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from abaca import errors
from abaca.db.attachments import orphaned_mounts
from abaca.domain.attachments.attachments import OrphanedMount, retry_delay_s
from abaca.nodes.contract import Job
from abaca.operations.attachments import attachment_orphaned

if TYPE_CHECKING:
    from abaca.db.engine.database import Database
    from abaca.operations.attachments.attachment_parts import AttachmentParts

log = logging.getLogger(__name__)

# So many machines are entered together.
PAGE = 16
# A server that is off is asked for again after so many seconds, or sooner.
OFF_S = 15.0


class OrphanedMounts:
    """Takes orphaned mounts away; each worker runs one of these."""

    def __init__(self, db: Database, tools: AttachmentParts) -> None:
        self.db = db
        self.tools = tools

    def sweep(self) -> int:
        """Try a page of the orphaned mounts whose next try has come; how many there were."""
        with self.db.read() as tx:
            found = orphaned_mounts.due(tx, PAGE)
        pairs = [(orphan, job) for orphan in found if (job := self._job(orphan)) is not None]
        outcomes = self.tools.nodes.many([job for _, job in pairs])
        for (orphan, _), outcome in zip(pairs, outcomes, strict=True):
            if outcome.error is None:
                self._forget(orphan, "gone")
            else:
                self._fail(orphan, outcome.error)
        return len(found)

    def _job(self, orphan: OrphanedMount) -> Job | None:
        """The work on the orphaned mount's machine; None where it is not to be tried now."""
        try:
            if self.tools.is_gone(orphan.machine_id):
                self._forget(orphan, "gone with its machine")
            elif self.tools.is_off(orphan.machine_id):
                self._put_off(orphan, min(OFF_S, self.tools.longest_pause_s), has_failed=False)
            else:
                login, guest = attachment_orphaned.way(self.tools, orphan)
                return Job(action="clear", login=login, mount=attachment_orphaned.mount_of(orphan, guest))
        except errors.AbacaError as error:
            self._fail(orphan, error)
        return None

    def _forget(self, orphan: OrphanedMount, how: str) -> None:
        log.info("attachment=%s: what was left of it on server %s is %s", orphan.id, orphan.machine_id, how)
        with self.db.write() as tx:
            orphaned_mounts.remove(tx, orphan.id)

    def _fail(self, orphan: OrphanedMount, error: errors.AbacaError) -> None:
        log.warning("attachment=%s: what is left on server %s stays: %s", orphan.id, orphan.machine_id, error.message)
        self._put_off(orphan, retry_delay_s(orphan.attempts + 1, self.tools.longest_pause_s), has_failed=True)

    def _put_off(self, orphan: OrphanedMount, delay_s: float, *, has_failed: bool) -> None:
        with self.db.write() as tx:
            orphaned_mounts.put_off(tx, orphan, delay_s, has_failed=has_failed)
