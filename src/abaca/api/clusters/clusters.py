# SPDX-License-Identifier: Apache-2.0
"""Clusters: servers in node groups, and the shares that are on every one of them."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import structs

from abaca import errors
from abaca.api.clusters import reading
from abaca.db.clusters import clusters, nodes
from abaca.db.engine.database import Tx
from abaca.domain.clusters import clusters as domain
from abaca.domain.clusters.clusters import Cluster, NodeGroup, Selector, WantedShare
from abaca.http import bodies
from abaca.http.bodies import UNSET, Body, Filters, Flag, IdPrefix, Name, Object, Text, UnsetType, Whole, among
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import COUNTED, Many, One, View
from abaca.operations.clusters import cluster_accept, cluster_delete
from abaca.operations.clusters.cluster_accept import Change, GroupChange
from abaca.operations.clusters.cluster_states import states_of
from abaca.policy import admin, member, reader

LIST_ALL_PROJECTS = admin("cluster:list_all_projects", "List the clusters of all projects.")
LIST = reader("cluster:get_all", "List clusters.")
SHOW = reader("cluster:get", "See a cluster, and its nodes.")
CREATE = member("cluster:create", "Create a cluster.")
UPDATE = member("cluster:update", "Change a cluster: its shares, its nodes, and what is said of it.")
DELETE = member("cluster:delete", "Delete a cluster.")

RESOURCE = Resource("clusters", "/clusters", rules=(LIST_ALL_PROJECTS,))


class WantedShareView(View):
    """A share that is wanted on nodes: where, and whether they may write."""

    id: str
    path: str
    access_level: str


class SelectorView(View):
    """Which servers are taken: with these pairs of metadata, a name that fits the pattern, in that server group."""

    metadata: dict[str, str]
    name: str | None
    server_group: str | None


class NodeGroupView(View):
    """Nodes that are alike; `nodes` is how many there are, `count` how many its selector takes at most."""

    id: str
    name: str
    shares: list[WantedShareView]
    selector: SelectorView | None
    count: int | None
    nodes: int


class ClusterView(View):
    """A cluster; `error` says what is wrong and what to do, and `next_try_at` when that is tried again."""

    id: str
    name: str
    description: str | None
    project_id: str
    user_id: str | None
    status: str
    wanted: str
    shares: list[WantedShareView]
    tolerance: int
    network: str | None
    is_protected: bool
    error: dict[str, str] | None
    nodes: int
    next_try_at: datetime.datetime | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


class ClusterDetailView(ClusterView):
    """The same with its node groups, and how many of its nodes are in which state."""

    node_groups: list[NodeGroupView]
    node_states: dict[str, int]


class WantedShareBody(Body, unknown="refuse"):
    """A share by name or id; without a path it is at /mnt/SHARE-ID, without a level nodes may write."""

    id: Text
    path: Text | None = None
    access_level: Text | None = None


class SelectorBody(Body, unknown="refuse"):
    """Pairs that a server's metadata has, a pattern with * and ? for its name, the id of a server group of Nova that it
    is in; at least one of these.
    """

    metadata: Object | None = None
    name: Name | None = None
    server_group: Name | None = None


class NodeGroupBody(Body, unknown="refuse"):
    """A node group: its servers by names, ids and hostlists such as node[001-128], or a selector that takes them.

    Of a group that the cluster has already, `servers` are all that it shall have, `add_servers` and `remove_servers` a
    difference.
    """

    name: Name
    servers: list[Text] | UnsetType = UNSET
    add_servers: list[Text] | UnsetType = UNSET
    remove_servers: list[Text] | UnsetType = UNSET
    selector: SelectorBody | UnsetType = UNSET
    count: Whole | UnsetType | None = UNSET
    shares: list[WantedShareBody] | UnsetType = UNSET


class UpdateCluster(Body, key="cluster", unknown="refuse", alone=True):
    """What shall be of a cluster; what is not sent stays.

    `shares` are all that it shall have, `add_shares` and `remove_shares` a difference. `node_groups` are new ones and
    what changes of others, `remove_node_groups` names of those that go with all their nodes.
    """

    name: Name | UnsetType = UNSET
    description: Name | UnsetType | None = UNSET
    shares: list[WantedShareBody] | UnsetType = UNSET
    add_shares: list[WantedShareBody] | UnsetType = UNSET
    remove_shares: list[Text] | UnsetType = UNSET
    node_groups: list[NodeGroupBody] | UnsetType = UNSET
    remove_node_groups: list[Text] | UnsetType = UNSET
    tolerance: Whole | UnsetType = UNSET
    network: Text | UnsetType | None = UNSET
    is_protected: Flag | UnsetType = UNSET
    allow_empty: Flag = False


class CreateCluster(Body, key="cluster", unknown="refuse", alone=True):
    """A cluster: `servers` or `selector` make its only group, "nodes", where no `node_groups` are said.

    So many nodes as `tolerance` says may fail. With `network` its shares let in that, and no node by itself. With
    `allow_empty` selectors may take nothing yet. The project is the caller's own unless another is said.
    """

    name: Name
    description: Name | None = None
    shares: list[WantedShareBody] = dataclasses.field(default_factory=list)
    node_groups: list[NodeGroupBody] | UnsetType = UNSET
    servers: list[Text] | UnsetType = UNSET
    selector: SelectorBody | UnsetType = UNSET
    tolerance: Whole = 0
    network: Text | None = None
    is_protected: Flag = False
    allow_empty: Flag = False
    project_id: Name | None = None


class ClusterFilters(Filters, unknown="refuse"):
    """What the list may be asked for."""

    name: Text
    status: Annotated[str, among(domain.CLUSTER.states)]
    project_id: Text
    id: Text
    id_prefix: IdPrefix


CLUSTER = One("cluster", ClusterDetailView)


@RESOURCE.get(
    policy=LIST, view=Many("clusters", ClusterView, links="clusters_links", counted=COUNTED), filters=ClusterFilters
)
def index(call: Call, filters: dict[str, object]) -> Listed:
    """Clusters, the newest first."""
    asked = {**filters, **call.project_filter(LIST_ALL_PROJECTS)}
    with call.db.read() as tx:
        found = clusters.page(tx, asked, call.page)
        numbers = nodes.count(tx, [one.id for one in found])
        count = call.count(lambda most: clusters.CLUSTERS.count(tx, asked, most))
    rows = [_shown(one, numbers.get(one.id, 0)) for one in found]
    return Listed([[row[name] for name in call.columns] for row in rows], count)


@RESOURCE.get("/{id}", policy=SHOW, view=CLUSTER)
def show(call: Call, id: str) -> dict[str, object]:
    """One cluster, and how its nodes are."""
    with call.db.read() as tx:
        return _detailed(tx, reading.cluster_for(call, tx, id))


@RESOURCE.post(policy=CREATE, body=CreateCluster, view=CLUSTER, status=202)
def create(call: Call, body: CreateCluster) -> dict[str, object]:
    """Have shares on all nodes, and on those that come later."""
    project_id = reading.project_of(call, CREATE, body.project_id)
    groups = _new_groups(call, project_id, body)
    if not body.allow_empty:
        for group in groups:
            if group.group.selector:
                reading.check_matches(call, project_id, group.group.name, group.group.selector)
    values = {
        "project_id": project_id,
        "name": domain.check_name(body.name),
        "description": body.description,
        "tolerance": _tolerance(body.tolerance),
        "network": reading.network(body.network),
        "is_protected": body.is_protected,
    }
    with call.db.read() as tx:
        shares = _shares(call, tx, project_id, body.shares)
    with call.db.write() as tx:
        cluster_id = cluster_accept.create(tx, Change(values=values, shares=shares, groups=groups), call.caller)
        return _detailed(tx, reading.cluster_for(call, tx, cluster_id))


@RESOURCE.patch("/{id}", policy=UPDATE, body=UpdateCluster, view=CLUSTER, status=202)
def update(call: Call, id: str, body: UpdateCluster) -> dict[str, object]:
    """Change a cluster; only what differs is mounted, unmounted or mounted anew."""
    with call.db.read() as tx:
        cluster = reading.cluster_for(call, tx, id)
        id = cluster.id
        known = {group.name: group for group in clusters.groups(tx, id)}
        members = _members(tx, known, body)
    groups = _changed_groups(call, cluster.project_id, body, (known, members))
    gone = _gone(known, body)
    values = _values(call, body)
    says_shares = not all(one is UNSET for one in (body.shares, body.add_shares, body.remove_shares))
    if not (values or groups or gone or says_shares):
        raise errors.Invalid("Send something to change: name, description, shares, node_groups, tolerance or network.")
    with call.db.read() as tx:
        shares = _changed_shares(call, tx, body, cluster)
    with call.db.write() as tx:
        held = clusters.hold(tx, id)
        if held is None:
            raise errors.NotFound(resource="Cluster", id=id)
        if shares is not None and held.shares != cluster.shares:
            raise errors.Conflict(f"The shares of cluster {id} have just changed; look again, and repeat it.")
        if (groups or gone) and {group.name: group for group in clusters.groups(tx, id)} != known:
            raise errors.Conflict(f"The node groups of cluster {id} have just changed; look again, and repeat it.")
        for one in groups:
            if one.add or _takes_others(one.group, known):
                wanted = domain.effective(held.shares if shares is None else shares, one.group.shares)
                reading.check_paths(call, held.project_id, wanted)
        changed = Change(values=values, shares=shares, groups=groups, gone=gone)
        cluster_accept.change(tx, held, changed, call.caller)
        return _detailed(tx, reading.cluster_for(call, tx, id))


@RESOURCE.delete("/{id}", policy=DELETE, status=202)
def delete(call: Call, id: str) -> None:
    """Take all shares off its nodes, which stay; with `?force=true` though files are open, or nodes do not answer."""
    force = bodies.flag("force", call.query.get("force", "false"))
    with call.db.write() as tx:
        id = reading.cluster_for(call, tx, id).id
        cluster_delete.announce(tx, id)
        cluster = clusters.hold(tx, id)
        if cluster is None:
            raise errors.NotFound(resource="Cluster", id=id)
        if cluster.is_protected:
            raise errors.Conflict(f"Cluster {id} is protected; set is_protected to false before you delete it.")
        cluster_delete.start(tx, cluster, call.caller, force=force)


# ---------------------------------------------------------------- what is shown


def _shown(cluster: Cluster, number: int) -> dict[str, object]:
    error = None
    if cluster.error_code is not None:
        error = {
            "code": cluster.error_code,
            "message": cluster.error_text or "",
            "mend": domain.mend(cluster.error_code) or "",
        }
    return {
        **structs.asdict(cluster),
        "shares": [structs.asdict(one) for one in cluster.shares],
        "error": error,
        "nodes": number,
        "next_try_at": cluster.retry_at,
    }


def _detailed(tx: Tx, cluster: Cluster) -> dict[str, object]:
    groups = clusters.groups(tx, cluster.id)
    numbers = nodes.numbers_of_groups(tx, cluster.id)
    return {
        **_shown(cluster, sum(numbers.values())),
        "node_groups": [_group(group, numbers.get(group.id, 0)) for group in groups],
        "node_states": states_of(tx, cluster, groups),
    }


def _group(group: NodeGroup, number: int) -> dict[str, object]:
    selector = structs.asdict(group.selector) if group.selector else None
    shares = [structs.asdict(one) for one in group.shares]
    return {**structs.asdict(group), "shares": shares, "selector": selector, "nodes": number}


# ---------------------------------------------------------------- what was sent


def _shares(call: Call, tx: Tx, project_id: str, said: Sequence[WantedShareBody]) -> list[WantedShare]:
    domain.check_number_of_shares(len(said), "a cluster or a node group")
    return [reading.wanted_share(call, tx, project_id, (one.id, one.path, one.access_level)) for one in said]


def _changed_shares(call: Call, tx: Tx, body: UpdateCluster, cluster: Cluster) -> list[WantedShare] | None:
    """All shares that the cluster shall have; None where nothing is said of them."""
    if body.shares is UNSET and body.add_shares is UNSET and body.remove_shares is UNSET:
        return None
    kept = {one.id: one for one in cluster.shares}
    found = list(cluster.shares)
    if not isinstance(body.shares, UnsetType):
        # what stays as it is may be of a share that could not be attached now
        new = _shares(call, tx, cluster.project_id, [one for one in body.shares if not _is_kept(one, kept)])
        found = [*(kept[one.id] for one in body.shares if _is_kept(one, kept)), *new]
    if not isinstance(body.remove_shares, UnsetType):
        domain.check_number_of_shares(len(body.remove_shares), "a cluster")
        gone = {one: reading.share_id(call, tx, one) for one in body.remove_shares}
        if missing := [one for one, share_id in gone.items() if not {one, share_id} & {s.id for s in found}]:
            raise errors.NotFound(f"Share {missing[0][:64]} is none of the cluster's.")
        found = [one for one in found if one.id not in {*gone, *gone.values()}]
    if not isinstance(body.add_shares, UnsetType):
        more = domain.check_shares(_shares(call, tx, cluster.project_id, body.add_shares), "the cluster")
        named = {one.id for one in more}
        found = [*(one for one in found if one.id not in named), *more]
    return found


def _is_kept(one: WantedShareBody, kept: Mapping[str, WantedShare]) -> bool:
    before = kept.get(one.id)
    return before is not None and (one.path, one.access_level) == (before.path, before.access_level)


def _values(call: Call, body: UpdateCluster) -> dict[str, object]:
    found: dict[str, object] = {}
    if not isinstance(body.name, UnsetType):
        found["name"] = domain.check_name(body.name)
    if not isinstance(body.tolerance, UnsetType):
        found["tolerance"] = _tolerance(body.tolerance)
    if not isinstance(body.network, UnsetType):
        found["network"] = reading.network(body.network)
    for name in ("description", "is_protected"):
        if (said := getattr(body, name)) is not UNSET:
            found[name] = said
    return found


def _tolerance(said: int) -> int:
    if not 0 <= said <= domain.MOST_NODES:
        raise errors.Invalid(f"'tolerance' must be a number of nodes from 0 to {domain.MOST_NODES}.")
    return said


def _new_groups(call: Call, project_id: str, body: CreateCluster) -> list[GroupChange]:
    if isinstance(body.node_groups, UnsetType):
        said = [NodeGroupBody(name=domain.ONLY_GROUP, servers=body.servers, selector=body.selector)]
    elif body.servers is not UNSET or body.selector is not UNSET:
        raise errors.Invalid("Say 'servers' or 'selector' for one group of nodes, or 'node_groups', and not both.")
    else:
        said = body.node_groups
    domain.check_number_of_groups(len(said))
    found = [_new_group(call, project_id, one) for one in said]
    _check_groups(found)
    return found


def _check_groups(groups: Sequence[GroupChange]) -> None:
    names = [one.group.name for one in groups]
    if len(set(names)) < len(names):
        raise errors.Invalid("Two node groups have one name; each needs a name of its own.")
    seen: dict[str, str] = {}
    for one in groups:
        for server_id in one.add:
            if seen.setdefault(server_id, one.group.name) != one.group.name:
                raise errors.Invalid(
                    f"Server {server_id} is named for node groups {seen[server_id]!r} and {one.group.name!r}; "
                    "name it for one of them."
                )


def _new_group(call: Call, project_id: str, said: NodeGroupBody) -> GroupChange:
    if (said.servers is UNSET) == (said.selector is UNSET):
        raise errors.Invalid(f"Node group {said.name[:64]!r} needs either 'servers' or a 'selector'.")
    if said.add_servers is not UNSET or said.remove_servers is not UNSET:
        raise errors.Invalid(f"Node group {said.name[:64]!r} is new: say its 'servers'.")
    empty = clusters.new_group(domain.check_name(said.name, "node group"), (), Selector(), None)
    group = _group_as(call, project_id, empty, said)
    return GroupChange(group=group, is_new=True, add=_named(call, project_id, said.servers))


def _group_as(call: Call, project_id: str, group: NodeGroup, said: NodeGroupBody) -> NodeGroup:
    """A group with what is said of it."""
    if not isinstance(said.selector, UnsetType):
        selecting = (said.selector.metadata, said.selector.name, said.selector.server_group)
        group = structs.replace(group, selector=reading.selector(*selecting))
    if not isinstance(said.count, UnsetType):
        group = structs.replace(group, count=_count(said.count))
    if group.count is not None and not group.selector:
        raise errors.Invalid(f"Node group {group.name!r} has a 'count' and no 'selector' that could take servers.")
    if not isinstance(said.shares, UnsetType):
        with call.db.read() as tx:
            group = structs.replace(group, shares=_shares(call, tx, project_id, said.shares))
    return group


def _count(said: int | None) -> int | None:
    if said is not None and not 0 <= said <= domain.MOST_NODES:
        raise errors.Invalid(f"'count' must be a number of nodes from 0 to {domain.MOST_NODES}.")
    return said


def _named(call: Call, project_id: str, said: list[str] | UnsetType) -> list[str]:
    return [] if isinstance(said, UnsetType) else reading.servers(call, project_id, said)


def _changed_groups(
    call: Call,
    project_id: str,
    body: UpdateCluster,
    there: tuple[Mapping[str, NodeGroup], Mapping[str, Sequence[str]]],
) -> list[GroupChange]:
    known, members = there
    if isinstance(body.node_groups, UnsetType):
        return []
    # before anything is looked up for them
    domain.check_number_of_groups(len(body.node_groups))
    found = []
    for said in body.node_groups:
        group = known.get(said.name)
        if group is None:
            found.append(_new_group(call, project_id, said))
            continue
        names_servers = any(one is not UNSET for one in (said.servers, said.add_servers, said.remove_servers))
        if group.selector and names_servers:
            raise errors.Invalid(f"A selector decides on the servers of node group {group.name!r}; change that.")
        if not group.selector and said.selector is not UNSET:
            raise errors.Invalid(f"Node group {group.name!r} has named servers; add another group for a selector.")
        now = set(members.get(group.id, ()))
        add, remove = _named(call, project_id, said.add_servers), _leaving(call, project_id, said.remove_servers, now)
        if not isinstance(said.servers, UnsetType):
            wanted = _named(call, project_id, said.servers)
            add, remove = [one for one in wanted if one not in now], sorted(now.difference(wanted))
        changed = _group_as(call, project_id, group, said)
        found.append(GroupChange(group=changed, is_new=False, add=add, remove=remove))
    _check_groups(found)
    return found


def _gone(known: Mapping[str, NodeGroup], body: UpdateCluster) -> list[str]:
    """The ids of the groups that shall go."""
    names = [] if isinstance(body.remove_node_groups, UnsetType) else body.remove_node_groups
    changed = set() if isinstance(body.node_groups, UnsetType) else {one.name for one in body.node_groups}
    for name in names:
        if name not in known:
            raise errors.NotFound(f"The cluster has no node group {name[:64]!r}.")
        if name in changed:
            raise errors.Invalid(f"Node group {name!r} is named to be changed and to be removed; name it once.")
    return [known[name].id for name in dict.fromkeys(names)]


def _members(tx: Tx, known: Mapping[str, NodeGroup], body: UpdateCluster) -> dict[str, list[str]]:
    """The servers that groups have, as far as what is said of them depends on that."""
    if isinstance(body.node_groups, UnsetType):
        return {}
    asked = [one for one in body.node_groups if one.servers is not UNSET or one.remove_servers is not UNSET]
    ids = [known[one.name].id for one in asked if one.name in known]
    return {group_id: nodes.of_group(tx, group_id) for group_id in ids}


def _takes_others(group: NodeGroup, known: Mapping[str, NodeGroup]) -> bool:
    """Whether its selector takes other servers than before."""
    before = known.get(group.name)
    return bool(group.selector) and (before is None or (before.selector, before.count) != (group.selector, group.count))


def _leaving(call: Call, project_id: str, said: list[str] | UnsetType, now: set[str]) -> list[str]:
    """Those to be let go, which may be known to the cluster alone by now."""
    if isinstance(said, UnsetType):
        return []
    known = [one for one in said if one in now]
    found = [*known, *_named(call, project_id, [one for one in said if one not in now])]
    if strange := [one for one in found if one not in now]:
        raise errors.NotFound(f"Server {strange[0]} is no node of that group.")
    return found
