# SPDX-License-Identifier: Apache-2.0
"""Take a share off a server: unmounted there, then, in one transaction, its row and the rules that nobody else needs.

What can go wrong: files are open (the error names the processes), or the machine does not answer; then the attachment
is in `error`, still wanted gone, and is tried again with growing delays. With `force` open files lose the share, and a
machine that cannot be entered is given up: its access ends all the same. A server that nobody knows any more is not
asked.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec

from abaca import errors
from abaca.compute.contract import NoWayIn
from abaca.db import attachments, operations
from abaca.nodes.contract import NodeError
from abaca.operations import attachment_rules, journal
from abaca.operations.attachment_attach import mount_of, told_of, write_error
from abaca.operations.attachment_tools import QUEUE, ServerGone

if TYPE_CHECKING:
    from abaca.db.engine import Tx
    from abaca.operations.journal import Op, Requester

log = logging.getLogger(__name__)


class Args(msgspec.Struct, frozen=True):
    """Which attachment, and whether open files matter."""

    attachment_id: str
    force: bool


def start(tx: Tx, row: Any, by: Requester | None, *, force: bool = False) -> str:
    """Accept the end of an attachment (its row); the operation's id. Raises `Conflict` when it is going already."""
    attachments.move(tx, row.id, "detach")
    attachments.update(tx, row.id, {"wanted": "detached"})
    operations.cancel_of_key(tx, attachments.key(row.id))  # what still attaches need not come to its end
    target = journal.Target(queue=QUEUE, key=attachments.key(row.id), resource_id=row.id)
    return journal.enqueue(tx, OPERATION, Args(row.id, force), target, by)


def unmount_on_server(op: Op) -> None:
    """Unmounted, not persistent any more, and its directory gone if it was made for it and is empty."""
    with op.db.read() as tx:
        row = attachments.show(tx, op.args.attachment_id)
        if row is None:
            return
        told = told_of(tx, row)
    source = told["source"] or told["wanted_source"]
    if source is None or (row.last_verified_at is None and op.driver.is_off(row.server_id)):
        return  # there never was anything to mount, or to mount it on
    try:
        entry, guest = op.driver.way(told)
        op.driver.nodes.unmount(entry, mount_of(told, source, guest), force=op.args.force)
    except ServerGone:
        log.info("attachment=%s: server %s is gone, and with it what was mounted there", row.id, row.server_id)
    except (NodeError, NoWayIn) as error:
        if not op.args.force:
            raise
        log.warning("attachment=%s goes by force, without its machine: %s", row.id, error.message)


def succeed(op: Op, tx: Tx) -> None:
    """The row goes, and the rules that it was the last to need."""
    row = attachments.show(tx, op.args.attachment_id)
    if row is not None and attachments.remove(tx, row.id):
        attachment_rules.settle(tx, row.share_id, row.addresses, op)


def fail(op: Op, tx: Tx, error: errors.AbacaError) -> None:
    """It stays, in error, for another try."""
    if attachments.try_move(tx, op.args.attachment_id, "failed", ("detaching",)):
        write_error(tx, op.args.attachment_id, error)


OPERATION = journal.operation(
    kind="attachment-detach",
    resource="attachment",
    args=Args,
    steps=(journal.Step(unmount_on_server, undo=journal.nothing),),
    succeed=succeed,
    fail=fail,
    cancellable=False,
)
