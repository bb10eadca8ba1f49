# SPDX-License-Identifier: Apache-2.0
"""Make a cluster what it shall be: its nodes found, what is too much detached, what is lacking attached, and all seen.

The same operation creates, changes, scales and tries again: it compares what is wanted with what is attached, and does
only what differs. What it starts are attachments like all others, which go on by themselves. What can go wrong: a node
refuses, cannot be reached, or is off; the cluster is in `error` where more of them do than it tolerates, says which,
and is looked at again with growing delays. The claim under faults: it always ends, and then the cluster says how its
nodes are.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from abaca import errors
from abaca.compute.contract import ServerUnreachable, Wanted
from abaca.db.administration import messages
from abaca.db.attachments import attachments
from abaca.db.clusters import clusters, nodes
from abaca.db.shares import shares
from abaca.domain.administration.messages import Action, Detail
from abaca.domain.attachments import mount_points
from abaca.domain.attachments.attachments import Attachment, retry_delay_s
from abaca.domain.clusters import clusters as domain
from abaca.domain.clusters.clusters import Cluster, NodeGroup, WantedShare
from abaca.journal import kinds, queueing
from abaca.journal.interruptions import Wait
from abaca.operations import events
from abaca.operations.attachments import attachment_accept, attachment_attach, attachment_detach
from abaca.operations.attachments.attachment_parts import QUEUE, AttachmentParts
from abaca.operations.clusters import cluster_selecting
from abaca.operations.clusters.cluster_states import problem_of, wanted_of
from abaca.operations.parts import PLUGIN_CALL_S

if TYPE_CHECKING:
    from abaca.compute.contract import Server
    from abaca.db.engine.database import Tx
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester

log = logging.getLogger(__name__)

# So many attachments are begun or ended in one transaction.
PART = 500
# So many servers are looked up one by one; of more all of the project are listed.
FEW = 20
# How often it looks by itself at what is on its way, in seconds, and says how far that is.
LOOK_AGAIN_S = 5.0


Cause = Literal["create", "change", "scale", "retry"]


class Args(msgspec.Struct, frozen=True):
    """Which cluster, and why; and `only` on which servers anything differs, where that is known."""

    cluster_id: str
    cause: Cause = "change"
    only: list[str] | None = None


def start(tx: Tx, cluster_id: str, by: Requester | None, cause: Cause, only: nodes.Only = None) -> str:
    """Queue the work for a cluster, or join what is queued that looks at all of it; the operation's id."""
    args = Args(cluster_id, cause, None if only is None else list(only))
    same = f"cluster-change:{cluster_id}" if only is None else None
    target = queueing.Target(queue=QUEUE, keys=[clusters.key(cluster_id)], resource_id=cluster_id, coalesce_key=same)
    return queueing.enqueue(tx, OPERATION, args, target, by)


def find_nodes(op: Op[AttachmentParts]) -> None:
    """Which servers its selectors take now."""
    with op.db.read() as tx:
        cluster, groups = _read(op, tx)
    if cluster is None or cluster.looked_at is None:
        return
    found = cluster_selecting.matching(op.parts.servers, cluster.project_id, groups)
    with op.write() as tx:
        if clusters.hold(tx, cluster.id) is not None:
            cluster_selecting.apply(tx, cluster, clusters.groups(tx, cluster.id), found)


def detach_surplus(op: Op[AttachmentParts]) -> None:
    """What is no longer wanted goes, and what shall be written to, or only read, is mounted so."""
    with op.db.read() as tx:
        cluster, groups = _read(op, tx)
    if cluster is None:
        return
    wanted, network = wanted_of(cluster, groups), cluster.network
    _each(
        op,
        lambda tx, part: nodes.surplus(tx, cluster.id, wanted, network, part),
        lambda tx, row: attachment_detach.start(tx, row, op),
    )
    for group_id, share in ((group_id, share) for group_id, found in wanted.items() for share in found):
        _each(op, _of_other_level(group_id, share), _change_level(op, share.access_level))


def _of_other_level(group_id: str, share: WantedShare) -> Find:
    return lambda tx, part: nodes.of_other_level(tx, group_id, share, part)


def _change_level(op: Op[AttachmentParts], level: str) -> Callable[[Tx, Attachment], object]:
    def change(tx: Tx, row: Attachment) -> None:
        attachments.update(tx, row.id, {"access_level": level})
        attachment_attach.start(tx, msgspec.structs.replace(row, access_level=level), op)

    return change


def await_detached(op: Op[AttachmentParts]) -> None:
    """Not before what is detached is gone, or has failed: a share may be wanted at another place of the same node."""
    _await_quiet(op, "what is no longer wanted to be detached")
    with op.write() as tx:
        _sweep(op, tx)


def _sweep(op: Op[AttachmentParts], tx: Tx) -> None:
    nodes.sweep(tx, op.args.cluster_id, op.args.only)
    clusters.sweep_groups(tx, op.args.cluster_id)


def attach_missing(op: Op[AttachmentParts]) -> None:
    """What is wanted, and not attached yet, share by share."""
    with op.db.read() as tx:
        cluster, groups = _read(op, tx)
    if cluster is None:
        return
    if "is_anew" not in op.data:
        with op.part() as tx:
            nodes.forget_refusals(tx, cluster.id, op.args.only)
            op.record(is_anew=True)
    with op.db.read() as tx:
        lacking = _lacking(tx, cluster, groups, op.args.only)
    servers, refused = _servers(op, cluster, {one for found in lacking.values() for one in found})
    for share, found in lacking.items():
        for at in range(0, len(found), PART):
            part = found[at : at + PART]
            op.between_parts()
            with op.part() as tx:
                more = _attach(op, tx, cluster, share, [servers[one] for one in part if one in servers])
                nodes.refuse(tx, cluster.id, share.id, {one: refused.get(one) or more.get(one) for one in part})


def _lacking(tx: Tx, cluster: Cluster, groups: Sequence[NodeGroup], only: nodes.Only) -> dict[WantedShare, list[str]]:
    """By share the servers that lack it: of all groups that want it alike, so that its back end is told once."""
    found: dict[WantedShare, list[str]] = {}
    for group in groups:
        for share in domain.effective(cluster.shares, group.shares):
            found.setdefault(share, []).extend(nodes.lacking(tx, group.id, share.id, only))
    return found


def _attach(
    op: Op[AttachmentParts], tx: Tx, cluster: Cluster, share: WantedShare, servers: Sequence[Server]
) -> dict[str, str]:
    """Attach a share to servers; by server why it was refused."""
    # that its path may be chosen was seen when it was said
    request = attachment_accept.AttachmentRequest(
        mount_point=share.path,
        access_level=share.access_level,
        roots=mount_points.ANYWHERE,
        cluster_id=cluster.id,
        network=cluster.network,
    )
    try:
        shares.lock(tx, share.id)
        found = shares.find(tx, share.id)
        if found is None:
            raise errors.NotFound(resource="Share", id=share.id)
        if found.project_id != cluster.project_id:
            raise errors.Conflict(f"Share {share.id} is another project's by now; take it out of the cluster.")
        done = attachment_accept.accept(tx, found, servers, request, op, hosts={})
    except (errors.Invalid, errors.Conflict, errors.NotFound) as error:
        return {server.id: error.message for server in servers}
    return {server_id: error.message for server_id, error in done.refused}


def _servers(op: Op[AttachmentParts], cluster: Cluster, wanted: set[str]) -> tuple[dict[str, Server], dict[str, str]]:
    """Those servers, and of the ones that there are not, or that nobody can look up, why."""
    found: dict[str, Server] = {}
    away: dict[str, str] = {}
    if len(wanted) > FEW:
        asked = Wanted(project_id=cluster.project_id, only=lambda one: one.id in wanted, limit=len(wanted))
        found = {one.id: one for one in op.parts.servers.list(asked)}
    for one in sorted(wanted - found.keys()) if len(wanted) <= FEW else ():
        try:
            server = op.parts.servers.show(one)
        except ServerUnreachable as error:
            away[one] = error.message
            continue
        if server is not None and server.project_id == cluster.project_id:
            found[one] = server
    gone = {one: f"Server {one} is not known in the project any more; take it out." for one in wanted - found.keys()}
    return found, gone | away


def await_attached(op: Op[AttachmentParts]) -> None:
    """Not before each is mounted, or has failed."""
    _await_quiet(op, "its shares to be mounted")


def _await_quiet(op: Op[AttachmentParts], what: str) -> None:
    with op.db.read() as tx:
        busy, number = nodes.number_busy(tx, op.args.cluster_id, only=op.args.only)
        cluster, _ = _read(op, tx)
    op.progress(number - busy, number)
    if busy and cluster is not None:
        condition = attachments.cluster_condition(op.args.cluster_id)
        raise Wait(f"{what}: {busy} of {number} are on their way", conditions=[condition], look_again_s=LOOK_AGAIN_S)


def succeed(op: Op[AttachmentParts], tx: Tx) -> None:
    """`active`, or in error where more nodes fail than it tolerates; with any that fail it is looked at again."""
    cluster = clusters.hold(tx, op.args.cluster_id)
    if cluster is None or cluster.wanted == "deleted":
        return
    _sweep(op, tx)
    error, is_tolerated = problem_of(tx, cluster)
    end(tx, cluster, "settled" if is_tolerated else "failed", error, op.parts.longest_pause_s, op)


def fail(op: Op[AttachmentParts], tx: Tx, error: errors.AbacaError) -> None:
    """In error with the reason, to be tried again."""
    cluster = clusters.hold(tx, op.args.cluster_id)
    if cluster is not None and cluster.wanted == "present":
        end(tx, cluster, "failed", error, op.parts.longest_pause_s, op)


def end(
    tx: Tx, cluster: Cluster, event: str, error: errors.AbacaError | None, longest_s: float, by: Requester | None
) -> None:
    """Let `settled` or `failed` happen to a cluster, with what is wrong and when it is tried again.

    The users of its shares get a message when it has failed and that is news.
    """
    values: dict[str, object] = {"error_code": None, "error_text": None, "attempts": 0, "retry_at": None}
    if error is not None:
        attempts = cluster.attempts + 1
        pause = datetime.timedelta(seconds=retry_delay_s(attempts, longest_s))
        values = {"error_code": error.code, "error_text": error.message, "attempts": attempts}
        values["retry_at"] = tx.now + pause
        log.warning("cluster=%s: %s", cluster.id, error.message)
    events_of = ("failed", "lost") if event == "failed" else (event,)
    if not any(clusters.STATUS.try_move(tx, cluster.id, one, also=values) for one in events_of):
        clusters.update(tx, cluster.id, values)
    if error is not None and event == "failed" and (cluster.attempts == 0 or cluster.error_code != error.code):
        _tell_users(tx, cluster, error, by)


def _tell_users(tx: Tx, cluster: Cluster, error: errors.AbacaError, by: Requester | None) -> None:
    wanted = wanted_of(cluster, clusters.groups(tx, cluster.id)).values()
    ids = {share.id for found in (cluster.shares, *wanted) for share in found}
    request_id = by.request_id if by else None
    reason = f"Cluster {cluster.name}, {cluster.id}: {error.message}"
    told = [(messages.About(cluster.project_id, request_id, "SHARE", one), reason) for one in sorted(ids)]
    is_going = cluster.wanted == "deleted"
    cause = (Action.DETACH, Detail.STILL_ON_SERVER) if is_going else (Action.ATTACH, Detail.NOT_ON_SERVER)
    messages.record_many(tx, told, *cause)


# ---------------------------------------------------------------- what it is made of


def _read(op: Op[AttachmentParts], tx: Tx) -> tuple[Cluster | None, list[NodeGroup]]:
    """The cluster, None where it is gone or shall be, and its groups."""
    cluster = clusters.show(tx, op.args.cluster_id)
    if cluster is None or cluster.wanted == "deleted":
        return None, []
    return cluster, clusters.groups(tx, cluster.id)


Find = Callable[["Tx", nodes.Part], list[Attachment]]


def _each(op: Op[AttachmentParts], find: Find, do: Callable[[Tx, Attachment], object]) -> None:
    """Do something to all attachments that are found, in parts, each with its share locked and looked at again."""
    after = ""
    while True:
        with op.db.read() as tx:
            found = find(tx, nodes.Part(after, PART, op.args.only))
        if not found:
            return
        op.between_parts()
        with op.part() as tx:
            shares.lock_many(tx, sorted({row.share_id for row in found}))
            for row in found:
                fresh = attachments.show(tx, row.id)
                if fresh is not None and (fresh.state, fresh.wanted) == (row.state, row.wanted):
                    do(tx, fresh)
        after = found[-1].id


_TOLD_AS = {cause: f"cluster.{cause}" for cause in ("create", "change", "scale", "retry")}


def _told_as(args: Args) -> str:
    return _TOLD_AS[args.cause]


OPERATION = kinds.operation(
    kind="cluster-change",
    resource="cluster",
    args=Args,
    parts=AttachmentParts,
    steps=(
        kinds.Step(find_nodes, undo=kinds.nothing, within_s=PLUGIN_CALL_S),
        kinds.Step(detach_surplus, undo=kinds.nothing),
        kinds.Step(await_detached, undo=kinds.nothing),
        kinds.Step(attach_missing, undo=kinds.nothing),
        kinds.Step(await_attached, undo=kinds.nothing),
    ),
    succeed=succeed,
    fail=fail,
    cancellable=False,
    notifies=kinds.Notification(name=_told_as, payload=events.cluster, names=tuple(_TOLD_AS.values())),
)
