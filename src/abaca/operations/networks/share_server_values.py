# SPDX-License-Identifier: Apache-2.0
"""A share server and its networks as drivers are told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.journal import keys, waits
from abaca.db.networks import allocations, security_services, share_network_subnets, share_servers
from abaca.drivers import contract
from abaca.journal.queueing import Target

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.networks.allocations import Allocation, Network
    from abaca.domain.networks.security_services import SecurityService
    from abaca.domain.networks.share_networks import Subnet
    from abaca.domain.networks.share_servers import ShareServer
    from abaca.journal.op import Op
    from abaca.operations.parts import ServerHost

# What operations on share servers are about.
RESOURCE = "share-server"


def target_of(host: str, server_id: str) -> Target:
    """Where the work on a share server of that back end is queued, and what it holds."""
    return Target(queue=host, keys=[keys.key(share_servers.KEY, server_id)], resource_id=server_id)


def may_serve_still(op: Op[ServerHost]) -> bool:
    """Whether the back end could not take back what it was told: then nobody else may have the addresses.

    They go with the server, or serve when that is mended. Whoever takes it back records `is_back` before and after.
    """
    return op.data.get("is_back") is False


def settle(tx: Tx, server_id: str) -> None:
    """It came, or will not: who waits for it looks. They may be gone, so that it is unused is counted from now."""
    share_servers.note_use(tx, server_id)
    waits.signal(tx, share_servers.settled_condition(server_id))


def contract_server(server: ShareServer, op: Op[ServerHost] | None = None) -> contract.ShareServer:
    """The value for a share server that was set up; for a change by `op`: what was begun before comes too late."""
    return contract.ShareServer(id=server.id, details=server.details, generation=op.generation if op else None)


def setup_of(
    tx: Tx, server: ShareServer, op: Op[ServerHost], subnet_ids: Sequence[str] | None = None
) -> contract.ServerSetup:
    """All that it is made of, with the addresses that it has by now, on its own subnets or on these of its network.

    Raises `NotFound` where its network is gone.
    """
    if server.share_network_id is None:
        raise errors.NotFound(resource="Share network", id=f"of share server {server.id}")
    return contract.ServerSetup(
        id=server.id,
        share_network_id=server.share_network_id,
        subnets=subnets_of(tx, server, subnet_ids),
        security_services=[contract_service(one) for one in security_services.of_network(tx, server.share_network_id)],
        encryption_key_ref=server.encryption_key_ref,
        generation=op.generation,
    )


def subnets_of(tx: Tx, server: ShareServer, subnet_ids: Sequence[str] | None = None) -> list[contract.Subnet]:
    """The subnets by which it is reached, or these of its network, oldest first, with its addresses there."""
    has = allocations.of_server(tx, server.id)
    its = share_servers.subnets(tx, server.id)
    if subnet_ids is not None and server.share_network_id is not None:
        of_network = share_network_subnets.of_network(tx, server.share_network_id)
        its = [one for one in of_network if one.id in subnet_ids]
    return [contract_subnet(one, [each for each in has if each.share_network_subnet_id == one.id]) for one in its]


def subnets_of_many(tx: Tx, servers: Sequence[ShareServer]) -> Mapping[str, list[contract.Subnet]]:
    """The same of several servers, by server."""
    ids = [one.id for one in servers]
    has, on = allocations.whole_of_servers(tx, ids), share_servers.subnets_of(tx, ids)
    of_networks = share_network_subnets.of_networks(tx, sorted({one.share_network_id or "" for one in servers}))
    return {
        one.id: [
            contract_subnet(subnet, [each for each in has[one.id] if each.share_network_subnet_id == subnet.id])
            for subnet in of_networks.get(one.share_network_id or "", [])
            if subnet.id in on[one.id]
        ]
        for one in servers
    }


def facts_of(network: Network) -> dict[str, object]:
    """What a subnet shows of what is beneath it."""
    return {name: value for name, value in msgspec.structs.asdict(network).items() if name != "key"}


def new_subnet_of(tx: Tx, server: ShareServer, subnet: Subnet, network: Network) -> contract.Subnet:
    """The value for a subnet that a server is about to be on, with its addresses there."""
    return new_subnet_of_many(tx, [server], subnet, network)[server.id]


def new_subnet_of_many(
    tx: Tx, servers: Sequence[ShareServer], subnet: Subnet, network: Network
) -> Mapping[str, contract.Subnet]:
    """The same of several servers, by server."""
    has = allocations.whole_of_servers(tx, [one.id for one in servers])
    return {
        one.id: contract_subnet(
            subnet, [each for each in has[one.id] if each.share_network_subnet_id == subnet.id], network
        )
        for one in servers
    }


def contract_subnet(subnet: Subnet, has: Sequence[Allocation] = (), network: Network | None = None) -> contract.Subnet:
    """The value for a subnet, with a server's addresses on it; with `network`, if it does not show that yet."""
    if network is not None:
        subnet = msgspec.structs.replace(subnet, **facts_of(network))
    return contract.Subnet(
        id=subnet.id,
        cidr=subnet.cidr,
        gateway=subnet.gateway,
        mtu=subnet.mtu,
        network_type=subnet.network_type,
        segmentation_id=subnet.segmentation_id,
        neutron_net_id=subnet.neutron_net_id,
        neutron_subnet_id=subnet.neutron_subnet_id,
        allocations=[
            contract.Allocation(
                id=one.id,
                ip_address=one.ip_address,
                cidr=one.cidr,
                ip_version=one.ip_version,
                gateway=one.gateway,
                mac_address=one.mac_address,
            )
            for one in has
        ],
        metadata=subnet.metadata,
    )


def contract_service(one: SecurityService) -> contract.SecurityService:
    """The value for a directory."""
    return contract.SecurityService(
        id=one.id,
        type=one.type,
        dns_ip=one.dns_ip,
        server=one.server,
        domain=one.domain,
        user=one.user,
        password=one.password,
        ou=one.ou,
    )
