# SPDX-License-Identifier: Apache-2.0
"""Which instances that have no row any more were deleted by an operation of ours.

That there is no row proves nothing: somebody may have let go of a share that stays on its back end, or a backup of the
database was brought back. What counts is the end of a deletion that is written down: in the history of the export
locations, or in the journal for one that never had any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from abaca.db.journal import operations
from abaca.db.shares import export_location_history
from abaca.db.shares.export_location_history import Deleted
from abaca.drivers import contract
from abaca.operations.shares import share_delete, share_instance_delete

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx

# The kinds of operations that delete instances.
DELETIONS = (share_delete.OPERATION.kind, share_instance_delete.OPERATION.kind)


def proven(tx: Tx, known: Mapping[str, contract.ShareInstance | None]) -> dict[str, contract.ShareInstance]:
    """Those of these that were deleted, as drivers are told of them; `known` is what else is known of each, by its id.

    The caller has seen that they have no rows.
    """
    histories = export_location_history.deleted_among(tx, list(known), DELETIONS)
    share_ids = {one.share_id for one in known.values() if one is not None}
    share_ids |= {one.share_id for one in histories.values() if one is not None}
    rows = operations.done_on(tx, sorted(share_ids), DELETIONS) if share_ids else []
    told = {one.id: one for one in (msgspec.convert(row.args["instance"], contract.ShareInstance) for row in rows)}
    found = {}
    for instance_id in known:
        history = histories.get(instance_id)
        if instance_id in histories and history is None:
            continue
        if instance_id in told:
            found[instance_id] = told[instance_id]
        elif history is not None:  # the journal has forgotten it
            found[instance_id] = known[instance_id] or _as_known(instance_id, history)
    return found


def _as_known(instance_id: str, history: Deleted) -> contract.ShareInstance:
    return contract.ShareInstance(
        id=instance_id, share_id=history.share_id, project_id=history.project_id, size_gib=1, protocol="", pool=""
    )
