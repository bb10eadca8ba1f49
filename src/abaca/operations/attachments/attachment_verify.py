# SPDX-License-Identifier: Apache-2.0
"""Look at an active attachment's machine now. It stays `active` unless something is wrong; then it is mended.

What can go wrong: the machine does not answer, or the mount is gone; that is no failure of this operation, but what it
finds out. The claim under faults: it always ends, and the attachment is as the last look has found it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.attachments import attachments
from abaca.db.shares import shares
from abaca.domain.attachments.attachments import ATTACHMENT, Attachment
from abaca.journal import kinds, queueing
from abaca.journal.interruptions import Cancelled, Wait
from abaca.nodes.contract import NodeError
from abaca.operations.attachments import attachment_attach, attachment_orphaned
from abaca.operations.attachments.attachment_looks import Looks, lose
from abaca.operations.attachments.attachment_orphaned import LeftMount
from abaca.operations.attachments.attachment_parts import QUEUE, AttachmentParts, until_stopped
from abaca.operations.parts import SERVER_CALL_S

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


class Args(msgspec.Struct, frozen=True):
    """Which attachment; `left` is what a call that came too late may have made on its machine since it has gone.

    With `is_suspected` that call may have come by now.
    """

    attachment_id: str
    left: LeftMount | None = None
    is_suspected: bool = False


def start(tx: Tx, attachment_id: str, by: Requester | None) -> str:
    """Queue the look, or join the one that is queued; the operation's id."""
    key = attachments.key(attachment_id)
    target = queueing.Target(queue=QUEUE, keys=[key], resource_id=attachment_id, coalesce_key=f"verify:{attachment_id}")
    return queueing.enqueue(tx, OPERATION, Args(attachment_id), target, by)


def look_after(tx: Tx, attachment_id: str, left: LeftMount, by: Requester | None = None) -> str:
    """Queue a look for a call that has come too late: the attachment is looked at, or what is left of one that went."""
    key = attachments.key(attachment_id)
    target = queueing.Target(queue=QUEUE, keys=[key], resource_id=attachment_id, coalesce_key=f"late:{attachment_id}")
    return queueing.enqueue(tx, OPERATION, Args(attachment_id, left), target, by)


def suspect(tx: Tx, attachment_id: str, left: LeftMount, after_s: float) -> None:
    """Look after it in a while: a call for it may come too late until then.

    It keeps nothing of that attachment waiting, and joins none that is there already, since that would lock it: its
    caller holds rows of other operations.
    """
    later = Wait("calls that may come too late have come", look_again_s=after_s)
    target = queueing.Target(queue=QUEUE, keys=(), resource_id=attachment_id)
    queueing.enqueue(tx, OPERATION, Args(attachment_id, left, is_suspected=True), target, None, wait=later)


def ask(tx: Tx, row: Attachment, by: Requester | None, *, force: bool = False) -> None:
    """Have an attachment, whose share is locked, looked at and mended now: one that is well stays `active` meanwhile.

    With `force` it follows its export though files of the former address are open. Raises `Conflict` when it is to be
    detached, and for force while something else is done with it.
    """
    if row.wanted == "detached":
        raise errors.Conflict(f"Attachment {row.id} is to be detached; there is nothing to verify.")
    if row.state in ATTACHMENT.busy:
        if force:
            raise errors.Conflict(f"Attachment {row.id} is {row.state}; repeat it with force when that has ended.")
    elif row.state != "active":
        attachment_attach.start(tx, row, by, force=force)
    elif force and attachment_attach.has_moved(tx, row):
        attachment_attach.start(tx, row, by, event="remount", force=True)
    else:
        start(tx, row.id, by)


def look_at_machine(op: Op[AttachmentParts]) -> None:
    """What it shows is written down at once: to look twice does no harm."""
    if op.args.is_suspected and op.args.left is not None:
        with op.write() as tx:
            look_after(tx, op.args.attachment_id, op.args.left, op)
        return
    with op.db.read() as tx:
        row = attachments.show(tx, op.args.attachment_id)
    if row is None and op.args.left is not None:
        with op.write() as tx:
            attachment_orphaned.remember(tx, op.args.left)
    if row is None or row.state != "active":
        return
    looks = Looks(op.db, op.parts)
    job = looks.job(row)
    if job is None:
        return
    try:
        with until_stopped():
            seen = op.parts.nodes.look(job.login, job.mount)
    except NodeError as error:
        looks.lose(row, error)
    else:
        looks.judge(row, seen)


def succeed(_op: Op[AttachmentParts], _tx: Tx) -> None:
    """Its step has written down what it found."""


def fail(op: Op[AttachmentParts], tx: Tx, error: errors.AbacaError) -> None:
    """Nobody knows how it is: it is in error, and tried again."""
    row = attachments.show(tx, op.args.attachment_id)
    if row is not None and row.state == "active" and not isinstance(error, Cancelled):
        shares.lock(tx, row.share_id)
        lose(tx, row, error, op.parts.longest_pause_s)


OPERATION = kinds.operation(
    kind="attachment-verify",
    resource="attachment",
    args=Args,
    parts=AttachmentParts,
    steps=(kinds.Step(look_at_machine, undo=kinds.nothing, within_s=SERVER_CALL_S),),
    succeed=succeed,
    fail=fail,
)
