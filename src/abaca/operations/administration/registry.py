# SPDX-License-Identifier: Apache-2.0
"""The kinds of operations on back ends as a whole. A new one is one line here."""

from __future__ import annotations

from abaca.operations.administration import (
    backend_ensure,
    backend_ensure_dry_run,
    backend_reconcile,
    instance_mend,
    snapshot_mend,
)

OPERATIONS = (
    backend_ensure.OPERATION,
    backend_ensure_dry_run.OPERATION,
    backend_reconcile.OPERATION,
    instance_mend.OPERATION,
    snapshot_mend.OPERATION,
)
