# SPDX-License-Identifier: Apache-2.0
"""The subnets of share networks that serve, by Abaca's own door: added in one step, taken away, or only looked at."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec

from abaca import errors
from abaca.api import naming
from abaca.api.networks.lookups import (
    check_room,
    rows,
    share_network,
    share_network_for_change,
    share_network_id_of,
    zone_meant,
)
from abaca.api.networks.share_network_subnets import CREATE, DELETE, subnet_of
from abaca.api.networks.share_networks import ALL_PROJECTS, LIST
from abaca.db.networks import share_network_subnets as subnets
from abaca.db.networks import share_networks as db
from abaca.db.networks import share_servers
from abaca.domain import ids, metadata
from abaca.domain.networks import share_networks as rules
from abaca.domain.networks.share_networks import SHARE_NETWORK, ShareNetwork, Subnet
from abaca.http import bodies
from abaca.http.bodies import Body, Filters, IdPrefix, Name, Object, Text, among
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.waiting import Later
from abaca.http.wire import COUNTED, Many, Plain, View
from abaca.journal.questions import all_of
from abaca.operations.networks import share_network_change, share_network_look, share_network_removal
from abaca.operations.networks.share_network_change import CannotChange, Obstacle
from abaca.operations.networks.share_network_check import Args, Wanted

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.networks.share_servers import ShareServer

RESOURCE = Resource("subnets of share networks that serve", "/share-networks")

# A back end that does not say so soon is away.
ANSWER_S = 50.0


class OwnSubnetView(View):
    """A subnet; what is beneath it is known when a share server is on it."""

    id: str
    availability_zone: str | None
    neutron_net_id: str | None
    neutron_subnet_id: str | None
    ip_version: int | None
    cidr: str | None
    gateway: str | None
    mtu: int | None
    metadata: dict[str, str]
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


class OwnNetworkView(View):
    """A share network with its subnets, and the ids of its share servers that do not serve as they shall."""

    id: str
    name: str | None
    description: str | None
    project_id: str
    status: str
    network_allocation_update_support: bool
    share_network_subnets: list[OwnSubnetView]
    share_servers_in_error: list[str]
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


class OwnNetworkFilters(Filters, unknown="refuse"):
    """What share networks can be listed by."""

    id_prefix: IdPrefix
    name: Text
    status: Annotated[str, among(SHARE_NETWORK.values)]
    project_id: Text


class PlannedServerView(View):
    """A share server that would change; `refusal` says why it would not."""

    id: str
    status: str
    refusal: str | None


class PlannedMoveView(View):
    """An attachment that would be mounted from elsewhere."""

    attachment_id: str
    server_id: str
    share_id: str
    export_location: str | None
    to: str


class PlanView(View):
    """What a change would do: `is_possible` when nothing stands in its way, neither here nor at a share server.

    `refusals` is what does, beside those of the share servers; `uses` is who uses the subnet, which only force passes.
    """

    is_possible: bool
    refusals: list[str]
    uses: list[str]
    share_servers: list[PlannedServerView]
    attachments: list[PlannedMoveView]


class AddSubnet(Body, key="subnet", unknown="refuse"):
    """Another subnet. Without a zone it is for all zones that have none of their own."""

    neutron_net_id: Name | None = None
    neutron_subnet_id: Name | None = None
    availability_zone: Name | None = None
    metadata: Object | None = None


@RESOURCE.get(
    policy=LIST,
    view=Many("share_networks", OwnNetworkView, links="share_networks_links", counted=COUNTED),
    filters=OwnNetworkFilters,
)
def index(call: Call, filters: dict[str, object]) -> Listed:
    """Share networks with their subnets, the newest first."""
    asked = {**filters, **call.project_filter(ALL_PROJECTS)}
    with call.db.read() as tx:
        found = db.SHARE_NETWORKS.entities(tx, ShareNetwork, asked, call.page)
        ids = [network.id for network in found]
        its, supports = subnets.of_networks(tx, ids), share_servers.supports(tx, ids)
        failed = share_servers.in_error(tx, ids)
        count = call.count(lambda most: db.SHARE_NETWORKS.count(tx, asked, most))
    shown = (
        {**_shown(one, its.get(one.id, []), supports.get(one.id)), "share_servers_in_error": failed.get(one.id, [])}
        for one in found
    )
    return Listed(rows(call, shown), count)


@RESOURCE.post("/{id}/subnets", policy=CREATE, view=Plain("subnet", OwnSubnetView), body=AddSubnet, status=202)
def add(call: Call, id: str, body: AddSubnet) -> Later:
    """Ask all share servers of the network that would get the subnet, and give it to them if all of them could.

    The network is `network_change` until all of them serve there.
    """
    pairs = metadata.check(body.metadata or {})
    limits = call.settings.limits
    metadata.check_size(pairs, most_items=limits.metadata_items, most_characters=limits.metadata_characters)
    with call.db.write() as tx:
        id = share_network_id_of(call, tx, id)
        network = share_network_for_change(call, tx, id)
        wanted = _wanted(tx, body)
        check_room(call, tx, id)
        servers = share_network_change.servers_of(tx, network, wanted.availability_zone)
    return _ask(call, id, wanted, servers, partial(_add, call, id, wanted, pairs, [one.id for one in servers]))


def _add(
    call: Call, id: str, wanted: Wanted, pairs: Mapping[str, str], asked: Sequence[str], refusals: Mapping[str, str]
) -> dict[str, object]:
    """All have answered; meanwhile anything may have happened."""
    with call.db.write() as tx:
        network = share_network_for_change(call, tx, id)
        servers = share_network_change.servers_of(tx, network, wanted.availability_zone)
        for server_id, reason in refusals.items():
            raise CannotChange(id=id, reason=f"share server {server_id}: {reason}")
        if not {one.id for one in servers} <= set(asked):
            raise errors.Conflict(f"Share network {id} has got another share server just now; repeat this.")
        check_room(call, tx, id)
        subnet_id = subnets.add(tx, id, {**msgspec.structs.asdict(wanted), "metadata": pairs})
        _, subnet = subnet_of(call, tx, id, subnet_id)
        share_network_change.begin(tx, network, subnet, servers, call.caller)
        return msgspec.structs.asdict(subnet)


@RESOURCE.post("/{id}/subnets/plan", policy=CREATE, view=Plain("plan", PlanView), body=AddSubnet)
def plan_to_add(call: Call, id: str, body: AddSubnet) -> Later:
    """Which share servers would get that subnet, and why one could not. Changes nothing."""
    with call.db.read() as tx:
        id = share_network_id_of(call, tx, id)
        network = share_network(call, tx, id)
        wanted = _wanted(tx, body)
        check_room(call, tx, id)
        servers = share_network_change.would_get(tx, network, wanted.availability_zone)
        obstacles = [*share_network_change.obstacles(tx, network, servers)] if servers else []
    return _ask(call, id, wanted, servers, partial(_planned, servers, obstacles))


@RESOURCE.get("/{id}/subnets/{subnet_id}/removal-plan", policy=DELETE, view=Plain("plan", PlanView))
def plan_to_remove(call: Call, id: str, subnet_id: str) -> dict[str, object]:
    """Which share servers would leave that subnet, what would move, and what stands in the way. Changes nothing."""
    with call.db.read() as tx:
        removal = share_network_removal.look(tx, *_subnet_of(call, tx, id, subnet_id))
    moves = [
        {
            "attachment_id": move.attachment.id,
            "server_id": move.attachment.server_id,
            "share_id": move.attachment.share_id,
            "export_location": move.attachment.source,
            "to": move.to,
        }
        for move in removal.moves
    ]
    return _planned(removal.servers, removal.obstacles, {}, removal.uses, moves)


@RESOURCE.delete("/{id}/subnets/{subnet_id}", policy=DELETE, status=202)
def remove(call: Call, id: str, subnet_id: str) -> None:
    """Take a subnet away, also from share servers that serve: attachments move to others first.

    It is refused while anybody uses the subnet. With `?force=true` it goes all the same: files that are open there are
    lost.
    """
    force = bodies.flag("force", call.query.get("force", "false"))
    with call.db.write() as tx:
        id = share_network_id_of(call, tx, id)
        share_network_for_change(call, tx, id)
        removal = share_network_removal.look(tx, *_subnet_of(call, tx, id, subnet_id))
        share_network_removal.start(tx, removal, call.caller, force=force)


def _subnet_of(call: Call, tx: Tx, said: str, subnet: str) -> tuple[ShareNetwork, Subnet]:
    """The network and the subnet that are meant, by its name, or the beginnings of ids. Raises NotFound."""
    network_id = share_network_id_of(call, tx, said)
    beginning = ids.beginning(subnet)
    known = (one.id for one in subnets.of_network(tx, network_id))
    begun = [one for one in known if beginning is not None and one.startswith(beginning)]
    return subnet_of(call, tx, network_id, naming.the_one("Subnet", subnet, begun) if begun else subnet)


def _wanted(tx: Tx, body: AddSubnet) -> Wanted:
    rules.check_neutron_ids(body.neutron_net_id, body.neutron_subnet_id)
    return Wanted(zone_meant(tx, body.availability_zone), body.neutron_net_id or None, body.neutron_subnet_id or None)


def _away(call: Call, tx: Tx, servers: Iterable[ShareServer]) -> Mapping[str, str]:
    """By share server whose back end no worker serves now that it cannot be asked."""
    down = share_network_change.away(tx, {one.host for one in servers}, call.settings.service_down_time)
    return {one.id: f"no worker serves {one.host} now" for one in servers if one.host in down}


def _ask(
    call: Call, id: str, wanted: Wanted, servers: Iterable[ShareServer], show: Callable[[Mapping[str, str]], object]
) -> Later:
    """What `show` makes of why share servers could not have that subnet; their back ends are asked side by side."""
    with call.db.read() as tx:
        away = _away(call, tx, servers)
    by_host: dict[str, list[str]] = {}
    for server in servers:
        if server.id not in away:
            by_host.setdefault(server.host, []).append(server.id)
    asked = [
        call.parts.extras["questions"].ask(
            share_network_look.OPERATION, Args(id, wanted, tuple(ids)), host, call.caller
        )
        for host, ids in by_host.items()
    ]

    def refusals(answers: Sequence[object]) -> object:
        said = dict(away)
        for answer in answers:
            said |= msgspec.convert(answer, dict[str, str])
        return show(said)

    return Later(all_of(asked), ANSWER_S, refusals)


def _planned(
    servers: Iterable[ShareServer],
    obstacles: Iterable[Obstacle],
    refused: Mapping[str, str],
    uses: Sequence[str] = (),
    moves: Sequence[Mapping[str, object]] = (),
) -> dict[str, object]:
    refusals = {**refused, **{one.server_id: one.reason for one in obstacles if one.server_id is not None}}
    of_all = [one.reason for one in obstacles if one.server_id is None]
    planned = [{"id": one.id, "status": one.status, "refusal": refusals.get(one.id)} for one in servers]
    return {
        "is_possible": not refusals and not of_all,
        "refusals": of_all,
        "uses": list(uses),
        "share_servers": planned,
        "attachments": list(moves),
    }


def _shown(network: ShareNetwork, its: Sequence[Subnet], supports: share_servers.Supports | None) -> dict[str, object]:
    return {
        **msgspec.structs.asdict(network),
        "network_allocation_update_support": supports is None or supports.network_allocations == 1,
        "share_network_subnets": [msgspec.structs.asdict(subnet) for subnet in its],
    }
