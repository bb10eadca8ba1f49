# SPDX-License-Identifier: Apache-2.0
"""Give a share server that serves one subnet more: take addresses there, and serve on them as well.

What can go wrong: the subnet is full, or the back end refuses; then the addresses are given back, the server and its
shares are in `error`, with messages to the users of both, and other servers of the network go on. The network is
active again when none of its servers changes any more. Several servers of a back end try it together first
(share_network_add_subnet.py).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.attachments import attachments
from abaca.db.networks import share_network_subnets, share_networks, share_servers
from abaca.domain.administration.messages import Action, Detail
from abaca.domain.attachments import sources
from abaca.domain.networks.allocations import Network
from abaca.domain.networks.share_networks import Subnet
from abaca.journal import kinds, queueing
from abaca.networks.contract import NoAddress
from abaca.operations.attachments.attachment_parts import LOOKS
from abaca.operations.networks import share_server_addresses
from abaca.operations.networks import share_server_change as change
from abaca.operations.networks import share_server_values as values
from abaca.operations.parts import DRIVER_CALL_S, PLUGIN_CALL_S, ServerHost

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.networks.share_servers import ShareServer
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


class Args(msgspec.Struct, frozen=True):
    """Which share server gets which subnet of its share network."""

    server_id: str
    share_network_id: str
    subnet_id: str


def start(tx: Tx, server: ShareServer, subnet: Subnet, by: Requester | None) -> str:
    """Queue it, for a server that is moved to `network_change` by this; the operation's id. Raises `Conflict`."""
    share_servers.move(tx, server.id, "change")
    return go_on(tx, server.host, Args(server.id, subnet.share_network_id, subnet.id), by)


def go_on(tx: Tx, host: str, args: Args, by: Requester | None) -> str:
    """The same for a server that has been moved already."""
    return queueing.enqueue(tx, OPERATION, args, values.target_of(host, args.server_id), by)


def take_addresses(op: Op[ServerHost]) -> None:
    """As many as its driver wants."""
    with op.db.read() as tx:
        _, subnet = change.found(tx, op.args)
    network = op.parts.network.look(subnet, op.parts.backend.availability_zone)
    share_server_addresses.take(op, op.args.server_id, subnet, network)
    with op.write() as tx:
        share_network_subnets.update(tx, subnet.id, values.facts_of(network))
    op.record(network=network)


def give_back_addresses(op: Op[ServerHost]) -> None:
    """Those on that subnet."""
    if not values.may_serve_still(op):
        op.parts.network.free(op.args.server_id, op.args.subnet_id, op.guard)


def serve_there(op: Op[ServerHost]) -> None:
    """The back end's part."""
    driver = change.driver_of(op.parts)
    with op.db.read() as tx:
        server, subnet = change.found(tx, op.args)
        current = values.subnets_of(tx, server)
        new = values.new_subnet_of(tx, server, subnet, msgspec.convert(op.data["network"], Network))
        instances = change.instances_on(tx, server.id)
    outcome = driver.update_server_network(values.contract_server(server, op), current, new, instances)
    op.record(details=outcome.details, exports=outcome.exports)


def serve_there_no_more(op: Op[ServerHost]) -> None:
    """As it was before."""
    with op.db.read() as tx:
        server, subnet = change.found(tx, op.args)
        old = values.new_subnet_of(tx, server, subnet, msgspec.convert(op.data["network"], Network))
        instances = change.instances_on(tx, server.id)
    driver = change.driver_of(op.parts)
    op.record(is_back=False)
    driver.remove_server_network(values.contract_server(server, op), old, instances)
    op.record(is_back=True)


def succeed(op: Op[ServerHost], tx: Tx) -> None:
    """Its shares can be mounted from there too; who has mounted them follows by itself."""
    share_networks.hold(tx, op.args.share_network_id)
    share_servers.join(tx, op.args.server_id, op.args.subnet_id)
    change.finish(op, tx)
    draw_near(tx, [op.args.server_id], msgspec.convert(op.data["network"], Network).cidr)


def draw_near(tx: Tx, server_ids: Collection[str], cidr: str) -> None:
    """What is attached to servers of that subnet, and mounted from elsewhere, is looked at now, and so moves."""
    found = attachments.of_share_servers(tx, server_ids)
    if attachments.doubt(tx, [row.id for row in found if sources.is_on_link(cidr, row.addresses)]):
        tx.wake(LOOKS)


def fail(op: Op[ServerHost], tx: Tx, error: errors.AbacaError) -> None:
    """It and its shares are in error; nobody says that they are still served as they were."""
    detail = Detail.SUBNET_FULL if error.code == NoAddress.code else Detail.UNKNOWN_ERROR
    change.notify_project(op, tx, ("SHARE_NETWORK_SUBNET", op.args.subnet_id), (Action.CREATE, detail), error)
    change.lose(op, tx, error)


OPERATION = kinds.operation(
    kind="share-server-add-subnet",
    resource=values.RESOURCE,
    args=Args,
    parts=ServerHost,
    steps=(
        kinds.Step(take_addresses, undo=give_back_addresses, within_s=PLUGIN_CALL_S),
        kinds.Step(serve_there, undo=serve_there_no_more, within_s=DRIVER_CALL_S),
    ),
    succeed=succeed,
    fail=fail,
    cancellable=False,
)
