# SPDX-License-Identifier: Apache-2.0
"""Take a share off a server: unmounted there, then its row goes, and with it the rules that nobody else needs.

What can go wrong: files are open (the error names the processes), the machine does not answer, or it is off; then the
attachment is in `error`, still wanted gone, and is tried again with growing delays, or when the server is on. With
`force`, which may also come while it is tried, open files lose the share, and a machine that cannot be entered is
given up: its access ends all the same, and what is left there is remembered. So it is while the compute service does
not answer, without which nobody knows the way in. A server that nobody knows any more is not asked, nor is one that
nobody ever could log in to.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.compute.contract import NoWayIn
from abaca.db.attachments import attachments
from abaca.db.journal import steering, waits
from abaca.db.shares import shares
from abaca.domain.attachments.attachments import Attachment
from abaca.journal import kinds, queueing
from abaca.nodes.contract import InUse, NodeError
from abaca.operations import events
from abaca.operations.attachments import attachment_clusters, attachment_orphaned, attachment_rules
from abaca.operations.attachments.attachment_attach import fail_at, mount_of, plan_of
from abaca.operations.attachments.attachment_parts import (
    LOOKS,
    QUEUE,
    AttachmentParts,
    MountPlan,
    NoHypervisor,
    ServerGone,
    ServerOff,
    has_waited,
    is_known,
    until_stopped,
)
from abaca.operations.parts import SERVER_CALL_S

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester

log = logging.getLogger(__name__)


class Args(msgspec.Struct, frozen=True):
    """Which attachment; with `waits_for_files` the try before this one has failed for open files."""

    attachment_id: str
    waits_for_files: bool = False


def start(tx: Tx, row: Attachment, by: Requester | None, *, force: bool = False) -> str | None:
    """Accept the end of an attachment, whose share is locked; the operation's id.

    None where one is on its way already: that is told of `force`, and begins no second time.
    """
    if row.state != "detaching":
        # What still attaches need not come to its end. Before the row, as whoever ends it does.
        steering.cancel_of_key(tx, attachments.key(row.id))
    if force and not row.is_forced:
        attachments.update(tx, row.id, {"is_forced": True})
    # Tries to attach do not count as tries to detach: the first that fails is news, and the next comes soon.
    turned = {"wanted": "detached", "attempts": 0} if row.wanted == "attached" else {}
    if not attachments.try_move(tx, row.id, "detach", also=turned):
        return None
    target = queueing.Target(queue=QUEUE, keys=[attachments.key(row.id)], resource_id=row.id)
    args = Args(row.id, row.wanted == "detached" and has_waited(row, by))
    return queueing.enqueue(tx, OPERATION, args, target, by)


def forget_server(tx: Tx, server_id: str, by: Requester | None) -> None:
    """A server is no longer known: its attachments end, and with them its access."""
    for row in sorted(attachments.of_servers(tx, [server_id]), key=lambda row: row.share_id):
        shares.lock(tx, row.share_id)
        fresh = attachments.show(tx, row.id)
        if fresh is not None:
            start(tx, fresh, by, force=True)


def unmount_on_server(op: Op[AttachmentParts]) -> None:
    """Unmounted, not persistent any more, and its directory gone if it was made for it and is empty."""
    row, plan = _planned(op)
    source = None if plan is None else plan.source or plan.wanted_source
    if row is None or plan is None or source is None:
        return
    with contextlib.suppress(errors.Unavailable):  # that is judged below
        if row.last_verified_at is None and row.error_code is None and op.parts.is_off(row.server_id):
            return  # there never was anything to mount it on
    error = _unmount(op, plan, source, force=row.is_forced)
    if error is None:
        return
    is_forced = row.is_forced or _is_forced(op)
    if is_forced and not row.is_forced and isinstance(error, InUse):
        error = _unmount(op, plan, source, force=True)
    if error is None:
        return
    if not is_forced:
        raise error
    log.warning("attachment=%s goes by force, without its machine: %s", row.id, error.message)
    op.record(left=attachment_orphaned.left_of(op.parts, plan, source))


def _planned(op: Op[AttachmentParts]) -> tuple[Attachment | None, MountPlan | None]:
    with op.db.read() as tx:
        row = attachments.show(tx, op.args.attachment_id)
        return row, None if row is None else plan_of(tx, row, shares.find(tx, row.share_id))


def _is_forced(op: Op[AttachmentParts]) -> bool:
    with op.db.read() as tx:
        row = attachments.show(tx, op.args.attachment_id)
    return row is not None and bool(row.is_forced)


def _unmount(op: Op[AttachmentParts], plan: MountPlan, source: str, *, force: bool) -> errors.AbacaError | None:
    """What kept it from being unmounted, None when it is."""
    try:
        if op.parts.is_mounting_off(plan.server_id, plan.mode):
            return ServerOff(server=plan.server_id)
        login, guest = op.parts.way(plan.server_id, plan.mode, plan.tag)
        with until_stopped():
            op.parts.nodes.unmount(login, mount_of(plan, source, guest), force=force)
    except ServerGone:
        log.info("attachment=%s: server %s is gone, and with it what was mounted", plan.id, plan.server_id)
    except NoWayIn as error:
        return error if plan.was_active else None  # there never was a way to mount it
    except (NodeError, NoHypervisor, errors.Unavailable) as error:
        return error
    return None


def succeed(op: Op[AttachmentParts], tx: Tx) -> None:
    """The row goes, and the back ends are told of the rules that it was the last to need."""
    row = attachments.show(tx, op.args.attachment_id)
    if row is None:
        return
    shares.lock(tx, row.share_id)  # before the row, as whoever forces it does
    if not attachments.remove(tx, row.id):
        return
    if op.data.get("left"):
        attachment_orphaned.remember(tx, msgspec.convert(op.data["left"], attachment_orphaned.LeftMount))
    attachment_rules.let_go(tx, row, op)
    if row.is_forced and attachments.doubt_below(tx, row.server_id, row.mount_point):
        tx.wake(LOOKS)  # by force a mount goes with all that is below it
    if not attachments.has_any(tx, row.share_id):
        waits.signal(tx, attachments.detached_condition(row.share_id))
    attachment_clusters.signal_mended(tx, row.cluster_id)
    attachment_clusters.signal_lost(tx, row.cluster_id)  # it may be its server that has gone


def fail(op: Op[AttachmentParts], tx: Tx, error: errors.AbacaError) -> None:
    """It stays, in error, for another try."""
    fail_at(op, tx, error, ("detaching",))


OPERATION = kinds.operation(
    kind="attachment-detach",
    resource="attachment",
    args=Args,
    parts=AttachmentParts,
    steps=(kinds.Step(unmount_on_server, undo=kinds.nothing, within_s=SERVER_CALL_S),),
    succeed=succeed,
    fail=fail,
    cancellable=False,
    notifies=kinds.Notification(
        name="share.detach", payload=events.attachment, gone={"state": "detached"}, is_known=is_known
    ),
)
