# SPDX-License-Identifier: Apache-2.0
"""Add a subnet to a share network whose share servers serve: asked about before, exactly so, and then done by each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.administration import services
from abaca.db.journal import operations
from abaca.db.networks import share_network_checks, share_network_subnets, share_networks, share_servers
from abaca.networks.contract import told
from abaca.operations.networks import share_network_add_subnet, share_network_check
from abaca.operations.networks.share_network_check import Wanted

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.networks.share_networks import ShareNetwork, Subnet
    from abaca.domain.networks.share_servers import ShareServer
    from abaca.journal.requester import Requester


# So many checks of a share network are looked through for the reason of one.
CHECKS = 20


class Away(errors.Unavailable):
    """No worker serves {host} now, whose share servers have to be asked; start it, and try again."""


class CannotChange(errors.Invalid):
    """The subnets of share network {id} cannot change while it serves: {reason}"""


def servers_of(tx: Tx, network: ShareNetwork, zone: str | None) -> Sequence[ShareServer]:
    """The share servers that would get a subnet of that zone, whose network is locked.

    Raises `CannotChange` where one of them, or a share on the network, stands in the way.
    """
    found = would_get(tx, network, zone)
    if found:
        for obstacle in obstacles(tx, network, found):
            raise CannotChange(id=network.id, reason=obstacle.reason)
    return found


def would_get(tx: Tx, network: ShareNetwork, zone: str | None) -> Sequence[ShareServer]:
    """The share servers that would get a subnet of that zone, if nothing stood in the way."""
    its = [one.id for one in share_network_subnets.of_network(tx, network.id) if one.availability_zone == zone]
    return [one for one in share_servers.on_subnets(tx, its) if one.status not in ("deleting", "manage_error")]


class Obstacle(msgspec.Struct, frozen=True):
    """What stands in the way of a change of a share network, at which of its share servers; None: at no single one."""

    reason: str
    server_id: str | None = None


def obstacles(
    tx: Tx, network: ShareNetwork, found: Sequence[ShareServer], capability: str = "network_allocation_update_support"
) -> Iterator[Obstacle]:
    """What stands in the way of any change of these share servers that takes a capability, the whole network's first.

    By default that of their subnets.
    """
    if network.status != "active":
        yield Obstacle(f"it is {network.status}")
    for server in found:
        if not getattr(server, capability):
            yield Obstacle(f"share server {server.id} does not support it", server.id)
        if server.status != "active":
            yield Obstacle(f"share server {server.id} is {server.status}", server.id)
    busy = share_networks.unsettled_share(tx, network.id)
    if busy is not None:
        yield Obstacle(f"share {busy} is not available with all its access rules in force")


def ask(
    tx: Tx, network: ShareNetwork, wanted: Wanted, by: Requester | None, *, anew: bool, service_down_time_s: int
) -> Mapping[str, bool | None]:
    """By back end whether its servers could have that subnet; None: it is asked now. Raises `CannotChange`, `Away`."""
    servers = servers_of(tx, network, wanted.availability_zone)
    if anew:
        share_network_checks.forget(tx, network.id, wanted.subject)
    by_host: dict[str, list[str]] = defaultdict(list)
    for server in servers:
        by_host[server.host].append(server.id)
    known = share_network_checks.answers(tx, network.id, wanted.subject)
    unasked = [host for host in by_host if host not in known]
    refuse_away(tx, unasked, service_down_time_s)
    share_network_checks.begin(tx, network.id, wanted.subject, unasked)
    for host in unasked:
        args = share_network_check.Args(network.id, wanted, tuple(by_host[host]))
        share_network_check.start(tx, host, args, by)
    return {host: known.get(host) for host in by_host}


def verdict(answers: Mapping[str, bool | None]) -> bool | None:
    """Whether all could; None while one has not said."""
    if False in answers.values():
        return False
    return None if None in answers.values() else True


def approve(tx: Tx, network: ShareNetwork, wanted: Wanted) -> Sequence[ShareServer]:
    """The share servers that will get that subnet, about which all were asked. Raises `CannotChange`."""
    servers = servers_of(tx, network, wanted.availability_zone)
    known = share_network_checks.answers(tx, network.id, wanted.subject)
    answers = {server.host: known.get(server.host) for server in servers}
    if any(host not in known for host in answers):
        raise CannotChange(
            id=network.id,
            reason="no check operation was found for exactly this subnet; ask with share_network_subnet_create_check",
        )
    if (said := verdict(answers)) is not True:
        raise CannotChange(id=network.id, reason=_why_not(tx, network, wanted, is_pending=said is None))
    return servers


def _why_not(tx: Tx, network: ShareNetwork, wanted: Wanted, *, is_pending: bool) -> str:
    """Why the last check of that subnet says no, or nothing yet, as far as the journal remembers."""
    kind = share_network_check.OPERATION.kind
    for one in operations.find(tx, kind=kind, resource_id=network.id, limit=CHECKS):
        if one.args.get("wanted") != msgspec.to_builtins(wanted) or (one.state in operations.ENDED) is is_pending:
            continue
        for server_id, reason in msgspec.convert(one.data.get("refusals", {}), dict[str, str]).items():
            return f"the check says that share server {server_id} could not: {reason}"
        if one.error_text:
            what = "the check has not ended" if is_pending else "the check failed"
            return f"{what}: {told(one.error_code, one.error_text)}"
    return "the check has not ended; try again" if is_pending else "the check says that a server could not"


def refuse_away(tx: Tx, hosts: Collection[str], service_down_time_s: int) -> None:
    """Raises `Away` for one of these back ends that no worker serves now."""
    for host in away(tx, hosts, service_down_time_s):
        raise Away(host=host)


def away(tx: Tx, hosts: Collection[str], service_down_time_s: int) -> list[str]:
    """Those of these back ends that no worker serves now."""
    alive_since = services.alive_since(tx, service_down_time_s)
    up = {one.host for one in services.of_back_ends(tx) if one.state(alive_since) == "up"} if hosts else set()
    return sorted(set(hosts) - up)


def begin(tx: Tx, network: ShareNetwork, subnet: Subnet, servers: Sequence[ShareServer], by: Requester | None) -> None:
    """Give these the subnet; nothing where there are none."""
    if not servers:
        return
    share_network_checks.forget_all(tx, network.id)
    share_networks.STATUS.move(tx, network.id, "change")
    share_network_add_subnet.start(tx, servers, subnet, by)
