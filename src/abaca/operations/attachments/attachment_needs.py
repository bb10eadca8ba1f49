# SPDX-License-Identifier: Apache-2.0
"""Which rules of attachments have lost all that needed them: found for a whole share at once.

Who ends an attachment looks at no others of its share, of which there may be thousands: it has the back ends told
(`attachment_rules.let_go`). That takes up all rules of the share, and before it those go that nobody needs any more;
so the ends of many come to one look and one call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from abaca.db.attachments import attachments
from abaca.db.shares import access_rules, shares

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx

# What a rule is made for that attachments need.
MARK = "attachments"


def settle_share(tx: Tx, share_id: str) -> None:
    """Deny the rules that no attachment of a share needs any more, and lower those of which less is needed."""
    if not access_rules.has_any_made_for(tx, share_id, MARK):
        return
    shares.lock(tx, share_id)  # nobody begins to need one meanwhile
    needed = attachments.all_needs(tx, share_id)
    made = access_rules.made_for(tx, share_id, MARK)
    access_rules.deny_these(tx, [rule.id for rule in made if rule.client not in needed])
    for rule in made:
        level = needed.get(rule.client)
        if level not in (None, rule.access_level):
            access_rules.want_level(tx, rule.id, level)
