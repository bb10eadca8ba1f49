# SPDX-License-Identifier: Apache-2.0
"""Give a share server that serves one subnet more: take addresses there, and serve on them as well.

What can go wrong: the subnet is full, or the back end refuses; then the addresses are given back, the server and its
shares are in `error`, with a message to the shares' users, and other servers of the network go on. The network is
active again when none of its servers changes any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.administration import messages
from abaca.db.journal import waits
from abaca.db.networks import share_network_subnets, share_networks, share_servers
from abaca.db.shares import export_locations, share_instances
from abaca.db.shares.export_location_history import Cause, Owner
from abaca.domain.administration.messages import About, Action, Detail
from abaca.domain.networks.allocations import Network
from abaca.domain.networks.share_networks import Subnet
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.operations.networks import share_server_values as values
from abaca.operations.networks.share_server_create import NoSuchServer
from abaca.operations.parts import DRIVER_CALL_S, ServerHost
from abaca.operations.shares import metadata_limits
from abaca.operations.shares.share_instances import told

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
    args = Args(server.id, subnet.share_network_id, subnet.id)
    return queueing.enqueue(tx, OPERATION, args, values.target_of(server.host, server.id), by)


def settle(tx: Tx, network_id: str) -> None:
    """The network is active again when none of its share servers, of which one has just ended, changes any more."""
    if not any(one.status == "network_change" for one in share_servers.on_network(tx, network_id)):
        share_networks.STATUS.try_move(tx, network_id, "changed", "network_change")


def _found(tx: Tx, op: Op[ServerHost]) -> tuple[ShareServer, Subnet]:
    server = share_servers.show(tx, op.args.server_id)
    its = share_network_subnets.of_network(tx, op.args.share_network_id)
    subnet = next((one for one in its if one.id == op.args.subnet_id), None)
    if server is None or subnet is None:
        raise NoSuchServer(id=op.args.server_id)
    return server, subnet


def take_addresses(op: Op[ServerHost]) -> None:
    """As many as its driver wants."""
    with op.db.read() as tx:
        _, subnet = _found(tx, op)
    network = op.parts.network.look(subnet, op.parts.backend.availability_zone)
    number = op.parts.servers.allocations_per_subnet
    op.parts.network.allocate(op.args.server_id, subnet, network, number)
    with op.write() as tx:
        share_network_subnets.update(tx, subnet.id, values.facts_of(network))
    op.record(network=network)


def give_back_addresses(op: Op[ServerHost]) -> None:
    """Those on that subnet."""
    op.parts.network.free(op.args.server_id, op.args.subnet_id)


def serve_there(op: Op[ServerHost]) -> None:
    """The back end's part."""
    driver = _driver(op)
    with op.db.read() as tx:
        server, subnet = _found(tx, op)
        current = values.subnets_of(tx, server)
        new = values.new_subnet_of(tx, server, subnet, msgspec.convert(op.data["network"], Network))
        instances = _instances(tx, op)
    outcome = driver.update_server_network(values.told(server), current, new, instances)
    op.record(details=outcome.details, exports=outcome.exports)


def serve_there_no_more(op: Op[ServerHost]) -> None:
    """As it was before."""
    with op.db.read() as tx:
        server, subnet = _found(tx, op)
        old = values.new_subnet_of(tx, server, subnet, msgspec.convert(op.data["network"], Network))
        instances = _instances(tx, op)
    _driver(op).remove_server_network(values.told(server), old, instances)


def _driver(op: Op[ServerHost]) -> contract.UpdatesServerNetworks:
    driver = op.parts.driver
    if not isinstance(driver, contract.UpdatesServerNetworks):
        raise contract.Refused(reason="its driver adds no subnets to share servers that serve")
    return driver


def _instances(tx: Tx, op: Op[ServerHost]) -> list[contract.ShareInstance]:
    return [told(row) for row in share_instances.whole_of(tx, share_servers.instances_on(tx, op.args.server_id))]


def succeed(op: Op[ServerHost], tx: Tx) -> None:
    """Its shares can be mounted from there too; who has mounted them follows by itself."""
    server_id = op.args.server_id
    share_networks.hold(tx, op.args.share_network_id)
    share_servers.finish(tx, server_id, "network_change", op.data["details"])
    share_servers.join(tx, server_id, op.args.subnet_id)
    exports = msgspec.convert(op.data["exports"], dict[str, list[contract.Export]])
    rows = share_instances.whole_of(tx, exports)
    owners = {row.id: Owner(row.share_id, row.project_id) for row in rows}
    wanted = {row.id: exports[row.id] for row in rows}
    _, gone = export_locations.replace_many(tx, wanted, owners, Cause(op.id, op.what.kind))
    _end(op, tx)
    metadata_limits.count_anyway(tx, {project_id: -number for project_id, number in gone.items()})


def fail(op: Op[ServerHost], tx: Tx, error: errors.AbacaError) -> None:
    """It and its shares are in error; nobody says that they are still served as they were."""
    share_networks.hold(tx, op.args.share_network_id)
    share_servers.try_move(tx, op.args.server_id, "failed", "network_change")
    rows = share_instances.whole_of(tx, share_servers.instances_on(tx, op.args.server_id))
    lost = share_instances.move_many(tx, [row.id for row in rows], "lost")
    for row in rows:
        if row.id in lost:
            about = About(row.project_id, op.request_id, "SHARE", row.share_id)
            messages.record(tx, about, Action.UPDATE, Detail.UNKNOWN_ERROR, reason=error.message)
    _end(op, tx)


def _end(op: Op[ServerHost], tx: Tx) -> None:
    settle(tx, op.args.share_network_id)
    waits.signal(tx, share_servers.settled_condition(op.args.server_id))


OPERATION = kinds.operation(
    kind="share-server-add-subnet",
    resource=values.RESOURCE,
    args=Args,
    parts=ServerHost,
    steps=(
        kinds.Step(take_addresses, undo=give_back_addresses),
        kinds.Step(serve_there, undo=serve_there_no_more, within_s=DRIVER_CALL_S),
    ),
    succeed=succeed,
    fail=fail,
    cancellable=False,
)
