# SPDX-License-Identifier: Apache-2.0
"""Give a share network a directory while its share servers serve: asked about before, exactly so, then done by each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.networks import share_network_checks, share_networks, share_servers
from abaca.domain.networks.security_services import SecurityService
from abaca.operations.networks import security_service_check, share_network_change, share_server_join

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.networks.share_networks import ShareNetwork
    from abaca.domain.networks.share_servers import ShareServer
    from abaca.journal.requester import Requester


class CannotJoin(errors.Invalid):
    """The security services of share network {id} cannot change while it serves: {reason}"""


class WillNotJoin(errors.Conflict):
    """A back end says that its share servers of share network {id} could not have security service {service}."""


class Wanted(msgspec.Struct, frozen=True):
    """A security service that comes, in the place of one that goes."""

    new: SecurityService
    current: SecurityService | None = None

    @property
    def subject(self) -> str:
        """What answers about it are kept under."""
        return security_service_check.subject_of(self.new, self.current)


def servers_of(tx: Tx, network: ShareNetwork) -> Sequence[ShareServer]:
    """The share servers that would join, whose network is locked. Raises `CannotJoin` where one could not now."""
    found = [one for one in share_servers.on_network(tx, network.id) if one.status != "deleting"]
    for obstacle in share_network_change.obstacles(tx, network, found, "security_service_update_support"):
        if found:
            raise CannotJoin(id=network.id, reason=obstacle.reason)
    return found


def ask(
    tx: Tx, network: ShareNetwork, wanted: Wanted, by: Requester | None, *, anew: bool, service_down_time_s: int
) -> Mapping[str, bool | None]:
    """By back end whether its servers could join that; None: it is asked now. Raises `CannotJoin`, `Away`."""
    servers = servers_of(tx, network)
    if anew:
        share_network_checks.forget(tx, network.id, wanted.subject)
    by_host: dict[str, list[str]] = defaultdict(list)
    for server in servers:
        by_host[server.host].append(server.id)
    known = share_network_checks.answers(tx, network.id, wanted.subject)
    unasked = [host for host in by_host if host not in known]
    share_network_change.refuse_away(tx, unasked, service_down_time_s)
    share_network_checks.begin(tx, network.id, wanted.subject, unasked)
    current_id = None if wanted.current is None else wanted.current.id
    for host in unasked:
        args = security_service_check.Args(network.id, tuple(by_host[host]), wanted.subject, wanted.new.id, current_id)
        security_service_check.start(tx, host, args, by)
    return {host: known.get(host) for host in by_host}


def approve(tx: Tx, network: ShareNetwork, wanted: Wanted) -> Sequence[ShareServer]:
    """The share servers that will join that, about which all were asked. Raises `CannotJoin`, `WillNotJoin`."""
    servers = servers_of(tx, network)
    known = share_network_checks.answers(tx, network.id, wanted.subject)
    answers = {server.host: known.get(server.host) for server in servers}
    if any(host not in known for host in answers):
        asked = "add_security_service_check" if wanted.current is None else "update_security_service_check"
        raise CannotJoin(
            id=network.id,
            reason=f"no check operation was found for exactly this security service as it is now; ask with {asked}",
        )
    said = share_network_change.verdict(answers)
    if said is None:
        raise CannotJoin(id=network.id, reason="the check has not ended; try again")
    if said is False:
        raise WillNotJoin(id=network.id, service=wanted.new.id)
    return servers


def begin(tx: Tx, network: ShareNetwork, wanted: Wanted, servers: Sequence[ShareServer], by: Requester | None) -> None:
    """Have these join; nothing where there are none."""
    if not servers:
        return
    share_network_checks.forget_all(tx, network.id)
    share_networks.STATUS.move(tx, network.id, "change")
    current_id = None if wanted.current is None else wanted.current.id
    for server in servers:
        args = share_server_join.Args(server.id, network.id, wanted.new.id, current_id)
        share_server_join.start(tx, server, args, by)
