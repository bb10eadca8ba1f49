# SPDX-License-Identifier: Apache-2.0
"""What is done about calls to machines that have come too late, or still may: the attachment is looked at.

Only those that mount can leave what nobody explains: what a call unmounts bears the mark of its own attachment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca.operations.attachments import attachment_attach, attachment_verify
from abaca.operations.attachments.attachment_orphaned import LeftMount
from abaca.operations.attachments.attachment_parts import MountPlan

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.db.journal.claims import Left


def returned(tx: Tx, left: Left) -> None:
    """A run that was no longer entitled to go on has come back from the machine."""
    found = _left_of(left)
    if found is not None:
        attachment_verify.look_after(tx, found.id, found)


def taken(tx: Tx, left: Left, after_s: float) -> None:
    """The run before this one may still be in the middle of a call to the machine."""
    found = _left_of(left)
    if found is not None:
        attachment_verify.suspect(tx, found.id, found, after_s)


class _Recorded(msgspec.Struct):
    """What the operation has written down before it comes to the machine."""

    row: MountPlan | None = None
    at: attachment_attach.Place | None = None


def _left_of(left: Left) -> LeftMount | None:
    """What the operation may have mounted by now; None for another kind, and before it knows of what and where."""
    if left.kind != attachment_attach.OPERATION.kind:
        return None
    try:
        said = msgspec.convert(left.data, _Recorded)
    except msgspec.ValidationError:  # of another release
        return None
    plan, at = said.row, said.at
    source = None if plan is None else plan.wanted_source or plan.source
    if plan is None or at is None or source is None:
        return None
    return LeftMount(
        id=plan.id,
        server_id=plan.server_id,
        machine_id=at.machine_id,
        qmp_socket=at.qmp_socket,
        mode=plan.mode,
        tag=plan.tag,
        mount_point=plan.mount_point,
        protocol=plan.protocol,
        source=source,
    )
