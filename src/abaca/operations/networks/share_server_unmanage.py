# SPDX-License-Identifier: Apache-2.0
"""Give a share server up on which nothing is that is managed here: its row goes; on its back end it goes on serving.

It keeps its addresses: nobody else gets them, until it is taken over again or an operator says that it is gone. What
can go wrong: the back end refuses, or stays away for long; then the server is `unmanage_error`, and releasing it again
tries again, by force also where the back end knows nothing of it or gives none up. The claim under faults: it always
ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.networks import share_networks, share_servers
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.operations.networks import share_server_manage
from abaca.operations.networks import share_server_values as values
from abaca.operations.parts import DRIVER_CALL_S, PLUGIN_CALL_S, ServerHost

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.networks.share_servers import ShareServer
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


class Args(msgspec.Struct, frozen=True):
    """What the driver is told; with `is_forced` its refusal changes nothing."""

    server: contract.ShareServer
    is_forced: bool = False


class InUse(errors.Conflict):
    """Share server {id} has shares; release or delete them first."""


class NetworkNotActive(errors.Conflict):
    """Share network {network} of share server {id} is {status}; try again when it is active."""


class Encrypted(errors.Conflict):
    """Share server {id} is encrypted with a key of its users, and nobody could take it over with that."""


class OnSeveralSubnets(errors.Conflict):
    """Share server {id} is on {number} subnets; one can be released that is on one: take the others off its network."""


def start(tx: Tx, server: ShareServer, by: Requester | None, *, is_forced: bool = False) -> str:
    """Accept it; the operation's id.

    Raises `Conflict` where its status forbids that, `NetworkNotActive`, `InUse`, `Encrypted`, `OnSeveralSubnets`,
    `NotFound` where it has just gone.
    """
    # as whoever puts a share on it does
    if server.share_network_id is not None:
        share_networks.hold(tx, server.share_network_id)
        network = share_networks.show(tx, server.share_network_id)
        if network is not None and network.status != "active":
            raise NetworkNotActive(id=server.id, network=network.id, status=network.status)
    if share_servers.is_used(tx, server.id):
        raise InUse(id=server.id)
    if server.encryption_key_ref is not None:
        raise Encrypted(id=server.id)
    number = len(share_servers.subnets(tx, server.id))
    if number > 1:
        raise OnSeveralSubnets(id=server.id, number=number)
    share_servers.move(tx, server.id, "unmanage")
    # what could not be taken over is nobody's on its back end already
    args = Args(values.contract_server(server), is_forced or server.status == "manage_error")
    return queueing.enqueue(tx, OPERATION, args, values.target_of(server.host, server.id), by)


def give_up_on_backend(op: Op[ServerHost]) -> None:
    """The back end forgets whose it is."""
    server = msgspec.structs.replace(op.args.server, generation=op.generation)
    try:
        share_server_manage.driver_of(op.parts).unmanage_server(server)
    except (contract.Gone, contract.Refused):
        if not op.args.is_forced:
            raise


def leave_addresses(op: Op[ServerHost]) -> None:
    """It answers there as before."""
    op.parts.network.leave(op.args.server.id, op.guard)


def succeed(op: Op[ServerHost], tx: Tx) -> None:
    """Forget it."""
    share_servers.delete(tx, op.args.server.id)


def fail(op: Op[ServerHost], tx: Tx, error: errors.AbacaError) -> None:
    """It stays, for another try."""
    share_servers.try_move(tx, op.args.server.id, "failed", "unmanage_starting")


OPERATION = kinds.operation(
    kind="share-server-unmanage",
    resource=values.RESOURCE,
    args=Args,
    parts=ServerHost,
    steps=(
        kinds.Step(give_up_on_backend, undo=kinds.nothing, within_s=DRIVER_CALL_S),
        kinds.Step(leave_addresses, undo=kinds.nothing, within_s=PLUGIN_CALL_S),
    ),
    succeed=succeed,
    fail=fail,
    cancellable=False,
)
