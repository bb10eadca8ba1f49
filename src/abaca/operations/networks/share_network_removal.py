# SPDX-License-Identifier: Apache-2.0
"""Take a subnet away from a share network whose share servers serve: what stands in the way, who uses it.

A client mounts by itself from wherever it likes, and back ends do not tell who does. So whoever an access rule of a
user lets in from that very subnet counts as one who uses it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.networks import allocations, share_network_checks, share_network_subnets, share_networks, share_servers
from abaca.db.shares import access_rules, export_locations
from abaca.domain.attachments import sources
from abaca.domain.attachments.attachments import Attachment
from abaca.domain.attachments.sources import address_of
from abaca.domain.networks.share_networks import ShareNetwork, Subnet
from abaca.domain.networks.share_servers import ShareServer
from abaca.operations.networks import share_network_change, share_server_remove_subnet
from abaca.operations.networks.share_network_change import CannotChange, Obstacle

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.journal.requester import Requester


class SubnetUsed(errors.Conflict):
    """Subnet {id} is used: {reason}. With force it goes all the same."""

    code = "SubnetUsed"


class Move(msgspec.Struct, frozen=True):
    """An attachment that is mounted from the subnet, and the export location that it would move to."""

    attachment: Attachment
    to: str


class Removal(msgspec.Struct, frozen=True):
    """What taking a subnet away would mean; `uses` is what force passes over, `obstacles` what nothing does."""

    network: ShareNetwork
    subnet: Subnet
    servers: Sequence[ShareServer]
    obstacles: Sequence[Obstacle]
    uses: Sequence[str]
    moves: Sequence[Move]


def look(tx: Tx, network: ShareNetwork, subnet: Subnet) -> Removal:
    """What it would mean now."""
    servers = [one for one in share_servers.on_subnets(tx, [subnet.id]) if one.status != "deleting"]
    ids = [one.id for one in servers]
    is_used = bool(servers) or share_networks.has_shares(tx, network.id)
    found = [*share_network_change.obstacles(tx, network, servers)] if is_used else []
    found += [*_left_alone(tx, servers, subnet.id)]
    addresses = share_server_remove_subnet.addresses_of(tx, ids, subnet.id)
    users = share_server_remove_subnet.users_of(tx, ids, addresses)
    to = _elsewhere(tx, users, ids, addresses)
    stranded = [row for row in users if row.id not in to]
    uses = [
        f"attachment {row.id} on server {row.server_id} reaches share {row.share_id} nowhere else" for row in stranded
    ]
    moves = [Move(row, to[row.id]) for row in users if row.id in to]
    return Removal(network, subnet, servers, found, [*uses, *_clients(tx, ids, subnet)], moves)


def _left_alone(tx: Tx, servers: Sequence[ShareServer], subnet_id: str) -> Iterator[Obstacle]:
    has = allocations.of_servers(tx, [server.id for server in servers])
    on_others = {one.share_server_id for one in has if one.share_network_subnet_id != subnet_id}
    for server in servers:
        if server.id not in on_others:
            yield Obstacle(f"share server {server.id} has no other subnet", server.id)


def _elsewhere(
    tx: Tx, users: Sequence[Attachment], server_ids: Sequence[str], addresses: frozenset[str]
) -> Mapping[str, str]:
    """By attachment where it would be mounted from without these addresses; nothing of those that reach nothing."""
    cidrs = {one.ip_address: one.cidr for one in allocations.of_servers(tx, server_ids)}
    mounted = export_locations.mounted_of(tx, {row.share_id for row in users})
    found = {}
    for row in users:
        left = [one.path for one in mounted.get(row.share_id, ()) if address_of(one.path) not in addresses]
        to = sources.choose(left, cidrs, row.addresses, None)
        if to is not None and sources.version_of(to) in sources.versions_of(row.addresses):
            found[row.id] = to
    return found


def _clients(tx: Tx, server_ids: Sequence[str], subnet: Subnet) -> list[str]:
    if subnet.cidr is None:
        return []
    network = ipaddress.ip_network(subnet.cidr, strict=False)
    return [
        f"access rule {rule.id} of share {rule.share_id} lets in {rule.access_to}, which may mount from there"
        for rule in access_rules.of_users_on(tx, server_ids)
        if _is_within(rule.access_to, network)
    ]


def _is_within(client: str, network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    its = ipaddress.ip_network(client, strict=False)
    return its.version == network.version and its.overlaps(network)


def start(tx: Tx, removal: Removal, by: Requester | None, *, force: bool) -> None:
    """Begin it; where no share server is on the subnet it is gone. The network is locked.

    Raises `CannotChange`, and without `force` `SubnetUsed`.
    """
    for obstacle in removal.obstacles:
        raise CannotChange(id=removal.network.id, reason=obstacle.reason)
    if removal.uses and not force:
        more = f"; and {len(removal.uses) - 1} more" if len(removal.uses) > 1 else ""
        raise SubnetUsed(id=removal.subnet.id, reason=removal.uses[0] + more)
    if not removal.servers:
        share_network_subnets.delete(tx, removal.subnet.id)
        return
    share_network_checks.forget_all(tx, removal.network.id)
    share_networks.STATUS.move(tx, removal.network.id, "change")
    for server in removal.servers:
        share_server_remove_subnet.start(tx, server, removal.subnet, by, force=force)
