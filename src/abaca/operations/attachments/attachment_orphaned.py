# SPDX-License-Identifier: Apache-2.0
"""What a forced detach left on a machine that could not be entered: remembered, and taken away when it can be.

Only what bears our mark with the attachment's name is touched there: the attachment is gone, and somebody else may use
its mount point meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from abaca.db.attachments import orphaned_mounts
from abaca.domain.attachments.attachments import OrphanedMount
from abaca.domain.attachments.servers import Login
from abaca.nodes.contract import Guest, Mount
from abaca.operations.attachments.attachment_parts import AttachmentParts

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.journal.op import Op

_KEPT = ("id", "server_id", "machine_id", "qmp_socket", "mode", "tag", "mount_point", "protocol", "source")


def where(parts: AttachmentParts, told: Mapping[str, Any]) -> dict[str, str | None]:
    """On which machine an attachment is, and for which guest there; this may change once it is given up.

    Raises what the compute plugin raises.
    """
    server = parts.servers.show(told["server_id"]) if told["mode"] == "virtiofs" else None
    if server is None or server.hypervisor_id is None:
        return {"machine_id": told["server_id"], "qmp_socket": None}
    return {"machine_id": server.hypervisor_id, "qmp_socket": server.qmp_socket}


def remember(tx: Tx, told: Mapping[str, Any]) -> None:
    """What an attachment, as its steps are told of it with the `source` it is mounted from and `where`, may have left.

    A worker of an earlier release did not say where.
    """
    at = {"machine_id": told["server_id"], "qmp_socket": None}
    orphaned_mounts.add(tx, {name: (at | dict(told))[name] for name in _KEPT})


def mount_of(orphan: OrphanedMount, guest: Guest | None) -> Mount:
    """A remembered one, as machines are told of it."""
    return Mount(
        name=orphan.id, protocol=orphan.protocol, source=orphan.source, mount_point=orphan.mount_point, guest=guest
    )


def way(parts: AttachmentParts, orphan: OrphanedMount) -> tuple[Login, Guest | None]:
    """Into which machine, and for which guest of it. Raises `ServerGone`, and what the compute plugin raises."""
    guest = None if orphan.qmp_socket is None else Guest(tag=orphan.tag, qmp_socket=orphan.qmp_socket)
    return parts.login(orphan.machine_id), guest


def clear(op: Op[AttachmentParts], told: Mapping[str, Any]) -> None:
    """Nothing is left that stands in the way of an attachment, as its steps are told of it.

    Raises what `AttachmentParts.way` and `nodes.clear` raise. What is left elsewhere may fail to go without harm to
    this one.
    """
    with op.db.read() as tx:
        left = orphaned_mounts.of_server(tx, told["server_id"])
    at = where(op.parts, told) if left else {}
    for orphan in left:
        if orphan.machine_id != at["machine_id"] or not _is_in_the_way(orphan, told):
            continue
        login, guest = way(op.parts, orphan)
        op.parts.nodes.clear(login, mount_of(orphan, guest))
        with op.db.write() as tx:
            orphaned_mounts.remove(tx, orphan.id)


def _is_in_the_way(orphan: OrphanedMount, told: Mapping[str, Any]) -> bool:
    """In the same guest, whose ports are few; or on the same machine at, above or below the mount point."""
    one, other = f"{orphan.mount_point}/", f"{told['mount_point']}/"
    return orphan.mode == "virtiofs" or one.startswith(other) or other.startswith(one)
