# SPDX-License-Identifier: Apache-2.0
"""Finding the share that a request is about, as far as its caller may see or change it."""

from __future__ import annotations

from abaca import errors
from abaca.api import naming
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Row
from abaca.db.shares import shares, snapshots
from abaca.domain.shares.shares import Share
from abaca.http.pipeline import Call

SHARE = naming.Kind("Share", shares.SHARES, always={"is_soft_deleted": False})
SNAPSHOT = naming.Kind("Snapshot", snapshots.SNAPSHOTS)


def share_for_look(call: Call, tx: Tx, share_id: str, names: tuple[str, ...]) -> Row:
    """The columns `names` of a share that the caller may see: their project's, or a public one. Raises NotFound."""
    wanted = (*names, *(name for name in ("project_id", "is_public") if name not in names))
    row = shares.show(tx, share_id, wanted)
    if row is None:
        raise errors.NotFound(resource="Share", id=share_id)
    if not row.is_public:
        call.visible(row.project_id, "Share", share_id)
    return row


def share_for_change(call: Call, tx: Tx, share_id: str) -> Share:
    """A share that the caller wants to change. Raises NotFound, and Forbidden for another project's public share."""
    share = shares.find(tx, share_id)
    if share is None:
        raise errors.NotFound(resource="Share", id=share_id)
    if not share.is_public:
        call.visible(share.project_id, "Share", share_id)
    if share.project_id != call.caller.project_id:
        call.require(call.route.policy, project_id=share.project_id)
    return share


def share_held_for_change(call: Call, tx: Tx, share_id: str) -> Share:
    """The same, whose row nobody else changes until this transaction ends: meanwhile it passes to no other project."""
    shares.lock(tx, share_id)
    return share_for_change(call, tx, share_id)


def share_id_of(call: Call, tx: Tx, name_or_id: str) -> str:
    """The id of the share that is meant, as `naming.id_of` says."""
    return naming.id_of(call, tx, SHARE, name_or_id)
