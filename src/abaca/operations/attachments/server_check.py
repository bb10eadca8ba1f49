# SPDX-License-Identifier: Apache-2.0
"""Whether a worker could mount shares on a server: a question, which a worker answers by trying each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca.journal import questions
from abaca.operations.attachments import way_findings
from abaca.operations.attachments.attachment_parts import AttachmentParts, until_stopped

if TYPE_CHECKING:
    from abaca.journal.op import Op


class Args(msgspec.Struct, frozen=True):
    """Which server."""

    server_id: str


def try_way_in(op: Op[AttachmentParts]) -> None:
    """What each step shows, and on which host it was tried."""
    with until_stopped():
        found = way_findings.of_server(op.parts, op.args.server_id)
    questions.answer(op, way_findings.Examined(op.parts.here, found))


OPERATION = questions.kind("server-check", Args, AttachmentParts, try_way_in)
