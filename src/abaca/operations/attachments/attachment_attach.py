# SPDX-License-Identifier: Apache-2.0
"""Make an attachment true: its rules in force, the share mounted on the server, seen there, and written down.

Where the share's storage knows its clients by certificates the server makes a key, and the worker of the share's back
end, which alone has the authority's, signs the request on its own queue.

The same operation attaches, tries again, verifies, and moves to another export location: every part of it is "already
so" where it is. A server that is off is let in and left alone until it is on. What can go wrong: the back end does not
let the server in, the machine does not answer or refuses; then the attachment is in `error` with the reason, and the
reconciler tries again with growing delays. A mount that never was in use is taken back; the rules stay, explained by
the attachment, until it is detached.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from abaca import errors
from abaca.compute.contract import NoWayIn
from abaca.db.administration import messages
from abaca.db.attachments import attachments
from abaca.db.journal import waits
from abaca.db.networks import allocations
from abaca.db.shares import export_locations, shares
from abaca.domain.administration.messages import Action, Detail
from abaca.domain.administration.pools import service_host_of
from abaca.domain.attachments import clients, sources
from abaca.domain.attachments.attachments import Attachment, mend, retry_delay_s
from abaca.domain.attachments.servers import Login
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.nodes.contract import Guest, Identity, InUse, Mount, MountRefused, NodeError, Seen
from abaca.operations import events
from abaca.operations.attachments import attachment_clusters, attachment_orphaned, attachment_rules
from abaca.operations.attachments.attachment_parts import (
    LOOKS,
    QUEUE,
    AttachmentParts,
    MountPlan,
    NoHypervisor,
    ServerGone,
    ServerOff,
    StillOpen,
    has_waited,
    is_known,
    until_stopped,
)
from abaca.operations.parts import DRIVER_CALL_S, PLUGIN_CALL_S, SERVER_CALL_S, BackEnd

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.db.shares.export_locations import Mounted
    from abaca.domain.shares.shares import Share
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester

log = logging.getLogger(__name__)

T = TypeVar("T")


class Args(msgspec.Struct, frozen=True):
    """Which attachment, and why: it is wanted, it was true and shall be again, or its export has moved.

    With `force` it moves though files of its former address are open, or that does not answer any more. With
    `is_again` the same move was tried before, and files were open. With `waits_for_files` the try before this one has
    failed for them.
    """

    attachment_id: str
    cause: Literal["attach", "mend", "move"] = "attach"
    force: bool = False
    is_again: bool = False
    waits_for_files: bool = False


class Place(msgspec.Struct, frozen=True):
    """On which machine it is mounted, and for which guest there."""

    machine_id: str
    qmp_socket: str | None


def start(tx: Tx, row: Attachment, by: Requester | None, *, event: str = "attach", force: bool = False) -> str:
    """Move an attachment by `event` (`attach`, `remount`) and queue the work; the operation's id."""
    attachments.move(tx, row.id, event)
    in_force = attachment_rules.in_force(tx, row.share_id, row.addresses)
    args = Args(row.id, "mend", force, waits_for_files=has_waited(row, by))
    if event == "remount":
        to = choose_source(tx, row.share_id, row.addresses, row.source)
        args = Args(row.id, "move", force, is_again=to is not None and to == row.awaited_source)
    return _enqueue(tx, row, args, by, in_force)


def enqueue(tx: Tx, rows: Sequence[Attachment], by: Requester | None) -> None:
    """Queue the work for new ones of one share, `attaching` already."""
    asked = sorted({address for row in rows for address in row.addresses})
    in_force = attachment_rules.in_force(tx, rows[0].share_id, asked) if rows else set()
    for row in rows:
        _enqueue(tx, row, Args(row.id), by, in_force)


def _enqueue(tx: Tx, row: Attachment, args: Args, by: Requester | None, in_force: set[str]) -> str:
    target = queueing.Target(queue=QUEUE, keys=[attachments.key(row.id)], resource_id=row.id)
    is_in = in_force.issuperset(row.addresses)
    wait = None if is_in else attachment_rules.wait(row.share_id, "the access rules of the share to be in force")
    return queueing.enqueue(tx, OPERATION, args, target, by, wait=wait)


def find_server(op: Op[AttachmentParts]) -> None:
    """Which addresses it has by now: it may have been moved while it was off, or could not be reached."""
    with op.db.read() as tx:
        row = _row(op, tx)
    server = op.parts.servers.show(row.server_id)
    if server is None:
        raise ServerGone(server=row.server_id)
    mounting = op.parts.mounting(server, row.mode)
    at = Place(mounting.id, server.qmp_socket if row.mode == "virtiofs" else None)
    op.record(addresses=[address.ip for address in mounting.addresses], at=at)


def grant_access(op: Op[AttachmentParts], tx: Tx) -> None:
    """The rules that it needs, made or made again; and where it shall be mounted from."""
    row = _row(op, tx)
    share = shares.find(tx, row.share_id)
    row = attachment_rules.follow(tx, row, share, op.data.get("addresses", row.addresses), op)
    op.record(row=plan_of(tx, row, share))


def leave_access(_op: Op[AttachmentParts], _tx: Tx) -> None:
    """The attachment stays, in error, and with it what it needs."""


def await_access(op: Op[AttachmentParts]) -> None:
    """Not before the back end lets it in."""
    plan = _recorded(op)
    _wanted_source(plan)
    with op.db.read() as tx:
        is_let_in = attachment_rules.check(tx, plan.share_id, plan.addresses, plan.access_level)
    if is_let_in:
        return
    with op.db.write() as tx:  # a rule of an attachment which is gone, say, has just been taken away
        attachment_rules.settle(tx, plan.share_id, plan.addresses, op)
    raise attachment_rules.wait(plan.share_id, "the access rules of the share to be made again")


def ask_for_certificate(op: Op[AttachmentParts]) -> None:
    """The signing request for the server's own key, where a certificate is what lets it in."""
    plan = _recorded(op)
    way = op.parts.way_if_on(plan.server_id, plan.mode, plan.tag)
    if way is None:
        op.record(request=None)
        return
    login, guest = way
    with until_stopped():
        attachment_orphaned.clear(op, plan)
        wanted = mount_of(plan, _wanted_source(plan), guest)
        op.record(request=_or_as_heir(op, wanted, lambda mount: op.parts.nodes.request(login, mount)))


def drop_request(op: Op[AttachmentParts]) -> None:
    """The key goes with what never was in use."""
    if _has_certificate(op):
        unmount_on_server(op)


def _has_certificate(op: Op[object]) -> bool:
    """Whether a certificate is what lets the server in."""
    return _certificate_name(_recorded(op)) is not None


def _has_request(op: Op[object]) -> bool:
    return bool(op.data.get("request"))


def _signed_by(op: Op[object]) -> str:
    """Whose worker has the key of the authority. There is nothing to take back, which costs no hop."""
    backend = _recorded(op).backend if _has_request(op) else None
    return backend or op.home


def issue_certificate(op: Op[BackEnd]) -> None:
    """Signed under the server's name, whatever its request says; the request has served its turn then."""
    request, name = str(op.data["request"]), _certificate_name(_recorded(op)) or ""
    driver = op.parts.driver
    if not isinstance(driver, contract.IssuesCertificates):
        raise contract.Refused(reason=f"the driver of {op.parts.backend.name} issues no certificates")
    issued = driver.issue(name, request)
    op.record(request=None, identity=Identity(name=name, certificate=issued.pem, authority=issued.authority))


def _certificate_name(plan: MountPlan) -> str | None:
    """As what the storage knows the server; None where it knows it by its addresses."""
    return next((one for one in plan.addresses if clients.is_certificate(one)), None)


def mount_on_server(op: Op[AttachmentParts]) -> None:
    """Package, directory, persistence, mount, and a look at the machine's own table; or a move from the old source."""
    plan = _recorded(op)
    way = op.parts.way_if_on(plan.server_id, plan.mode, plan.tag)
    if way is None:
        op.record(seen=None)
        return
    login, guest = way
    with until_stopped():
        attachment_orphaned.clear(op, plan)
        identity = msgspec.convert(op.data.get("identity"), Identity | None)
        wanted = mount_of(plan, _wanted_source(plan), guest, identity)
        if plan.source in (None, plan.wanted_source):
            seen = _or_as_heir(op, wanted, lambda mount: op.parts.nodes.mount(login, mount))
        else:
            old = mount_of(plan, plan.source, guest, identity)
            seen = _moved(op, login, wanted, old, may_stay=plan.may_stay)
    op.record(seen=seen)


def _or_as_heir(op: Op[AttachmentParts], wanted: Mount, do: Callable[[Mount], T]) -> T:
    """What is left of this very share since the server was removed, and registered again, is taken over."""
    try:
        return do(wanted)
    except MountRefused as refused:
        owner = str(refused.details.get("owner", ""))
        with op.db.read() as tx:
            is_known = not owner or attachments.show(tx, owner) is not None
        if is_known:
            raise
    return do(msgspec.structs.replace(wanted, former=owner))


def _moved(op: Op[AttachmentParts], login: Login, wanted: Mount, old: Mount, *, may_stay: bool) -> Seen:
    """Seen there; or where it was, if files are open there and the share can still be mounted from there."""
    try:
        return op.parts.nodes.remount(login, wanted, old, force=op.args.force)
    except InUse as error:
        if not may_stay:
            raise StillOpen(reason=error.message) from error
    op.record(stays=True)
    return op.parts.nodes.mount(login, old)


def unmount_on_server(op: Op[AttachmentParts]) -> None:
    """What never was in use goes again; a machine that cannot be reached keeps what it may have for the next try."""
    plan = _recorded(op)
    if plan.was_active or plan.wanted_source is None:
        return
    with contextlib.suppress(NodeError, NoWayIn, NoHypervisor, errors.NotFound):
        login, guest = op.parts.way(plan.server_id, plan.mode, plan.tag)
        with until_stopped():
            op.parts.nodes.unmount(login, mount_of(plan, plan.wanted_source, guest))


def succeed(op: Op[AttachmentParts], tx: Tx) -> None:
    """It is mounted; a machine that was seen to say so."""
    plan, seen = _recorded(op), msgspec.convert(op.data["seen"], Seen | None)
    if seen is None:
        if not attachments.try_move(tx, op.args.attachment_id, "prepared", also=HEALTHY):
            fail(op, tx, ServerOff(server=plan.server_id))
        attachment_clusters.signal_end(tx, plan.cluster_id)
        return
    if op.args.cause == "move":
        waits.signal(tx, attachments.moved_condition(plan.share_id))
    if op.args.force and attachments.doubt_below(tx, plan.server_id, plan.mount_point):
        tx.wake(LOOKS)  # by force a mount goes with all that is below it
    stays = bool(op.data.get("stays"))
    values: dict[str, object] = {
        "source": plan.source if stays else plan.wanted_source,
        "awaited_source": plan.wanted_source if stays else None,
        "made_directory": seen.made_directory or plan.made_directory,
        "last_verified_at": tx.now,
    }
    if not attachments.try_move(tx, op.args.attachment_id, "attached", also=values | HEALTHY):
        attachments.update(tx, op.args.attachment_id, values)  # it is to be detached: there is something to undo
    attachment_clusters.signal_mended(tx, plan.cluster_id)


def fail(op: Op[AttachmentParts], tx: Tx, error: errors.AbacaError) -> None:
    """In error with the reason, to be tried again."""
    fail_at(op, tx, error, ("attaching", "remounting"))


HEALTHY = {"error_code": None, "error_text": None, "attempts": 0, "retry_at": None}


def fail_at(op: Op[AttachmentParts], tx: Tx, error: errors.AbacaError, states: Sequence[str]) -> None:
    """The same for an operation that left it at one of `states`; it may be somewhere else meanwhile."""
    row = attachments.show(tx, op.args.attachment_id)
    if row is None:
        return
    values = _of_error(tx, row, error, op.parts.longest_pause_s)
    if attachments.try_move(tx, row.id, "failed", states, also=values):
        _note_error(tx, row, error, values, op)
        attachment_clusters.signal_end(tx, row.cluster_id)
        attachment_clusters.signal_lost(tx, row.cluster_id)


def write_error(tx: Tx, attachment_id: str, error: errors.AbacaError, longest_s: float) -> None:
    """Why it is in error, and when it is tried again, in `longest_s` at most; for a server that is off that is open.

    Its users get a message when that is news.
    """
    row = attachments.show(tx, attachment_id)
    if row is not None:
        values = _of_error(tx, row, error, longest_s)
        attachments.update(tx, attachment_id, values)
        _note_error(tx, row, error, values, None)


def _of_error(tx: Tx, row: Attachment, error: errors.AbacaError, longest_s: float) -> dict[str, object]:
    values: dict[str, object] = {"error_code": error.code, "error_text": error.message, "retry_at": None}
    if error.code != ServerOff.code:
        values["attempts"] = row.attempts + 1
        values["retry_at"] = tx.now + datetime.timedelta(seconds=retry_delay_s(row.attempts + 1, longest_s))
    return values


def _note_error(
    tx: Tx, row: Attachment, error: errors.AbacaError, values: Mapping[str, object], by: Requester | None
) -> None:
    if values.get("attempts") == 1 or row.error_code != error.code:
        _tell_users(tx, row, error, by)
    log.warning("attachment=%s on server %s: %s", row.id, row.server_id, error.message)


def _tell_users(tx: Tx, row: Attachment, error: errors.AbacaError, by: Requester | None) -> None:
    about = messages.About(row.project_id, by.request_id if by else None, "SHARE", row.share_id)
    cause = (Action.ATTACH, Detail.NOT_ON_SERVER)
    if row.wanted == "detached":
        cause = (Action.DETACH, Detail.STILL_ON_SERVER)
    place = f"Server {row.server_id}, {row.mount_point}, attachment {row.id}"
    messages.record(tx, about, *cause, reason=f"{place}: {error.message.rstrip('.')}. {mend(error.code)}")


# ---------------------------------------------------------------- what it is made of


def _row(op: Op[AttachmentParts], tx: Tx) -> Attachment:
    row = attachments.show(tx, op.args.attachment_id)
    if row is None:
        raise errors.NotFound(resource="Attachment", id=op.args.attachment_id)
    return row


def plan_of(tx: Tx, row: Attachment, share: Share | None) -> MountPlan:
    """What an attachment of a share, which is None where it is gone, comes to now."""
    mounted = export_locations.mounted(tx, row.share_id)
    return MountPlan(
        id=row.id,
        share_id=row.share_id,
        server_id=row.server_id,
        mode=row.mode,
        tag=row.tag,
        mount_point=row.mount_point,
        access_level=row.access_level,
        addresses=row.addresses,
        protocol=share.share_proto if share is not None else "NFS",
        source=row.source,
        made_directory=row.made_directory,
        wanted_source=choose_of(tx, mounted, row.addresses, row.source),
        may_stay=row.source in [one.path for one in mounted],
        was_active=row.last_verified_at is not None,
        cluster_id=row.cluster_id,
        others=[one.path for one in mounted],
        backend=service_host_of(share.host) if share is not None and share.host else None,
    )


def _recorded(op: Op[object]) -> MountPlan:
    return msgspec.convert(op.data["row"], MountPlan)


def _wanted_source(plan: MountPlan) -> str:
    if plan.wanted_source is None:
        raise contract.Refused(reason=f"share {plan.share_id} has no export location")
    return plan.wanted_source


def mount_of(plan: MountPlan, source: str, guest: Guest | None = None, identity: Identity | None = None) -> Mount:
    """An attachment, as machines are told of it; `guest` is what `AttachmentParts.way` says.

    `identity` has the certificate, if one was issued now; who does not mount needs none.
    """
    name = _certificate_name(plan)
    return Mount(
        name=plan.id,
        protocol=plan.protocol,
        source=source,
        mount_point=plan.mount_point,
        is_read_only=plan.access_level == "ro",
        guest=guest,
        was_seen=plan.was_active,
        others=tuple(plan.others),
        identity=identity or (None if name is None else Identity(name=name)),
    )


def choose_source(tx: Tx, share_id: str, addresses: list[str], current: str | None) -> str | None:
    """Where such a server mounts a share from (domain/attachments/sources.py); None when the share has no location."""
    return choose_of(tx, export_locations.mounted(tx, share_id), addresses, current)


def choose_of(tx: Tx, mounted: Sequence[Mounted], addresses: list[str], current: str | None) -> str | None:
    """The same of these locations."""
    on = {one.share_server_id for one in mounted if one.share_server_id is not None}
    cidrs = {one.ip_address: one.cidr for one in allocations.of_servers(tx, on)}
    return sources.choose([one.path for one in mounted], cidrs, addresses, current)


def has_moved(tx: Tx, row: Attachment) -> bool:
    """Whether an attachment is to be mounted from elsewhere by now: its server may have other addresses."""
    return choose_source(tx, row.share_id, row.addresses, row.source) not in (None, row.source)


_TOLD_AS = {"attach": "share.attach", "mend": "share.attachment.mend", "move": "share.attachment.move"}


def _told_as(args: Args) -> str:
    return _TOLD_AS[args.cause]


def _is_news(args: Args, data: Mapping[str, object]) -> bool:
    """A move that waits for files is told when it is first tried, and when it has come to something."""
    return not args.is_again or (bool(data) and not data.get("stays"))


OPERATION = kinds.operation(
    kind="attachment-attach",
    resource="attachment",
    args=Args,
    parts=AttachmentParts,
    steps=(
        kinds.Step(find_server, undo=kinds.nothing, within_s=PLUGIN_CALL_S),
        kinds.DatabaseStep(grant_access, undo=leave_access),
        kinds.Step(await_access, undo=kinds.nothing),
        kinds.Step(ask_for_certificate, undo=drop_request, within_s=SERVER_CALL_S, applies=_has_certificate),
        kinds.Step(
            issue_certificate,
            undo=kinds.nothing,
            queue=_signed_by,
            parts=BackEnd,
            within_s=DRIVER_CALL_S,
            applies=_has_request,
        ),
        kinds.Step(mount_on_server, undo=unmount_on_server, within_s=SERVER_CALL_S),
    ),
    succeed=succeed,
    fail=fail,
    notifies=kinds.Notification(
        name=_told_as, payload=events.attachment, names=tuple(_TOLD_AS.values()), is_news=_is_news, is_known=is_known
    ),
)
