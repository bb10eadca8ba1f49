# SPDX-License-Identifier: Apache-2.0
"""Every kind of operation. A worker takes only work whose kind stands here; the rest waits for one that knows it."""

from __future__ import annotations

from abaca.journal.journal import Operation
from abaca.operations.administration import backend_ensure, backend_ensure_dry_run
from abaca.operations.attachments import attachment_attach, attachment_detach
from abaca.operations.shares import access_rules_sync, share_create, share_delete, share_extend, share_shrink

OPERATIONS: dict[str, Operation] = {
    module.OPERATION.kind: module.OPERATION
    for module in (
        access_rules_sync,
        attachment_attach,
        attachment_detach,
        backend_ensure,
        backend_ensure_dry_run,
        share_create,
        share_delete,
        share_extend,
        share_shrink,
    )
}
