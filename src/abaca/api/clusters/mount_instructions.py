# SPDX-License-Identifier: Apache-2.0
"""How machines mount the shares of a cluster by themselves: documents that are ready to be given to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from abaca import errors
from abaca.api.attachments.attaching import addresses_for
from abaca.api.clusters import reading
from abaca.db.clusters import clusters
from abaca.db.networks import allocations
from abaca.db.shares import export_locations, shares
from abaca.domain.attachments import attachments, mount_instructions, sources
from abaca.domain.attachments.mount_instructions import Way
from abaca.domain.clusters import clusters as domain
from abaca.http.bodies import Filters, Name, Text
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import One, View
from abaca.policy import reader

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.clusters.clusters import Cluster, NodeGroup, WantedShare

RESOURCE = Resource("connect documents of clusters", "/clusters")


class ConnectFilters(Filters, unknown="refuse"):
    """What which node group has (its name), for which system (debian, fedora, ...), and from where for which server."""

    node_group: Name
    os: Text
    server: Text


class WayView(View):
    """A share as it is mounted: from where, to where, whether one may write, and the line of an fstab."""

    share_id: str
    export_location: str
    mount_point: str
    access_level: str
    fstab: str


class DocumentsView(View):
    """How machines mount what the nodes of a group have, None: what all nodes have.

    `network` is let in as long as the cluster has a node; where it is None each machine needs a rule of its own.
    """

    node_group: str | None
    os: str
    network: str | None
    shares: list[WayView]
    cloud_init: str
    ansible: str
    kubernetes: str


@RESOURCE.get(
    "/{id}/connect",
    policy=reader("cluster:connect", "See how to mount the shares of a cluster by oneself."),
    view=One("connect", DocumentsView),
    filters=ConnectFilters,
)
def show(call: Call, id: str, filters: dict[str, str]) -> dict[str, object]:
    """A part of cloud-init, tasks of Ansible and Kubernetes volumes, each for all these shares."""
    system = mount_instructions.check_system(filters.get("os", "debian"))
    addresses = addresses_for(call, filters)
    name = filters.get("node_group")
    with call.db.read() as tx:
        cluster = reading.cluster_for(call, tx, id)
        wanted = _wanted(cluster, clusters.groups(tx, cluster.id), name)
        ways = _ways(call, tx, cluster, (wanted, addresses))
    return {
        "node_group": name,
        "os": system,
        "network": cluster.network,
        "shares": [_shown(way) for way in ways],
        "cloud_init": mount_instructions.cloud_init(ways, system),
        "ansible": mount_instructions.ansible(ways, system),
        "kubernetes": mount_instructions.persistent_volumes(ways),
    }


def _wanted(cluster: Cluster, groups: Sequence[NodeGroup], name: str | None) -> Sequence[WantedShare]:
    """What is wanted on the nodes of the group of that name, or of all. Raises `NotFound`, and `Conflict` for none."""
    chosen = [group.shares for group in groups if name in (None, group.name)]
    known = domain.named([group.name for group in groups])
    if name is not None and not chosen:
        raise errors.NotFound(f"The cluster has no node group {name[:64]!r}; it has: {known}.")
    found = domain.on_every_node(cluster.shares, chosen)
    if not found:
        mend = f"say one of its node groups: {known}" if name is None and len(groups) > 1 else "add a share first"
        raise errors.Conflict(f"No share is wanted on all of these nodes; {mend}.")
    return found


def _ways(call: Call, tx: Tx, cluster: Cluster, asked: tuple[Sequence[WantedShare], list[str]]) -> list[Way]:
    """How these shares are mounted by who has these addresses. Raises `Conflict` for a share that cannot be."""
    wanted, addresses = asked
    ids = [one.id for one in wanted]
    known = shares.sizes(tx, ids)
    mounted = export_locations.mounted_of(tx, ids)
    served = {one.share_server_id for found in mounted.values() for one in found if one.share_server_id is not None}
    cidrs = {one.ip_address: one.cidr for one in allocations.of_servers(tx, served)}
    nodes = call.settings.nodes
    ways = []
    for one in wanted:
        share = known.get(one.id)
        if share is None or share.project_id != cluster.project_id:
            raise errors.Conflict(f"Share {one.id} is not the project's any more; take it out of the cluster.")
        if share.share_proto not in attachments.PROTOCOLS:
            raise errors.Conflict(f"Share {one.id} is {share.share_proto}; this tells how to mount NFS.")
        paths = [place.path for place in mounted.get(one.id, ())]
        source = sources.choose(paths, cidrs, addresses, None)
        if source is None:
            raise errors.Conflict(f"Share {one.id} has no export location: there is nothing to mount it from.")
        more = (nodes.nfs_port, nodes.mount_options)
        ways.append(Way(one.id, source, one.path, one.access_level, share.size, *more))
    return ways


def _shown(way: Way) -> dict[str, object]:
    return {
        "share_id": way.share_id,
        "export_location": way.source,
        "mount_point": way.mount_point,
        "access_level": way.level,
        "fstab": mount_instructions.fstab(way),
    }
