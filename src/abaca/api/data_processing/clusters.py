# SPDX-License-Identifier: Apache-2.0
"""Clusters, as data processing knows them: those of our own door, changed by the same operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from abaca import errors
from abaca.api.clusters import reading as own_reading
from abaca.api.data_processing import faults, pages, permissions, plugins, reading, shown, verifying
from abaca.api.data_processing.said import (
    CreateCluster,
    CreateClusters,
    DeleteCluster,
    ListFilters,
    Resized,
    ScaleCluster,
    ShareBody,
    UpdateCluster,
)
from abaca.api.data_processing.versions import V1, V2
from abaca.api.data_processing.views import ClusterView, MarkersView
from abaca.db.clusters import clusters, nodes
from abaca.domain.attachments import mount_points
from abaca.domain.clusters import clusters as domain
from abaca.domain.clusters.clusters import NodeGroup, WantedShare
from abaca.http import bodies
from abaca.http.bodies import UNSET, Filters, Text, UnsetType
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Plain, View
from abaca.operations.clusters import cluster_accept, cluster_delete
from abaca.operations.clusters.cluster_accept import Change, GroupChange

if TYPE_CHECKING:
    from abaca.api.data_processing.reading import Said
    from abaca.db.engine.database import Tx
    from abaca.domain.clusters.clusters import Cluster

RESOURCE = Resource("clusters of data processing", "/clusters")
# So many are made by one request.
MOST_AT_ONCE = 100


class ClustersView(View):
    """A page of them."""

    clusters: list[ClusterView]
    markers: MarkersView | UnsetType


class HeldView(View):
    """A cluster, among others."""

    cluster: ClusterView


class CreatedView(View):
    """The cluster, or where several were asked for all of them."""

    cluster: ClusterView | UnsetType
    clusters: list[HeldView] | UnsetType


class ShowFilters(Filters, unknown="refuse"):
    """Whether what is done for it is shown as well."""

    show_progress: Text


_CLUSTER = Plain("cluster", ClusterView)
_PAGE = Plain(None, ClustersView)


@RESOURCE.get(policy=permissions.CLUSTERS_V1, until=V1, view=_PAGE, filters=ListFilters)
@RESOURCE.get(policy=permissions.CLUSTERS_V2, since=V2, view=_PAGE, filters=ListFilters)
def index(call: Call, filters: dict[str, object]) -> dict[str, object]:
    """Clusters, the oldest first; their nodes are shown where one is."""
    asked = pages.read(call, filters)
    with call.db.read() as tx:
        found, markers = pages.one(lambda page: clusters.page(tx, asked.conditions, page), asked)
        return {"clusters": shown.many(tx, found), "markers": UNSET, **markers}


@RESOURCE.get("/{id}", policy=permissions.CLUSTER_V1, until=V1, view=_CLUSTER, filters=ShowFilters)
@RESOURCE.get("/{id}", policy=permissions.CLUSTER_V2, since=V2, view=_CLUSTER, filters=ShowFilters)
def show(call: Call, id: str, filters: dict[str, object]) -> dict[str, object]:
    """One cluster with its nodes, and with `show_progress` what is done for them."""
    wants_progress = bodies.flag("show_progress", filters.get("show_progress", "false"))
    with call.db.read() as tx:
        cluster = _found(call, tx, id)
        members = shown.members(tx, cluster)
        progress = shown.progress(tx, cluster, members) if wants_progress else []
    servers = shown.servers(call, cluster, members)
    with call.db.read() as tx:
        (found,) = shown.many(tx, [cluster], shown.instances(members, servers))
    return {**found, "provision_progress": progress}


@RESOURCE.post(policy=permissions.CREATE_CLUSTER_V1, until=V1, body=CreateCluster, view=_CLUSTER, status=202)
def create(call: Call, body: CreateCluster) -> dict[str, object]:
    """Have shares on all nodes of a new cluster."""
    (found,) = _create(call, body, 1)
    return found


@RESOURCE.post(
    policy=permissions.CREATE_CLUSTER_V2, since=V2, body=CreateCluster, view=Plain(None, CreatedView), status=202
)
def create_any(call: Call, body: CreateCluster) -> dict[str, object]:
    """Have shares on all nodes of a new cluster, or of several."""
    found = _create(call, body, body.count)
    if body.count == 1:
        return {"cluster": found[0], "clusters": UNSET}
    return {"cluster": UNSET, "clusters": [{"cluster": one} for one in found]}


@RESOURCE.post(
    "/multiple",
    policy=permissions.CREATE_CLUSTER_V1,
    until=V1,
    body=CreateClusters,
    view=Plain("clusters", list[str]),
    status=202,
)
def create_multiple(call: Call, body: CreateClusters) -> list[object]:
    """Make several clusters alike; their ids."""
    return [one["id"] for one in _create(call, body, body.count)]


@RESOURCE.put("/{id}", policy=permissions.SCALE_CLUSTER_V1, until=V1, body=ScaleCluster, view=_CLUSTER, status=202)
@RESOURCE.put("/{id}", policy=permissions.SCALE_CLUSTER_V2, since=V2, body=ScaleCluster, view=_CLUSTER, status=202)
def scale(call: Call, id: str, body: ScaleCluster) -> dict[str, object]:
    """Make node groups larger or smaller, and add others."""
    with call.db.read() as tx:
        cluster = _to_be_changed(call, tx, id)
        known = {group.name: group for group in clusters.groups(tx, id)}
        resized = [] if isinstance(body.resize_node_groups, UnsetType) else body.resize_node_groups
        changes = [_resize(tx, known, one) for one in resized]
        said = [] if isinstance(body.add_node_groups, UnsetType) else reading.groups(call, tx, body.add_node_groups)
        if taken := [str(one["name"]) for one in said if one["name"] in known]:
            raise faults.InvalidData(f"The cluster has a node group {taken[0]!r} already; resize that.")
        wanted = reading.check_together(call, tx, cluster.project_id, cluster.shares, said, now=True)
    configs = (cluster.told or {}).get("cluster_configs")
    changes += [reading.change(one, wanted[str(one["name"])], configs) for one in said]
    if not changes:
        raise faults.InvalidData("Send resize_node_groups or add_node_groups.")
    if len({one.group.name for one in changes}) < len(changes):
        raise faults.InvalidData("One node group is named twice; name it once.")
    with call.db.write() as tx, faults.as_data():
        held = _held(tx, id)
        if {group.name: group for group in clusters.groups(tx, id)} != known:
            raise errors.Conflict(f"The node groups of cluster {id} have just changed; look again, and repeat it.")
        for one in changes:
            effective = domain.effective(held.shares, one.group.shares)
            own_reading.check_paths(call, held.project_id, effective)
        cluster_accept.change(tx, held, Change(groups=changes), call.caller)
        return shown.one(tx, _found(call, tx, id))


@RESOURCE.patch("/{id}", policy=permissions.UPDATE_CLUSTER_V1, until=V1, body=UpdateCluster, view=_CLUSTER, status=202)
@RESOURCE.patch("/{id}", policy=permissions.UPDATE_CLUSTER_V2, since=V2, body=UpdateCluster, view=_CLUSTER, status=202)
def update(call: Call, id: str, body: UpdateCluster) -> dict[str, object]:
    """Change a cluster; of its shares only what differs is mounted, unmounted or mounted anew."""
    with call.db.read() as tx:
        changes_nothing = body == UpdateCluster(verification=body.verification)
        cluster = _to_be_changed(call, tx, id, is_let_go=body.is_protected is False or changes_nothing)
        wanted = None if isinstance(body.shares, UnsetType) else _wanted(call, tx, cluster, body)
    values: Said = {
        name: said for name in ("description", "is_protected") if (said := getattr(body, name)) is not UNSET
    }
    if body == UpdateCluster():
        raise faults.InvalidData("Send something: name, description, is_protected, shares or verification.")
    if not isinstance(body.name, UnsetType):
        values["name"] = domain.check_name(body.name)
    with call.db.write() as tx, faults.as_data():
        held = _held(tx, id)
        if wanted is not None and held.shares != cluster.shares:
            raise errors.Conflict(f"The shares of cluster {id} have just changed; look again, and repeat it.")
        cluster_accept.change(tx, held, Change(values=values, shares=wanted), call.caller)
        if not isinstance(body.verification, UnsetType):
            verifying.start(tx, held)
        return shown.one(tx, _found(call, tx, id))


@RESOURCE.delete("/{id}", policy=permissions.DELETE_CLUSTER_V1, until=V1, status=204)
@RESOURCE.delete("/{id}", policy=permissions.DELETE_CLUSTER_V2, since=V2, body=DeleteCluster, status=204)
def delete(call: Call, id: str, body: DeleteCluster | None = None) -> None:
    """Take all shares off its nodes, which stay."""
    with call.db.write() as tx:
        _found(call, tx, id)
        cluster_delete.announce(tx, id)
        cluster = _held(tx, id)
        if cluster.is_protected:
            raise faults.NotDeleted(what=f"Cluster {id}")
        cluster_delete.start(tx, cluster, call.caller, force=body is not None and body.force)


# ---------------------------------------------------------------- what is there


def _found(call: Call, tx: Tx, cluster_id: str) -> Cluster:
    row = clusters.show(tx, cluster_id)
    if row is None:
        raise errors.NotFound(resource="Cluster", id=cluster_id)
    call.visible(row.project_id, "Cluster", cluster_id)
    return row


def _held(tx: Tx, cluster_id: str) -> Cluster:
    row = clusters.hold(tx, cluster_id)
    if row is None:
        raise errors.NotFound(resource="Cluster", id=cluster_id)
    return row


def _to_be_changed(call: Call, tx: Tx, cluster_id: str, *, is_let_go: bool = False) -> Cluster:
    """Raises `Protected` for one that is, unless that is what changes."""
    found = _found(call, tx, cluster_id)
    if found.is_protected and not is_let_go:
        raise faults.Protected(what=f"Cluster {cluster_id}")
    return found


# ---------------------------------------------------------------- what was sent


def _create(call: Call, body: CreateCluster | CreateClusters, number: int) -> Sequence[Said]:
    if not 1 <= number <= MOST_AT_ONCE:
        raise faults.InvalidData(f"'count' must be a number of clusters from 1 to {MOST_AT_ONCE}.")
    names = _names(body.name, number)
    plugins.check(body.plugin_name, body.plugin_version)
    with call.db.read() as tx:
        content = _content(call, tx, body)
        said = reading.kept_groups(content)
        project_id = call.caller.project_id
        shares = reading.shares(call, tx, project_id, reading.kept_shares(content), "the cluster", now=True)
        of_groups = reading.check_together(call, tx, project_id, shares, said, now=True)
    if not said:
        raise faults.InvalidData("Say which node groups it has: by 'cluster_template_id', or in 'node_groups'.")
    configs = content.get("cluster_configs")
    values, may_be_empty = reading.cluster_values(configs)
    groups = [reading.change(one, of_groups[str(one["name"])], configs) for one in said]
    if not may_be_empty:
        _check_matches(call, groups)
    values |= {
        "project_id": call.caller.project_id,
        "description": body.description if body.description is not None else content.get("description"),
        "is_protected": body.is_protected,
        "told": {name: value for name, value in content.items() if name in _TOLD},
    }
    with call.db.write() as tx, faults.as_data():
        ids = [
            cluster_accept.create(
                tx, Change(values={**values, "name": name}, shares=shares, groups=_anew(groups)), call.caller
            )
            for name in names
        ]
        return [shown.one(tx, _found(call, tx, one)) for one in ids]


_TOLD = (*reading.CLUSTER, "cluster_template_id", "user_keypair_id")


def _content(call: Call, tx: Tx, body: CreateCluster | CreateClusters) -> Said:
    """What the template says, and what is said in its place."""
    found: Said = {}
    if not isinstance(body.cluster_template_id, UnsetType):
        template = reading.template(call, tx, "cluster", body.cluster_template_id)
        found = {"description": template.description, **template.content, "cluster_template_id": template.id}
    found |= reading.fields(body, (*reading.CLUSTER, "user_keypair_id"))
    if not isinstance(body.node_groups, UnsetType):
        found["node_groups"] = reading.groups(call, tx, body.node_groups)
    if not isinstance(body.shares, UnsetType):
        found["shares"] = reading.sent_shares(body.shares)
    reading.check_size({name: value for name, value in found.items() if name in _TOLD})
    return found


def _names(name: str, number: int) -> list[str]:
    """One is called as it is said, several each by its number as well."""
    domain.check_name(name)
    if number == 1:
        return [name]
    return [domain.check_name(f"{name}-{one:0{len(str(number))}}") for one in range(1, number + 1)]


def _anew(groups: Sequence[GroupChange]) -> list[GroupChange]:
    """The same for another cluster: each group has an id of its own."""
    return [
        GroupChange(
            group=structs.replace(
                clusters.new_group(one.group.name, one.group.shares, one.group.selector, one.group.count),
                told=one.group.told,
            ),
            is_new=True,
        )
        for one in groups
    ]


def _check_matches(call: Call, groups: Sequence[GroupChange]) -> None:
    for one in groups:
        if not one.group.count:
            continue
        try:
            own_reading.check_matches(call, call.caller.project_id, one.group.name, one.group.selector)
        except errors.Conflict as none:
            raise faults.InvalidReference(none.message) from None


def _resize(tx: Tx, known: Mapping[str, NodeGroup], said: Resized) -> GroupChange:
    group = known.get(said.name)
    if group is None:
        raise faults.InvalidData(f"The cluster has no node group {said.name[:64]!r}; it has {', '.join(known)}.")
    if not group.selector:
        raise faults.InvalidData(f"The servers of node group {group.name!r} are named; change them as they were named.")
    if not 0 <= said.count <= domain.MOST_NODES:
        raise faults.InvalidData(f"'count' must be a number of nodes from 0 to {domain.MOST_NODES}.")
    going = [] if isinstance(said.instances, UnsetType) else said.instances
    there = set(nodes.of_group(tx, group.id)) if going else set()
    if strange := [one for one in going if one not in there]:
        raise faults.InvalidReference(f"Server {strange[0][:64]} is no node of group {group.name!r}.")
    if len(there) - len(set(going)) < said.count < len(there):
        raise faults.InvalidData(f"More servers are named to go than 'count' of node group {group.name!r} leaves out.")
    return GroupChange(group=structs.replace(group, count=said.count), is_new=False, remove=going)


def _wanted(call: Call, tx: Tx, cluster: Cluster, body: UpdateCluster) -> list[WantedShare]:
    """All shares that it shall have; what stays as it is may be of a share that could not be attached now."""
    said = [] if isinstance(body.shares, UnsetType) else body.shares
    kept = {one.id: one for one in cluster.shares}

    def is_kept(one: ShareBody) -> bool:
        before = kept.get(one.id)
        path = mount_points.default(one.id) if one.path is None else one.path
        return before is not None and (path, one.access_level) == (before.path, before.access_level)

    asked = [one for one in said if not is_kept(one)]
    new = reading.shares(call, tx, cluster.project_id, asked, "the cluster", now=True)
    with faults.as_data():
        return domain.check_shares([*(kept[one.id] for one in said if is_kept(one)), *new], "the cluster")
