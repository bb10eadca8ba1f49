# SPDX-License-Identifier: Apache-2.0
"""Make a share server for the shares that wait for it: look at its networks, take addresses, set it up.

The first share of a network on a back end asks for it (share_server_choice.py). What can go wrong: a subnet is of no
network that can be used, or has addresses of another one's, or is full, or the back end refuses; then whatever was
begun is taken back, addresses too, the server is in `error`, the shares that waited fail with that reason, and the next
share asks for another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from abaca import errors
from abaca.db.networks import share_network_checks, share_network_subnets, share_servers
from abaca.domain.networks.allocations import Network
from abaca.domain.networks.share_networks import Subnet
from abaca.drivers import contract
from abaca.journal import kinds, queueing
from abaca.operations.networks import share_server_addresses
from abaca.operations.networks import share_server_values as values
from abaca.operations.parts import DRIVER_CALL_S, PLUGIN_CALL_S, ServerHost

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.networks.share_servers import ShareServer
    from abaca.journal.op import Op
    from abaca.journal.requester import Requester


class Args(msgspec.Struct, frozen=True):
    """Which share server, and the availability zone in which its networks are looked for."""

    server_id: str
    availability_zone: str


class MadeFor(NamedTuple):
    """The share network and project of a share server, and the key that all its shares are encrypted with, if any."""

    network_id: str
    project_id: str
    encryption_key_ref: str | None = None


class NoSuchServer(errors.AbacaError):
    """Share server {id} is gone, or what it was made for is."""

    code = "NoSuchServer"


def start(tx: Tx, driver: contract.Driver, made_for: MadeFor, subnets: Sequence[Subnet], by: Requester | None) -> str:
    """Write down a share server that this back end shall make; its id."""
    row: dict[str, object] = {
        "project_id": made_for.project_id,
        "share_network_id": made_for.network_id,
        "encryption_key_ref": made_for.encryption_key_ref,
        "host": driver.backend.host,
        **supports_of(driver),
    }
    share_network_checks.forget_all(tx, made_for.network_id)
    server_id = share_servers.add(tx, row, [subnet.id for subnet in subnets])
    args = Args(server_id, driver.backend.availability_zone)
    queueing.enqueue(tx, OPERATION, args, values.target_of(driver.backend.host, server_id), by)
    return server_id


def supports_of(driver: contract.Driver) -> dict[str, bool]:
    """What a share server of this driver can."""
    can_several = isinstance(driver, contract.RunsServers) and driver.share_server_multiple_subnet_support
    return {
        "security_service_update_support": isinstance(driver, contract.UpdatesSecurityServices),
        "network_allocation_update_support": isinstance(driver, contract.UpdatesServerNetworks),
        "share_server_multiple_subnet_support": can_several,
    }


def _server(tx: Tx, server_id: str) -> ShareServer:
    found = share_servers.show(tx, server_id)
    if found is None:
        raise NoSuchServer(id=server_id)
    return found


def _subnets(op: Op[ServerHost]) -> list[Subnet]:
    with op.db.read() as tx:
        return share_servers.subnets(tx, _server(tx, op.args.server_id).id)


def look_at_networks(op: Op[ServerHost]) -> None:
    """What is beneath its subnets, which are shown with it from then on."""
    found = {one.id: op.parts.network.look(one, op.args.availability_zone) for one in _subnets(op)}
    with op.write() as tx:
        for subnet_id, network in found.items():
            share_network_subnets.update(tx, subnet_id, values.facts_of(network))
    op.record(networks=found)


def take_addresses(op: Op[ServerHost]) -> None:
    """As many on each subnet as its driver wants."""
    networks = msgspec.convert(op.data["networks"], dict[str, Network])
    for subnet in _subnets(op):
        share_server_addresses.take(op, op.args.server_id, subnet, networks[subnet.id])


def give_back_addresses(op: Op[ServerHost]) -> None:
    """All that it has."""
    if not values.may_serve_still(op):
        op.parts.network.free(op.args.server_id, guard=op.guard)


def set_up(op: Op[ServerHost]) -> None:
    """The back end's part."""
    with op.db.read() as tx:
        setup = values.setup_of(tx, _server(tx, op.args.server_id), op)
    op.record(details=op.parts.servers.set_up_server(setup))


def tear_down(op: Op[ServerHost]) -> None:
    """Whatever there is of it."""
    details = op.data.get("details", {})
    server = contract.ShareServer(id=op.args.server_id, details=details, generation=op.generation)
    op.record(is_back=False)
    op.parts.servers.tear_down_server(server)
    op.record(is_back=True)


def succeed(op: Op[ServerHost], tx: Tx) -> None:
    """Shares can be on it from here on."""
    share_servers.finish(tx, op.args.server_id, "creating", op.data["details"])
    values.settle(tx, op.args.server_id)


def fail(op: Op[ServerHost], tx: Tx, error: errors.AbacaError) -> None:
    """It stays visible, and is deleted with what is unused; those who wait for it are told why it will not come."""
    share_servers.try_move(tx, op.args.server_id, "failed", "creating")
    values.settle(tx, op.args.server_id)


OPERATION = kinds.operation(
    kind="share-server-create",
    resource=values.RESOURCE,
    args=Args,
    parts=ServerHost,
    steps=(
        kinds.Step(look_at_networks, undo=kinds.nothing, within_s=PLUGIN_CALL_S),
        kinds.Step(take_addresses, undo=give_back_addresses, within_s=PLUGIN_CALL_S),
        kinds.Step(set_up, undo=tear_down, within_s=DRIVER_CALL_S),
    ),
    succeed=succeed,
    fail=fail,
)
