# SPDX-License-Identifier: Apache-2.0
"""Every kind of operation. A worker takes only work whose kind stands here; the rest waits for one that knows it."""

from __future__ import annotations

from abaca.operations import (
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
from abaca.operations.journal import Operation

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
