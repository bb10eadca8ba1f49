# SPDX-License-Identifier: Apache-2.0
"""Have a share server that serves join a directory, in the place of another one of its type or as the first.

What can go wrong: the back end refuses; then the server and its shares are in `error`, with messages to the users of
these and of the directory, and other servers of the network go on: which directory it has joined is not known. Making
it serve again has it join what its share network has by then. The network is active again when none of its servers
changes any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.networks import security_services, share_networks, share_servers
from abaca.domain.administration.messages import Action, Detail
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.operations.networks import share_server_change as change
from abaca.operations.networks import share_server_values as values
from abaca.operations.networks.share_server_create import NoSuchServer
from abaca.operations.parts import DRIVER_CALL_S, ServerHost

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.networks.share_servers import ShareServer
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


class Args(msgspec.Struct, frozen=True):
    """Which share server of which network joins which directory, in the place of which."""

    server_id: str
    share_network_id: str
    new_id: str
    current_id: str | None = None


def start(tx: Tx, server: ShareServer, args: Args, by: Requester | None) -> str:
    """Queue it, for a server that is moved to `network_change` by this; the operation's id. Raises `Conflict`."""
    share_servers.move(tx, server.id, "change")
    return queueing.enqueue(tx, OPERATION, args, values.target_of(server.host, server.id), by)


def join(op: Op[ServerHost]) -> None:
    """The back end's part."""
    driver, args = op.parts.driver, op.args
    if not isinstance(driver, contract.UpdatesSecurityServices):
        raise contract.Refused(reason="its driver changes no directories of share servers that serve")
    with op.db.read() as tx:
        server = share_servers.show(tx, args.server_id)
        new = security_services.show(tx, args.new_id)
        current = security_services.show(tx, args.current_id) if args.current_id else None
    if server is None or new is None:
        raise NoSuchServer(id=args.server_id)
    now = None if current is None else values.contract_service(current)
    op.record(
        details=driver.update_security_service(values.contract_server(server, op), values.contract_service(new), now)
    )


def succeed(op: Op[ServerHost], tx: Tx) -> None:
    """It serves on, with the other directory."""
    share_networks.hold(tx, op.args.share_network_id)
    share_servers.finish(tx, op.args.server_id, "network_change", op.data["details"])
    change.end(op.args, tx)


def fail(op: Op[ServerHost], tx: Tx, error: errors.AbacaError) -> None:
    """It and its shares are in error; nobody says that their users are still known."""
    detail = Detail.UNSUPPORTED_SECURITY_SERVICE if error.code == contract.Refused.code else Detail.UNKNOWN_ERROR
    cause = (Action.ADD_UPDATE_SECURITY_SERVICE, detail)
    change.notify_project(op, tx, ("SECURITY_SERVICE", op.args.new_id), cause, error)
    change.lose(op, tx, error)


OPERATION = kinds.operation(
    kind="share-server-join",
    resource=values.RESOURCE,
    args=Args,
    parts=ServerHost,
    steps=(kinds.Step(join, undo=kinds.nothing, within_s=DRIVER_CALL_S),),
    succeed=succeed,
    fail=fail,
    cancellable=False,
)
