# SPDX-License-Identifier: Apache-2.0
"""The kinds of operations on shares. A new one is one line here."""

from __future__ import annotations

from abaca.operations.shares import (
    access_rules_sync,
    share_clone,
    share_create,
    share_delete,
    share_extend,
    share_instance_delete,
    share_manage,
    share_revert,
    share_shrink,
    share_transfer,
    share_unmanage,
    snapshot_access_sync,
    snapshot_create,
    snapshot_delete,
    snapshot_manage,
    snapshot_unmanage,
)

OPERATIONS = (
    access_rules_sync.OPERATION,
    share_clone.OPERATION,
    share_create.OPERATION,
    share_delete.OPERATION,
    share_extend.OPERATION,
    share_instance_delete.OPERATION,
    share_manage.OPERATION,
    share_revert.OPERATION,
    share_shrink.OPERATION,
    share_transfer.OPERATION,
    share_unmanage.OPERATION,
    snapshot_access_sync.OPERATION,
    snapshot_create.OPERATION,
    snapshot_delete.OPERATION,
    snapshot_manage.OPERATION,
    snapshot_unmanage.OPERATION,
)
