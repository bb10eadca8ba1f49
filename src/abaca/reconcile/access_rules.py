# SPDX-License-Identifier: Apache-2.0
"""Nobody stays let in because a back end failed to take a rule away when it was asked to.

Rules that were denied, and those that were made for attachments, have no user who would try them again. It takes no
input and may run in any number of workers at any time.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from abaca.db.shares import instance_access_rules
from abaca.domain.shares.access_rules import next_try_at
from abaca.operations.attachments import attachment_rules

if TYPE_CHECKING:
    from abaca.db.engine.database import Database

log = logging.getLogger(__name__)

BATCH = 500


class AccessRules:
    """Has failed rules tried again, with pauses that grow; each worker runs one of these."""

    def __init__(self, db: Database, *, batch: int = BATCH) -> None:
        """`batch` rows are read at once."""
        self.db = db
        self.batch = batch

    def heal(self) -> int:
        """Try those again whose time has come; how many there were."""
        tried, after = 0, ""
        while True:
            with self.db.read() as tx:
                found = instance_access_rules.failed(tx, after, self.batch)
            now = self.db.now()
            due = {rule.share_id for rule in found if next_try_at(rule.asked_at, rule.failed_at) <= now}
            tried += sum(self._try(share_id) for share_id in sorted(due))
            if len(found) < self.batch:
                return tried
            after = found[-1].share_id

    def _try(self, share_id: str) -> int:
        with self.db.write() as tx:
            number = attachment_rules.try_again(tx, share_id)
        if number:
            log.warning("share=%s: %d rules that its back end failed to change are tried again", share_id, number)
        return number
