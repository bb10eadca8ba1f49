# SPDX-License-Identifier: Apache-2.0
"""Why an attachment is as it is: a question, which a worker answers by trying each step that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca.journal import questions
from abaca.operations.attachments import way_findings
from abaca.operations.attachments.attachment_parts import AttachmentParts, until_stopped

if TYPE_CHECKING:
    from abaca.journal.op import Op


class Args(msgspec.Struct, frozen=True):
    """Which attachment."""

    attachment_id: str


def try_each_step(op: Op[AttachmentParts]) -> None:
    """What each step shows, and on which host it was tried."""
    with until_stopped():
        found = way_findings.of_attachment(op.db, op.parts, op.args.attachment_id)
    questions.answer(op, way_findings.Examined(op.parts.here, found))


OPERATION = questions.kind("attachment-explain", Args, AttachmentParts, try_each_step)
