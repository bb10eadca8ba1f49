# SPDX-License-Identifier: Apache-2.0
"""Share networks: where a project's share servers shall be reached, and which directories they join."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import Annotated

from msgspec import structs

from abaca import errors
from abaca.api.networks.lookups import check_room, rows, share_network, share_network_for_change, zone_meant
from abaca.db.catalog import quotas
from abaca.db.engine.database import Tx
from abaca.db.networks import share_network_subnets as subnets
from abaca.db.networks import share_networks as db
from abaca.db.networks import share_servers
from abaca.domain.networks import share_networks as rules
from abaca.domain.networks.share_networks import ShareNetwork, Subnet
from abaca.http.bodies import UNSET, Body, Filters, Flag, Name, Text, UnsetType, Whole
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Computed, Many, Named, One, Plain, Since, Until, View
from abaca.operations.networks import share_network_change, share_server_delete
from abaca.operations.networks.share_network_check import Wanted
from abaca.policy import admin, member, reader

LIST = reader("share_network:index", "List share networks.")
DETAIL = reader("share_network:detail", "List share networks with all their fields.")
SHOW = reader("share_network:show", "See a share network.")
ALL_PROJECTS = admin("share_network:get_all_share_networks", "List the share networks of all projects.")
SHOW_DETAILS = admin("share_network:show_network_details", "See the type and the segment of the networks beneath.")
CREATE = member("share_network:create", "Create a share network.")
UPDATE = member("share_network:update", "Change a share network.")
DELETE = member("share_network:delete", "Delete a share network.")
CHECK_SUBNET = member("share_network:subnet_create_check", "Ask whether a share network can have another subnet.")
RESET = admin("share_network:reset_status", "Set a share network's status by hand.")

RESOURCE = Resource("share networks", "/share-networks", rules=(ALL_PROJECTS, SHOW_DETAILS))


def hidden(name: str) -> Computed:
    """What of a subnet only operators see."""
    return Computed(lambda call, value: value if call.allows(SHOW_DETAILS) else None, needs=(name,))


class SubnetInNetwork(View):
    """A subnet in its share network."""

    id: str
    availability_zone: str | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
    segmentation_id: Annotated[int | None, hidden("segmentation_id")]
    neutron_net_id: str | None
    neutron_subnet_id: str | None
    ip_version: int | None
    cidr: str | None
    network_type: Annotated[str | None, hidden("network_type")]
    mtu: int | None
    gateway: str | None
    metadata: Annotated[dict[str, str], Since("2.78")]


class ShareNetworkListed(View):
    """A share network in the short list."""

    id: str
    name: str | None


class ShareNetworkView(ShareNetworkListed):
    """One share network, as the versions before 2.51 knew it with its only subnet in it."""

    project_id: str
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
    description: str | None
    neutron_net_id: Annotated[str | None, Until("2.50")]
    neutron_subnet_id: Annotated[str | None, Until("2.50")]
    network_type: Annotated[str | None, Until("2.50"), hidden("network_type")]
    segmentation_id: Annotated[int | None, Until("2.50"), hidden("segmentation_id")]
    cidr: Annotated[str | None, Until("2.50")]
    ip_version: Annotated[int | None, Until("2.50")]
    gateway: Annotated[str | None, Since("2.18"), Until("2.50")]
    mtu: Annotated[int | None, Since("2.20"), Until("2.50")]
    nova_net_id: Annotated[None, Until("2.25"), Computed(lambda _call: None)]
    share_network_subnets: Annotated[list[SubnetInNetwork], Since("2.51")]
    status: Annotated[str, Since("2.63")]
    security_service_update_support: Annotated[bool, Since("2.63")]
    network_allocation_update_support: Annotated[bool, Since("2.70")]


class CreateShareNetwork(Body, key="share_network", missing=422):
    """A share network and its first subnet."""

    name: Name | None = None
    description: Name | None = None
    neutron_net_id: Name | None = None
    neutron_subnet_id: Name | None = None
    nova_net_id: Text | None = None
    availability_zone: Annotated[Name | None, Since("2.51", refuse=True)] = None


class UpdateShareNetwork(Body, key="share_network", missing=422):
    """Its words, and the Neutron ids of its only default subnet."""

    name: Name | UnsetType | None = UNSET
    description: Name | UnsetType | None = UNSET
    neutron_net_id: Name | UnsetType = UNSET
    neutron_subnet_id: Name | UnsetType = UNSET
    nova_net_id: Text | UnsetType = UNSET


class ShareNetworkFilters(Filters):
    """What share networks can be listed by."""

    name: Text
    description: Text
    name_like: Annotated[Text, Since("2.36"), Named("name~")]
    description_like: Annotated[Text, Since("2.36"), Named("description~")]
    created_since: Text
    created_before: Text
    project_id: Text
    security_service_id: Text
    neutron_net_id: Text
    neutron_subnet_id: Text
    network_type: Text
    segmentation_id: Whole
    cidr: Text
    ip_version: Whole


class CheckSubnet(Body):
    """The subnet that somebody would like to create."""

    neutron_net_id: Name | None = None
    neutron_subnet_id: Name | None = None
    availability_zone: Name | None = None
    reset_operation: Flag | None = False


class ResetStatus(Body):
    """The status to set."""

    status: Text


ONE = One("share_network", ShareNetworkView)


@RESOURCE.get("/detail", policy=DETAIL, view=Many("share_networks", ShareNetworkView), filters=ShareNetworkFilters)
def index_detailed(call: Call, filters: dict[str, object]) -> Listed:
    """Share networks with their subnets."""
    asked = _asked(call, filters)
    with call.db.read() as tx:
        networks = db.SHARE_NETWORKS.entities(tx, ShareNetwork, asked, call.page)
        ids = [network.id for network in networks]
        its, supports = subnets.of_networks(tx, ids), share_servers.supports(tx, ids)
    shown = (_shown(one, its.get(one.id, []), supports.get(one.id)) for one in networks)
    return Listed(rows(call, shown))


@RESOURCE.get(policy=LIST, view=Many("share_networks", ShareNetworkListed), filters=ShareNetworkFilters)
def index(call: Call, filters: dict[str, object]) -> Listed:
    """Share networks by id and name."""
    asked = _asked(call, filters)
    with call.db.read() as tx:
        return Listed(db.SHARE_NETWORKS.rows(tx, call.columns, asked, call.page))


def _asked(call: Call, filters: dict[str, object]) -> dict[str, object]:
    asked = {**filters, **call.project_filter(ALL_PROJECTS)}
    if "project_id" in filters and call.allows(ALL_PROJECTS):
        # who may see all sees a project's by naming it
        asked["project_id"] = filters["project_id"]
    for name in ("created_since", "created_before"):
        if name in asked:
            asked[name] = _day(str(asked[name]))
    return asked


def _day(said: str) -> datetime.datetime:
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", said, re.ASCII):
            return datetime.datetime.fromisoformat(said)
    except ValueError:
        pass
    raise errors.Invalid(f"{said!r} is no day: write it as 2026-08-21.")


@RESOURCE.get("/{id}", policy=SHOW, view=ONE)
def show(call: Call, id: str) -> dict[str, object]:
    """One share network."""
    with call.db.read() as tx:
        return found(call, tx, id)


@RESOURCE.post(policy=CREATE, body=CreateShareNetwork, view=ONE)
def create(call: Call, body: CreateShareNetwork) -> dict[str, object]:
    """Make a share network with one subnet; nothing is set up until a share needs it."""
    _refuse_nova(body.nova_net_id)
    rules.check_neutron_ids(body.neutron_net_id, body.neutron_subnet_id)
    caller = call.caller
    with call.db.write() as tx:
        zone = zone_meant(tx, body.availability_zone)
        words = {"name": body.name, "description": body.description}
        network_id = db.add(tx, {**words, "project_id": caller.project_id, "user_id": caller.user_id})
        subnets.add(
            tx,
            network_id,
            {
                "availability_zone": zone,
                "neutron_net_id": body.neutron_net_id or None,
                "neutron_subnet_id": body.neutron_subnet_id or None,
            },
        )
        quotas.take(tx, caller.project_id, caller.user_id, None, {"share_networks": 1}, call.settings.quota.limits)
        return found(call, tx, network_id)


@RESOURCE.put("/{id}", policy=UPDATE, body=UpdateShareNetwork, view=ONE)
def update(call: Call, id: str, body: UpdateShareNetwork) -> dict[str, object]:
    """Change its words, or where its only default subnet is."""
    _refuse_nova(body.nova_net_id)
    words = {"name": body.name, "description": body.description}
    values = {name: value for name, value in words.items() if value is not UNSET}
    ids = {"neutron_net_id": body.neutron_net_id, "neutron_subnet_id": body.neutron_subnet_id}
    moved = {name: value for name, value in ids.items() if not isinstance(value, UnsetType)}
    with call.db.write() as tx:
        share_network_for_change(call, tx, id)
        if moved:
            if db.has_shares(tx, id) or share_servers.on_network(tx, id):
                raise errors.Forbidden(
                    f"Share network {id} has shares or share servers: of it only name and description can change."
                )
            if len(moved) < len(ids):
                raise errors.Invalid("Give neutron_net_id and neutron_subnet_id together: a subnet moves with both.")
            subnet = rules.only_default(id, subnets.of_network(tx, id))
            subnets.update(tx, subnet.id, moved)
        if values:
            db.update(tx, id, values)
        return found(call, tx, id)


@RESOURCE.delete("/{id}", policy=DELETE, status=202)
def delete(call: Call, id: str) -> None:
    """Take away one that nothing is on."""
    with call.db.write() as tx:
        network = share_network_for_change(call, tx, id)
        if db.has_shares(tx, id):
            raise errors.Conflict(f"Share network {id} has shares; delete them first.")
        if (number := len(subnets.of_network(tx, id))) > 1:
            raise errors.Conflict(f"Share network {id} has {number} subnets; delete all but one of them first.")
        share_server_delete.start_all(tx, share_servers.on_network(tx, id), call.caller)
        db.delete(tx, id)
        quotas.give_back(tx, network.project_id, network.user_id, None, {"share_networks": 1})


@RESOURCE.action(
    "share_network_subnet_create_check",
    policy=CHECK_SUBNET,
    body=CheckSubnet,
    view=Plain(None, dict[str, object]),
    since="2.70",
    status=202,
)
def check_subnet(call: Call, id: str, body: CheckSubnet) -> dict[str, object]:
    """Whether every share server of the network can have such a subnet more."""
    rules.check_neutron_ids(body.neutron_net_id, body.neutron_subnet_id)
    with call.db.write() as tx:
        network = share_network_for_change(call, tx, id)
        zone = zone_meant(tx, body.availability_zone)
        wanted = Wanted(zone, body.neutron_net_id or None, body.neutron_subnet_id or None)
        check_room(call, tx, id)
        answers = share_network_change.ask(
            tx,
            network,
            wanted,
            call.caller,
            anew=bool(body.reset_operation),
            service_down_time_s=call.settings.service_down_time,
        )
    said = {"hosts_check_result": dict(answers)} if call.caller.is_admin else {}
    return {"compatible": share_network_change.verdict(answers), **said}


@RESOURCE.action("reset_status", policy=RESET, body=ResetStatus, since="2.63", status=202)
def reset_status(call: Call, id: str, body: ResetStatus) -> None:
    """Set the status by hand."""
    with call.db.write() as tx:
        share_network_for_change(call, tx, id)
        db.STATUS.reset(tx, id, body.status)


# ---------------------------------------------------------------- looking up, changing and showing


def _refuse_nova(nova_net_id: str | UnsetType | None) -> None:
    if isinstance(nova_net_id, str):
        raise errors.Invalid("'nova_net_id' is a thing of the past; give neutron_net_id and neutron_subnet_id.")


def found(call: Call, tx: Tx, network_id: str) -> dict[str, object]:
    """A share network as its view wants it. Raises NotFound."""
    network = share_network(call, tx, network_id)
    supports = share_servers.supports(tx, [network_id]).get(network_id)
    return _shown(network, subnets.of_network(tx, network_id), supports)


_NO_SUBNET = dict.fromkeys(Subnet.__struct_fields__)


def _shown(network: ShareNetwork, its: Sequence[Subnet], supports: share_servers.Supports | None) -> dict[str, object]:
    """Whatever a version shows of it: the network, its subnets, and its default subnet's fields beside its own.

    A network without share servers can be changed as it likes.
    """
    default = rules.default(its)
    return {
        **(_NO_SUBNET if default is None else structs.asdict(default)),
        **structs.asdict(network),
        "security_service_update_support": supports is None or supports.security_services == 1,
        "network_allocation_update_support": supports is None or supports.network_allocations == 1,
        "share_network_subnets": [structs.asdict(subnet) for subnet in its],
    }
