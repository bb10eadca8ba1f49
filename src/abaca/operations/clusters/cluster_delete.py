# SPDX-License-Identifier: Apache-2.0
"""End a cluster: everything that it has attached is detached, its access rules with it, and then it is gone.

Its servers stay. What can go wrong: a node is off, does not answer, or has files open; then the cluster is in `error`,
still wanted gone, says which node it is, and is tried again with growing delays. With `force` nothing is waited for:
open files lose the share, and a machine that cannot be entered is given up. The claim under faults: it always ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.attachments import attachments
from abaca.db.clusters import clusters, nodes
from abaca.db.journal import waits
from abaca.db.shares import shares
from abaca.domain.clusters import clusters as domain
from abaca.domain.clusters.clusters import Cluster
from abaca.journal import kinds, queueing
from abaca.journal.interruptions import Wait
from abaca.operations import events
from abaca.operations.attachments import attachment_detach
from abaca.operations.attachments.attachment_parts import QUEUE, AttachmentParts
from abaca.operations.clusters.cluster_change import LOOK_AGAIN_S, PART, end

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


class NodesLeft(errors.Conflict):
    """{number} mounts of the cluster are still there: {which}"""

    code = "NodesLeft"


class Args(msgspec.Struct, frozen=True):
    """Which cluster."""

    cluster_id: str


def announce(tx: Tx, cluster_id: str) -> None:
    """What still changes a cluster need not come to its end: it looks again once `start` is committed.

    Before the cluster is locked, as its operation is locked first by whoever ends that.
    """
    waits.signal(tx, attachments.cluster_condition(cluster_id))


def start(tx: Tx, cluster: Cluster, by: Requester | None, *, force: bool = False) -> str | None:
    """Accept the end of a cluster, which is locked; the operation's id, or None where one is on its way already."""
    also = {"wanted": "deleted", "attempts": 0 if cluster.wanted == "present" else cluster.attempts}
    if force and not cluster.is_forced:
        clusters.update(tx, cluster.id, {"is_forced": True})
    if not clusters.STATUS.try_move(tx, cluster.id, "delete", also={**also, "retry_at": None}):
        return None
    target = queueing.Target(queue=QUEUE, keys=[clusters.key(cluster.id)], resource_id=cluster.id)
    return queueing.enqueue(tx, OPERATION, Args(cluster.id), target, by)


def detach_all(op: Op[AttachmentParts]) -> None:
    """Everything that the cluster has attached."""
    after = ""
    while True:
        with op.db.read() as tx:
            found = nodes.attached(tx, op.args.cluster_id, nodes.Part(after, PART))
        if not found:
            return
        op.between_parts()
        with op.part() as tx:
            cluster = clusters.show(tx, op.args.cluster_id)
            is_forced = cluster is not None and cluster.is_forced
            shares.lock_many(tx, sorted({row.share_id for row in found}))
            for row in found:
                fresh = attachments.show(tx, row.id)
                if fresh is not None:
                    attachment_detach.start(tx, fresh, op, force=is_forced)
        after = found[-1].id


def await_gone(op: Op[AttachmentParts]) -> None:
    """Not before each is gone, or has failed; who says force meanwhile is heard."""
    with op.db.read() as tx:
        cluster = clusters.show(tx, op.args.cluster_id)
    if cluster is not None and cluster.is_forced and not op.data.get("was_forced"):
        detach_all(op)
        op.record(was_forced=True)
    with op.db.read() as tx:
        busy, number = nodes.number_busy(tx, op.args.cluster_id, again=True)
        total = sum(nodes.count(tx, [op.args.cluster_id]).values())
    op.progress(max(total - number, 0), max(total, number))
    if busy:
        condition = attachments.cluster_condition(op.args.cluster_id)
        raise Wait(f"{number} mounts to be taken away", conditions=[condition], look_again_s=LOOK_AGAIN_S)


def succeed(op: Op[AttachmentParts], tx: Tx) -> None:
    """It is gone; or in error with the nodes that keep it."""
    cluster = clusters.hold(tx, op.args.cluster_id)
    if cluster is None:
        return
    _, left = nodes.number_busy(tx, cluster.id)
    if not left:
        clusters.remove(tx, cluster.id)
        return
    found = nodes.problems(tx, cluster.id, domain.MOST_NAMED)
    which = "; ".join(f"{one.server_id}: {one.error_text or 'it is off'}" for one in found)
    end(tx, cluster, "failed", NodesLeft(number=left, which=which), op.parts.longest_pause_s, op)


def fail(op: Op[AttachmentParts], tx: Tx, error: errors.AbacaError) -> None:
    """It stays, in error, for another try."""
    cluster = clusters.hold(tx, op.args.cluster_id)
    if cluster is not None:
        end(tx, cluster, "failed", error, op.parts.longest_pause_s, op)


OPERATION = kinds.operation(
    kind="cluster-delete",
    resource="cluster",
    args=Args,
    parts=AttachmentParts,
    steps=(
        kinds.Step(detach_all, undo=kinds.nothing),
        kinds.Step(await_gone, undo=kinds.nothing),
    ),
    succeed=succeed,
    fail=fail,
    cancellable=False,
    notifies=kinds.Notification(name="cluster.delete", payload=events.cluster, gone={"status": "deleted"}),
)
