# SPDX-License-Identifier: Apache-2.0
"""Take a share server away on which nothing is: from its back end, then its addresses, then its row.

What can go wrong: the back end refuses or stays away for long; then the server is in `error` and keeps its addresses,
and deleting it again tries again. The claim under faults: it always ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.networks import share_networks, share_servers
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.operations.networks import share_server_values as values
from abaca.operations.parts import DRIVER_CALL_S, PLUGIN_CALL_S, ServerHost

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.networks.share_servers import ShareServer
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


class Args(msgspec.Struct, frozen=True):
    """What the driver is told."""

    server: contract.ShareServer


class InUse(errors.Conflict):
    """Share server {id} has shares; delete them first."""


def start(tx: Tx, server: ShareServer, by: Requester | None) -> str:
    """Accept its deletion; the operation's id.

    Raises `Conflict` where its status forbids that, `InUse` where shares are on it, `NotFound` where it has just gone.
    """
    # as whoever puts a share on it does
    if server.share_network_id is not None:
        share_networks.hold(tx, server.share_network_id)
    share_servers.move(tx, server.id, "delete")
    if share_servers.is_used(tx, server.id):
        raise InUse(id=server.id)
    args = Args(values.contract_server(server))
    return queueing.enqueue(tx, OPERATION, args, values.target_of(server.host, server.id), by)


class NotDeletable(errors.Conflict):
    """Share server {id} of it is not deleted with it, for what may be on it; release or delete the server first."""


class UnderWay(errors.Conflict):
    """Share server {id} of it is {status}; try again when that has ended."""


def start_all(tx: Tx, found: Iterable[ShareServer], by: Requester | None) -> None:
    """Accept the deletion of all share servers of what goes, the lock of whose share network is held.

    Raises `NotDeletable`, `UnderWay`, `InUse`.
    """
    for server in found:
        if server.status == "deleting":
            continue
        if not server.is_auto_deletable:
            raise NotDeletable(id=server.id)
        if server.status not in ("active", "error"):
            raise UnderWay(id=server.id, status=server.status)
        start(tx, server, by)


def tear_down(op: Op[ServerHost]) -> None:
    """The back end's part."""
    op.parts.servers.tear_down_server(msgspec.structs.replace(op.args.server, generation=op.generation))


def give_back_addresses(op: Op[ServerHost]) -> None:
    """All that it has; nothing answers there any more."""
    op.parts.network.free(op.args.server.id, guard=op.guard)


def succeed(op: Op[ServerHost], tx: Tx) -> None:
    """Forget it."""
    share_servers.delete(tx, op.args.server.id)


def fail(op: Op[ServerHost], tx: Tx, error: errors.AbacaError) -> None:
    """It stays, in error, for another try."""
    share_servers.try_move(tx, op.args.server.id, "failed", "deleting")


OPERATION = kinds.operation(
    kind="share-server-delete",
    resource=values.RESOURCE,
    args=Args,
    parts=ServerHost,
    steps=(
        kinds.Step(tear_down, undo=kinds.nothing, within_s=DRIVER_CALL_S),
        kinds.Step(give_back_addresses, undo=kinds.nothing, within_s=PLUGIN_CALL_S),
    ),
    succeed=succeed,
    fail=fail,
    cancellable=False,
)
