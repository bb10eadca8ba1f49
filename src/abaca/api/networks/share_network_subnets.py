# SPDX-License-Identifier: Apache-2.0
"""Subnets of share networks: several in a zone are one share server's, one without a zone is for all other zones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import structs

from abaca import errors
from abaca.api.networks.lookups import check_room, rows, share_network, share_network_for_change, zone_meant
from abaca.api.networks.share_networks import SubnetInNetwork
from abaca.db.engine.database import Tx
from abaca.db.networks import share_network_subnets as db
from abaca.db.networks import share_networks, share_servers
from abaca.domain import metadata
from abaca.domain.networks import share_networks as rules
from abaca.domain.networks.share_networks import ShareNetwork, Subnet
from abaca.http.bodies import Body, Name, Object
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Feature, Many, One, Since
from abaca.operations.networks import share_network_change, share_server_delete
from abaca.operations.networks.share_network_check import Wanted
from abaca.policy import member, reader

SEVERAL_IN_A_ZONE = Feature(
    "several_subnets_in_a_zone", "2.70", "A share network may have several subnets in one availability zone."
)

LIST = reader("share_network_subnet:index", "List the subnets of a share network.")
SHOW = reader("share_network_subnet:show", "See a subnet of a share network.")
CREATE = member("share_network_subnet:create", "Create a subnet of a share network.")
DELETE = member("share_network_subnet:delete", "Delete a subnet of a share network.")

RESOURCE = Resource("share network subnets", "/share-networks/{id}/subnets", since="2.51")


class SubnetView(SubnetInNetwork):
    """A subnet, with the name of its share network."""

    share_network_id: str
    share_network_name: str | None


class CreateSubnet(Body, key="share-network-subnet"):
    """Another subnet. Without a zone it is for all zones that have none of their own."""

    neutron_net_id: Name | None = None
    neutron_subnet_id: Name | None = None
    availability_zone: Name | None = None
    metadata: Annotated[Object | None, Since("2.78", refuse=True)] = None


@RESOURCE.get(policy=LIST, view=Many("share_network_subnets", SubnetView))
def index(call: Call, id: str) -> list[list[object]]:
    """All subnets of a share network, oldest first."""
    with call.db.read() as tx:
        network = share_network(call, tx, id)
        return rows(call, (_shown(network, subnet) for subnet in db.of_network(tx, id)))


@RESOURCE.get("/{subnet_id}", policy=SHOW, view=One("share_network_subnet", SubnetView))
def show(call: Call, id: str, subnet_id: str) -> dict[str, object]:
    """One subnet."""
    with call.db.read() as tx:
        return _shown(*subnet_of(call, tx, id, subnet_id))


@RESOURCE.post(policy=CREATE, body=CreateSubnet, view=One("share_network_subnet", SubnetView))
def create(call: Call, id: str, body: CreateSubnet) -> dict[str, object]:
    """Give a share network another subnet."""
    rules.check_neutron_ids(body.neutron_net_id, body.neutron_subnet_id)
    pairs = metadata.check(body.metadata or {})
    limits = call.settings.limits
    metadata.check_size(pairs, most_items=limits.metadata_items, most_characters=limits.metadata_characters)
    with call.db.write() as tx:
        network = share_network_for_change(call, tx, id)
        zone = zone_meant(tx, body.availability_zone)
        check_room(call, tx, id)
        if not call.has(SEVERAL_IN_A_ZONE):
            _refuse_second(network, db.of_network(tx, id), zone)
        wanted = Wanted(zone, body.neutron_net_id or None, body.neutron_subnet_id or None)
        servers = share_network_change.approve(tx, network, wanted)
        values = {
            "availability_zone": zone,
            "neutron_net_id": wanted.neutron_net_id,
            "neutron_subnet_id": wanted.neutron_subnet_id,
            "metadata": pairs,
        }
        shown = subnet_of(call, tx, id, db.add(tx, id, values))
        share_network_change.begin(tx, *shown, servers, call.caller)
        return _shown(*shown)


@RESOURCE.delete("/{subnet_id}", policy=DELETE, status=202)
def delete(call: Call, id: str, subnet_id: str) -> None:
    """Take away a subnet by which no share is reached."""
    with call.db.write() as tx:
        network = share_network_for_change(call, tx, id)
        subnet_of(call, tx, id, subnet_id)
        if network.status == "network_change":
            raise errors.Conflict(f"Share network {id} gets another subnet just now; try again when it is active.")
        if share_networks.has_placeless_shares(tx, id):
            raise errors.Conflict(
                f"Share network {id} has shares that have no share server yet, which this subnet may lead to; try "
                "again when they are available, or delete them first."
            )
        share_server_delete.start_all(tx, share_servers.on_subnets(tx, [subnet_id]), call.caller)
        db.delete(tx, subnet_id)


def subnet_of(call: Call, tx: Tx, network_id: str, subnet_id: str) -> tuple[ShareNetwork, Subnet]:
    """A subnet of a share network that the caller may use by this route. Raises NotFound."""
    network = share_network(call, tx, network_id)
    found = next((subnet for subnet in db.of_network(tx, network_id) if subnet.id == subnet_id), None)
    if found is None:
        raise errors.NotFound(resource="Share network subnet", id=subnet_id)
    return network, found


def _refuse_second(network: ShareNetwork, its: Sequence[Subnet], zone: str | None) -> None:
    if any(subnet.availability_zone == zone for subnet in its):
        where = "of all zones" if zone is None else f"in availability zone {zone}"
        raise errors.Conflict(
            f"Share network {network.id} has a subnet {where}; from version 2.70 on it may have more."
        )


def _shown(network: ShareNetwork, subnet: Subnet) -> dict[str, object]:
    return {**structs.asdict(subnet), "share_network_name": network.name}
