# SPDX-License-Identifier: Apache-2.0
"""Finding the attachment that a request is about."""

from __future__ import annotations

from abaca.api import naming
from abaca.db.attachments import attachments
from abaca.db.engine.database import Tx
from abaca.http.pipeline import Call

ATTACHMENT = naming.Kind("Attachment", attachments.ATTACHMENTS, is_named=False)


def attachment_id_of(call: Call, tx: Tx, said: str) -> str:
    """The id of the attachment that is meant, as `naming.id_of` says."""
    return naming.id_of(call, tx, ATTACHMENT, said)
