# SPDX-License-Identifier: Apache-2.0
"""Addresses that a share server takes on a subnet more; never of two networks that have some in common."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from abaca import errors
from abaca.db.networks import allocations
from abaca.domain.networks.allocations import Network, other_with_same_addresses

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.networks.share_networks import Subnet
    from abaca.journal.op import Op
    from abaca.operations.parts import ServerHost


class SameAddresses(errors.AbacaError):
    """Subnet {id} is of no use there: {reason}"""

    code = "SameAddresses"


def take(op: Op[ServerHost], server_id: str, subnet: Subnet, network: Network) -> None:
    """As many as its driver wants; those that it has there count. Raises `SameAddresses`, and what the plug-in does."""
    with op.db.read() as tx:
        for reason in refusals(tx, [server_id], subnet.id, network).values():
            raise SameAddresses(id=subnet.id, reason=reason)
    op.parts.network.allocate(server_id, subnet, network, op.parts.servers.allocations_per_subnet, op.guard)


def refusals(tx: Tx, server_ids: Collection[str], subnet_id: str, network: Network) -> Mapping[str, str]:
    """By share server why it can have none in that network; nothing of those that can, or have some there."""
    has: dict[str, list[allocations.Held]] = defaultdict(list)
    for one in allocations.of_servers(tx, server_ids):
        has[one.share_server_id].append(one)
    found = {}
    for server_id, its in has.items():
        if any(one.share_network_subnet_id == subnet_id for one in its):
            continue
        other = other_with_same_addresses(network, ((one.network, one.cidr) for one in its))
        if other is not None:
            found[server_id] = (
                f"{network.cidr} has addresses of {other}, which is another network that the share server is on; "
                "have a share network for each"
            )
    return found
