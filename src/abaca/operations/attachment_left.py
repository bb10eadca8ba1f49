# SPDX-License-Identifier: Apache-2.0
"""What a forced detach left on a machine that could not be entered: remembered, and taken away when it can be.

Only what bears our mark with the attachment's name is touched there: the attachment is gone, and somebody else may use
its mount point meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from abaca.db import left_mounts
from abaca.nodes.contract import Guest, Mount

if TYPE_CHECKING:
    from abaca.db.engine import Tx
    from abaca.operations.journal import Op

_KEPT = ("id", "server_id", "mode", "tag", "mount_point", "protocol", "source")


def remember(tx: Tx, told: Mapping[str, Any]) -> None:
    """What an attachment, as its steps are told of it with the `source` it is mounted from, may have left."""
    left_mounts.add(tx, {name: told[name] for name in _KEPT})


def mount_of(row: Any, guest: Guest | None) -> Mount:
    """A remembered one, as machines are told of it."""
    return Mount(name=row.id, protocol=row.protocol, source=row.source, mount_point=row.mount_point, guest=guest)


def way(tools: Any, row: Any) -> Any:
    """Into which machine, and for which guest of it. Raises as `Tools.way`."""
    return tools.way({"server_id": row.server_id, "mode": row.mode, "tag": row.tag})


def clear(op: Op, server_id: str) -> None:
    """Nothing is left on a server, so that it does not stand in the way. Raises what `nodes.clear` raises."""
    with op.db.read() as tx:
        left = left_mounts.of_server(tx, server_id)
    for row in left:
        entry, guest = way(op.driver, row)
        op.driver.nodes.clear(entry, mount_of(row, guest))
        with op.db.write() as tx:
            left_mounts.remove(tx, row.id)
