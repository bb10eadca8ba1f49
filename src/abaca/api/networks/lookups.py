# SPDX-License-Identifier: Apache-2.0
"""Finding the share network that a request is about, and showing what belongs to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from abaca import errors
from abaca.api import naming
from abaca.db.catalog import availability_zones
from abaca.db.engine.database import Tx
from abaca.db.networks import share_network_subnets, share_networks, share_servers
from abaca.domain.networks.share_networks import ShareNetwork
from abaca.http import paging
from abaca.http.bodies import Filters
from abaca.http.pipeline import Call

NETWORK = naming.Kind("Share network", share_networks.SHARE_NETWORKS)
A_SHARE_SERVER = naming.Kind("Share server", share_servers.SHARE_SERVERS, is_named=False)


def share_network_id_of(call: Call, tx: Tx, said: str) -> str:
    """The id of the share network that is meant, as `naming.id_of` says."""
    return naming.id_of(call, tx, NETWORK, said)


def share_network(call: Call, tx: Tx, network_id: str) -> ShareNetwork:
    """One that the caller may use by this route. Raises NotFound."""
    found = share_networks.show(tx, network_id)
    if found is None:
        raise errors.NotFound(resource="Share network", id=network_id)
    call.visible(found.project_id, "Share network", network_id)
    return found


def share_network_for_change(call: Call, tx: Tx, network_id: str) -> ShareNetwork:
    """The same, locked until the transaction ends."""
    share_networks.hold(tx, network_id)
    return share_network(call, tx, network_id)


def asks_for_nothing(call: Call, filters: type[Filters], *passed_over: str) -> bool:
    """Whether an administrator lists by what nothing is known of: there is nothing that has it."""
    known = {*filters.__annotations__, *paging.NAMES, *passed_over}
    return call.caller.is_admin and not known.issuperset(call.query)


def check_room(call: Call, tx: Tx, network_id: str) -> None:
    """Raises Invalid where a share network has as many subnets as one can have."""
    most = call.settings.limits.network_subnets
    if 0 <= most <= len(share_network_subnets.of_network(tx, network_id)):
        raise errors.Invalid(f"Share network {network_id} has {most} subnets, and can have at most {most}.")


def zone_meant(tx: Tx, name_or_id: str | None) -> str | None:
    """The name of the zone; raises Invalid for one that no service is in."""
    if name_or_id is None:
        return None
    name = availability_zones.find(tx, name_or_id)
    if name is None:
        raise errors.Invalid(f"There is no availability zone {name_or_id!r}.")
    return name


def rows(call: Call, found: Iterable[Mapping[str, object]]) -> list[list[object]]:
    """What was put together from several queries, as the route's list wants it."""
    return [[one[name] for name in call.columns] for one in found]
