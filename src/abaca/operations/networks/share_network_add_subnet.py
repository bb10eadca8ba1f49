# SPDX-License-Identifier: Apache-2.0
"""Give several share servers of one back end, which serve, a subnet of their network more, in few statements and calls.

What can go wrong goes wrong for single servers, whether the subnet is full or the back end refuses. Those are as they
were, and each tries it alone then (share_server_add_subnet.py), which takes back what is half done and tells users why.
So nothing is taken back here. The network is active again when none of its servers changes any more.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.journal import keys
from abaca.db.networks import share_network_subnets, share_networks, share_servers
from abaca.db.shares import share_instances
from abaca.domain.networks.allocations import Network
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.operations.networks import share_server_add_subnet, share_server_addresses
from abaca.operations.networks import share_server_change as change
from abaca.operations.networks import share_server_values as values
from abaca.operations.parts import DRIVER_CALL_S, PLUGIN_CALL_S, ServerHost
from abaca.operations.shares.share_instances import contract_instance

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.networks.share_networks import Subnet
    from abaca.domain.networks.share_servers import ShareServer
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester

# So many servers at most are changed by one operation.
TOGETHER = 16


class Args(msgspec.Struct, frozen=True):
    """Which subnet of which share network, and which of the back end's share servers get it."""

    share_network_id: str
    subnet_id: str
    server_ids: tuple[str, ...]


def start(tx: Tx, servers: Sequence[ShareServer], subnet: Subnet, by: Requester | None) -> None:
    """Queue it for servers that are moved to `network_change` by this. Raises `Conflict`."""
    moved = share_servers.STATUS.move_many(tx, [one.id for one in servers], "change")
    for server in servers:
        if server.id not in moved:
            share_servers.move(tx, server.id, "change")
    by_host: dict[str, list[str]] = defaultdict(list)
    for server in servers:
        by_host[server.host].append(server.id)
    for host, ids in by_host.items():
        for some in _parts(ids):
            _queue(tx, host, Args(subnet.share_network_id, subnet.id, some), by)


def _parts(ids: Iterable[str]) -> Iterable[tuple[str, ...]]:
    left = iter(ids)
    return iter(lambda: tuple(itertools.islice(left, TOGETHER)), ())


def _queue(tx: Tx, host: str, args: Args, by: Requester | None) -> None:
    if len(args.server_ids) == 1:
        _alone(tx, host, args, args.server_ids, by)
        return
    held = [keys.key(share_servers.KEY, one) for one in args.server_ids]
    target = queueing.Target(queue=host, keys=held, resource_id=args.share_network_id)
    queueing.enqueue(tx, OPERATION, args, target, by)


def _alone(tx: Tx, host: str, args: Args, server_ids: Iterable[str], by: Requester | None) -> None:
    for one in server_ids:
        alone = share_server_add_subnet.Args(one, args.share_network_id, args.subnet_id)
        share_server_add_subnet.go_on(tx, host, alone, by)


def take_addresses(op: Op[ServerHost]) -> None:
    """As many for each as its driver wants."""
    args: Args = op.args
    with op.db.read() as tx:
        subnet = change.subnet_of(tx, args.share_network_id, args.subnet_id)
    if subnet is None:
        raise errors.NotFound(resource="Subnet", id=args.subnet_id)
    network = op.parts.network.look(subnet, op.parts.backend.availability_zone)
    with op.db.read() as tx:
        refused = share_server_addresses.refusals(tx, args.server_ids, subnet.id, network)
    wanted = [one for one in args.server_ids if one not in refused]
    number = op.parts.servers.allocations_per_subnet
    ready = op.parts.network.allocate_many(wanted, subnet, network, number, op.guard)
    with op.write() as tx:
        share_network_subnets.update(tx, subnet.id, values.facts_of(network))
    op.record(network=network, ready=sorted(ready))


def serve_there(op: Op[ServerHost]) -> None:
    """The back end's part."""
    driver = change.driver_of(op.parts)
    with op.db.read() as tx:
        changes = _changes(op, tx)
    op.record(served=driver.update_server_networks(changes) if changes else {})


def _changes(op: Op[ServerHost], tx: Tx) -> list[contract.ServerNetworkChange]:
    args: Args = op.args
    subnet = change.subnet_of(tx, args.share_network_id, args.subnet_id)
    servers = share_servers.show_many(tx, op.data["ready"])
    if subnet is None or not servers:
        return []
    current = values.subnets_of_many(tx, servers)
    new = values.new_subnet_of_many(tx, servers, subnet, msgspec.convert(op.data["network"], Network))
    on: dict[str | None, list[contract.ShareInstance]] = defaultdict(list)
    for row in share_instances.whole_of(tx, share_servers.instances_of(tx, [one.id for one in servers])):
        on[row.share_server_id].append(contract_instance(row))
    return [
        contract.ServerNetworkChange(
            server=values.contract_server(one, op), current=current[one.id], new=new[one.id], instances=on[one.id]
        )
        for one in servers
    ]


def succeed(op: Op[ServerHost], tx: Tx) -> None:
    """Shares on those that serve there can be mounted from there too; the others go on alone."""
    args: Args = op.args
    served = msgspec.convert(op.data["served"], dict[str, contract.ServerNetworkOutcome])
    share_networks.hold(tx, args.share_network_id)
    if served:
        share_servers.join_many(tx, served, args.subnet_id)
        change.finish_many(op, tx, served)
        share_server_add_subnet.draw_near(tx, served, msgspec.convert(op.data["network"], Network).cidr)
    _alone(tx, op.home, args, [one for one in args.server_ids if one not in served], op)


def fail(op: Op[ServerHost], tx: Tx, error: errors.AbacaError) -> None:
    """Each goes on alone, and finds out what is wrong."""
    _alone(tx, op.home, op.args, op.args.server_ids, op)


OPERATION = kinds.operation(
    kind="share-network-add-subnet",
    resource="share-network",
    args=Args,
    parts=ServerHost,
    steps=(
        kinds.Step(take_addresses, undo=kinds.nothing, within_s=PLUGIN_CALL_S),
        kinds.Step(serve_there, undo=kinds.nothing, within_s=DRIVER_CALL_S),
    ),
    succeed=succeed,
    fail=fail,
    cancellable=False,
)
