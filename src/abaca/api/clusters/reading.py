# SPDX-License-Identifier: Apache-2.0
"""What callers say of clusters, made into what is kept: shares that they may attach, servers that they may use."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from abaca import errors
from abaca.api import naming
from abaca.api.attachments.attaching import MOUNT_ANYWHERE, begun
from abaca.api.shares.lookups import share_for_change, share_id_of
from abaca.compute.contract import Wanted
from abaca.db.clusters import clusters
from abaca.domain import ids
from abaca.domain.attachments import mount_points
from abaca.domain.clusters import clusters as domain
from abaca.domain.clusters import hostlists
from abaca.domain.clusters.clusters import Cluster, Selector, WantedShare
from abaca.domain.shares import access_rules
from abaca.http.pipeline import Call
from abaca.operations.attachments.attachment_accept import check_protocol, check_share

if TYPE_CHECKING:
    from abaca.compute.contract import Server
    from abaca.db.engine.database import Tx
    from abaca.policy import Rule

# The smallest networks that stand for many nodes, by version: smaller ones are single addresses.
SHORTEST_PREFIX = {4: 8, 6: 16}
# So many servers are looked up by themselves; of more all of the project are listed.
FEW = 20
CLUSTER = naming.Kind("Cluster", clusters.CLUSTERS)


def cluster_for(call: Call, tx: Tx, cluster_id: str) -> Cluster:
    """A cluster that the caller may see, by its id, its name or the beginning of its id. Raises `NotFound`."""
    cluster_id = naming.id_of(call, tx, CLUSTER, cluster_id)
    row = clusters.show(tx, cluster_id)
    if row is None:
        raise errors.NotFound(resource="Cluster", id=cluster_id)
    call.visible(row.project_id, "Cluster", cluster_id)
    return row


def project_of(call: Call, rule: Rule, said: str | None) -> str:
    """The project that a cluster is for: the caller's own unless another is said. Raises `Forbidden` and `Invalid`."""
    project_id = said or call.caller.project_id
    if not project_id:
        raise errors.Invalid("Say 'project_id': whose servers and shares these are.")
    if project_id != call.caller.project_id:
        call.require(rule, project_id=project_id)
    return project_id


def wanted_share(
    call: Call, tx: Tx, project_id: str, said: tuple[str, str | None, str | None], *, now: bool = True
) -> WantedShare:
    """A share by name or id, with its path and level. Raises `NotFound`, `Conflict` and `Invalid`, saying which share.

    Unless it is wanted `now` it need not be available yet. What the caller may choose is the same as for single
    servers; roots of a single server do not count.
    """
    share_id, path, level = said
    share = share_for_change(call, tx, share_id_of(call, tx, share_id))
    if share.project_id != project_id:
        raise errors.Conflict(f"Share {share.id} is another project's; clusters have shares of their own project.")
    (check_share if now else check_protocol)(share)
    try:
        found = domain.wanted_share(share.id, path, level)
    except errors.Invalid as wrong:
        raise errors.Invalid(f"Share {share.id}: {wrong.message}") from None
    check_paths(call, project_id, [found])
    return found


def check_paths(call: Call, project_id: str, shares: Sequence[WantedShare]) -> None:
    """Raises `Invalid` for a share at a place that the caller may not choose, be it that an administrator has."""
    if call.allows(MOUNT_ANYWHERE):
        return
    roots = mount_points.read_roots(call.settings.nodes.mount_roots)
    for one in shares:
        try:
            roots.check(one.path, project_id, "")
        except errors.Invalid as wrong:
            raise errors.Invalid(f"Share {one.id}: {wrong.message}") from None


def share_id(call: Call, tx: Tx, said: str) -> str:
    """The id of a share that is called so; what names none is taken for an id."""
    return share_id_of(call, tx, said)


def selector(metadata: Mapping[str, object] | None, name: str | None, server_group: str | None = None) -> Selector:
    """Which servers are taken. Raises `Invalid`."""
    pairs = dict(metadata or {})
    if not all(isinstance(value, str) and len(key) <= 255 and len(value) <= 255 for key, value in pairs.items()):
        raise errors.Invalid("A selector's 'metadata' are pairs of texts of at most 255 characters.")
    if len(pairs) > 32:
        raise errors.Invalid("A selector has at most 32 pairs of metadata.")
    if server_group is not None and not ids.is_id(server_group):
        raise errors.Invalid(f"'server_group' must be the id of a server group, not {server_group[:64]!r}.")
    found = Selector({key: str(value) for key, value in pairs.items()}, name or None, server_group)
    if not found:
        raise errors.Invalid(
            "A selector needs 'metadata', a pattern for the 'name', or a 'server_group'; an empty one takes nothing."
        )
    return found


def network(said: str | None) -> str | None:
    """The network that is let in in the place of each node, in the one form that rules have. Raises `Invalid`."""
    if said is None:
        return None
    try:
        client = access_rules.client_of("ip", said.strip())
    except errors.Invalid:
        raise errors.Invalid(f"'network' must be a network such as 10.0.0.0/16, not {said[:64]!r}.") from None
    found = ipaddress.ip_network(client)
    if found.prefixlen < SHORTEST_PREFIX[found.version]:
        shortest = SHORTEST_PREFIX[found.version]
        raise errors.Invalid(f"'network' {said[:64]} lets in too many; say one of /{shortest} or longer.")
    return client


def servers(call: Call, project_id: str, said: Sequence[str]) -> list[str]:
    """The ids of servers of a project, by names, ids and hostlists.

    Raises `NotFound`, `Conflict` for a name of several, and `Invalid` for what is no hostlist.
    """
    names = hostlists.expand(said, domain.MOST_NODES)
    asked = set(names)
    found: dict[str, list[str]] = {}
    for server in _of_project(call, project_id, asked):
        for one in {server.id, server.name} & asked:
            found.setdefault(one, []).append(server.id)
    for one in asked - found.keys():
        if several := begun(call, project_id, one):
            found[one] = several
    missing = [one[:64] for one in names if one not in found]
    if missing:
        raise errors.NotFound(
            f"No server of the project is called {domain.named(missing)}; openstack server list shows those there are."
        )
    for name, several in found.items():
        if len(several) > 1 and name not in several:
            naming.the_one("Server", name, several)
    # who has it for an id goes before who is called so
    return list(dict.fromkeys(one if one in found[one] else found[one][0] for one in names))


def _of_project(call: Call, project_id: str, asked: set[str]) -> Sequence[Server]:
    if len(asked) <= FEW:
        return _few_of_project(call, project_id, sorted(asked))
    wanted = Wanted(
        project_id=project_id,
        only=lambda server: server.name in asked or server.id in asked,
        limit=domain.MOST_NODES + 1,
    )
    found: Sequence[Server] = call.parts.extras["compute"].list(wanted)
    return found


def _few_of_project(call: Call, project_id: str, asked: Sequence[str]) -> Sequence[Server]:
    """One node more for a cluster does not read all servers of its project."""
    if not asked:
        return []
    compute = call.parts.extras["compute"]
    shown = (compute.show(one) for one in asked if ids.is_id(one))
    found = [server for server in shown if server is not None and server.project_id == project_id]
    return [*{server.id: server for server in (*found, *compute.named(project_id, asked))}.values()]


def check_matches(call: Call, project_id: str, group: str, wanted: Selector) -> None:
    """Raises `Conflict` where a selector takes no server there is."""
    asked = Wanted(
        project_id=project_id,
        only=lambda server: wanted.takes(server.name, server.metadata, server.groups),
        limit=1,
        groups=() if wanted.server_group is None else (wanted.server_group,),
    )
    if not call.parts.extras["compute"].list(asked):
        raise errors.Conflict(
            f"The selector of node group {group!r} takes no server of the project. Mend it, or say allow_empty: "
            "then the cluster takes servers as they come."
        )
