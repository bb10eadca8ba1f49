# SPDX-License-Identifier: Apache-2.0
"""Which share server a new share is on: one that there is, by the driver's choice, or one that is made for it.

It is settled under the lock of the share network: of two shares that come at the same moment the second finds what the
first has asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from abaca import errors
from abaca.db.journal import operations
from abaca.db.networks import share_network_subnets, share_networks, share_servers
from abaca.db.shares import share_instances
from abaca.domain.administration.messages import Detail
from abaca.domain.networks.share_servers import usable
from abaca.drivers import contract
from abaca.journal.interruptions import Wait
from abaca.networks.contract import told
from abaca.operations.networks import share_server_create
from abaca.operations.networks import share_server_values as values

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.networks.share_networks import Subnet
    from abaca.domain.networks.share_servers import ShareServer
    from abaca.journal.op import Op
    from abaca.operations.parts import BackEnd


class NoShareServer(errors.AbacaError):
    """No share server could be had: {reason}"""

    code = "NoShareServer"


class SubnetFull(NoShareServer):
    """No share server could be had: {reason}"""

    code = "SubnetFull"


class NoSubnet(NoShareServer):
    """Share network {id} has no subnet for availability zone {zone} any more."""

    code = "NoSubnet"


# What users are told, by the code of the error that an operation ended with.
DETAILS = {
    NoShareServer.code: Detail.NO_SHARE_SERVER,
    NoSubnet.code: Detail.NO_SHARE_SERVER,
    SubnetFull.code: Detail.SUBNET_FULL,
}


def server_for(op: Op[BackEnd], instance: contract.ShareInstance, network_id: str) -> contract.ShareServer:
    """The share server that it is on from now on, once that serves. Raises `Wait` before, and `NoShareServer`."""
    server = None
    while server is None:
        server = _settle(op, instance, network_id)
    if server.status in ("creating", "network_change"):
        raise Wait(f"share server {server.id} to serve", conditions=[share_servers.settled_condition(server.id)])
    if server.status != "active":
        with op.db.read() as tx:
            raise _why_not(tx, server)
    return values.contract_server(server)


def _settle(op: Op[BackEnd], instance: contract.ShareInstance, network_id: str) -> ShareServer | None:
    """The server that it was put on, now or before; None where others came or went meanwhile."""
    with op.db.read() as tx:
        there, found = _candidates(tx, op, instance, network_id)
    chosen = None
    if there is None and found and isinstance(op.parts.driver, contract.RunsServers):
        chosen = op.parts.driver.choose_server([values.contract_server(one) for one in found], instance)
    with op.write() as tx:
        share_networks.hold(tx, network_id)
        there, still = _candidates(tx, op, instance, network_id)
        if there is not None:
            return there
        if [one.id for one in still] != [one.id for one in found]:
            return None
        server_id = chosen.id if chosen is not None else _make(tx, op, network_id, server_key(instance))
        share_servers.put_on(tx, server_id, instance.id)
        return share_servers.show(tx, server_id)


def _candidates(
    tx: Tx, op: Op[BackEnd], instance: contract.ShareInstance, network_id: str
) -> tuple[ShareServer | None, list[ShareServer]]:
    """The server that it is on already, or those on the right subnets that have room for it, oldest first."""
    row = share_instances.whole(tx, instance.id)
    if row is not None and row.share_server_id is not None:
        return share_servers.show(tx, row.share_server_id), []
    wanted = sorted(subnet.id for subnet in _subnets(tx, op, network_id))
    key_ref = server_key(instance)
    found = [
        one
        for one in share_servers.on_network(tx, network_id, op.parts.backend.host)
        if one.status in ("active", "creating", "network_change") and one.encryption_key_ref == key_ref
    ]
    ids = [one.id for one in found]
    its, loads = share_servers.subnets_of(tx, ids), share_servers.loads(tx, ids)
    limits = op.parts.backend.server_limits
    return None, [
        one
        for one in found
        if sorted(its.get(one.id, [])) == wanted and limits.leave_room(loads[one.id], instance.size_gib)
    ]


def _subnets(tx: Tx, op: Op[BackEnd], network_id: str) -> list[Subnet]:
    return usable(share_network_subnets.of_network(tx, network_id), op.parts.backend.availability_zone)


def server_key(instance: contract.ShareInstance) -> str | None:
    """The key that everything on its share server is encrypted with; where each share has its own, the server has none.

    By the extra spec `encryption_support` of its type.
    """
    return instance.encryption_key_ref if instance.extra_specs.get("encryption_support") == "share_server" else None


def _make(tx: Tx, op: Op[BackEnd], network_id: str, key_ref: str | None) -> str:
    network = share_networks.show(tx, network_id)
    subnets = _subnets(tx, op, network_id)
    if network is None or not subnets:
        raise NoSubnet(id=network_id, zone=op.parts.backend.availability_zone)
    made_for = share_server_create.MadeFor(network.id, network.project_id, key_ref)
    return share_server_create.start(tx, op.parts.driver, made_for, subnets, op)


def _why_not(tx: Tx, server: ShareServer) -> NoShareServer:
    """Why a share server does not serve, by the end of the operation that should have made it."""
    ended = operations.find(tx, kind=share_server_create.OPERATION.kind, resource_id=server.id, limit=1)
    if ended and ended[0].error_text:
        kind = SubnetFull if ended[0].error_code == "NoAddress" else NoShareServer
        return kind(reason=told(ended[0].error_code, ended[0].error_text))
    return NoShareServer(reason=f"share server {server.id} is {server.status}")
