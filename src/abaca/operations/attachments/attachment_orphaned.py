# SPDX-License-Identifier: Apache-2.0
"""What a forced detach left on a machine that could not be entered: remembered, and taken away when it can be.

Only what bears our mark with the attachment's name is touched there: the attachment is gone, and somebody else may use
its mount point meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca.db.attachments import orphaned_mounts
from abaca.domain.attachments.attachments import Mode, OrphanedMount
from abaca.domain.attachments.servers import Login
from abaca.nodes.contract import Guest, Mount
from abaca.operations.attachments.attachment_parts import AttachmentParts, MountPlan

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.journal.op import Op


class LeftMount(msgspec.Struct, frozen=True, kw_only=True):
    """What an attachment may have left, and on which machine; a worker of an earlier release did not say on which."""

    id: str
    server_id: str
    machine_id: str | None = None
    qmp_socket: str | None = None
    mode: Mode
    tag: str
    mount_point: str
    protocol: str
    source: str


def left_of(parts: AttachmentParts, plan: MountPlan, source: str) -> LeftMount:
    """What an attachment that is mounted from `source` may leave. Raises what the compute plugin raises."""
    machine_id, qmp_socket = _where(parts, plan)
    return LeftMount(
        id=plan.id,
        server_id=plan.server_id,
        machine_id=machine_id,
        qmp_socket=qmp_socket,
        mode=plan.mode,
        tag=plan.tag,
        mount_point=plan.mount_point,
        protocol=plan.protocol,
        source=source,
    )


def _where(parts: AttachmentParts, plan: MountPlan) -> tuple[str, str | None]:
    """On which machine an attachment is, and for which guest there; this may change once it is given up."""
    server = parts.servers.show(plan.server_id) if plan.mode == "virtiofs" else None
    if server is None or server.hypervisor_id is None:
        return plan.server_id, None
    return server.hypervisor_id, server.qmp_socket


def remember(tx: Tx, left: LeftMount) -> None:
    """From now on it is tried to take that away."""
    orphaned_mounts.add(tx, {**msgspec.structs.asdict(left), "machine_id": left.machine_id or left.server_id})


def mount_of(orphan: OrphanedMount, guest: Guest | None) -> Mount:
    """A remembered one, as machines are told of it."""
    return Mount(
        name=orphan.id, protocol=orphan.protocol, source=orphan.source, mount_point=orphan.mount_point, guest=guest
    )


def way(parts: AttachmentParts, orphan: OrphanedMount) -> tuple[Login, Guest | None]:
    """Into which machine, and for which guest of it. Raises `ServerGone`, and what the compute plugin raises."""
    guest = None if orphan.qmp_socket is None else Guest(tag=orphan.tag, qmp_socket=orphan.qmp_socket)
    return parts.login(orphan.machine_id), guest


def clear(op: Op[AttachmentParts], plan: MountPlan) -> None:
    """Nothing is left that stands in the way of an attachment.

    Raises what `AttachmentParts.way` and `nodes.clear` raise. What is left elsewhere may fail to go without harm to
    this one.
    """
    with op.db.read() as tx:
        left = orphaned_mounts.of_server(tx, plan.server_id)
    machine_id = _where(op.parts, plan)[0] if left else None
    for orphan in left:
        if orphan.machine_id != machine_id or not _is_in_the_way(orphan, plan):
            continue
        login, guest = way(op.parts, orphan)
        op.parts.nodes.clear(login, mount_of(orphan, guest))
        with op.db.write() as tx:
            orphaned_mounts.remove(tx, orphan.id)


def _is_in_the_way(orphan: OrphanedMount, plan: MountPlan) -> bool:
    """In the same guest, whose ports are few; or on the same machine at, above or below the mount point."""
    one, other = f"{orphan.mount_point}/", f"{plan.mount_point}/"
    return orphan.mode == "virtiofs" or one.startswith(other) or other.startswith(one)
