# SPDX-License-Identifier: Apache-2.0
"""Which servers the selectors of a cluster take, as servers come and go."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from abaca.compute.contract import Wanted
from abaca.db.clusters import clusters, nodes
from abaca.domain.clusters.clusters import MOST_NODES, Cluster, NodeGroup

if TYPE_CHECKING:
    from abaca.compute.contract import Server
    from abaca.db.engine.database import Tx
    from abaca.operations.attachments.attachment_parts import Servers

# Servers that are being made, or are broken, are taken when they are ready. What is a node already stays one: it may be
# migrated, rebooted or resized just now.
TAKEN = ("ACTIVE", "SHUTOFF")


def matching(servers: Servers, project_id: str, groups: Sequence[NodeGroup]) -> list[Server]:
    """The servers of a project that any of the groups' selectors takes, the oldest first. Raises `Unavailable`."""
    selectors = [group.selector for group in groups if group.selector]
    if not selectors:
        return []

    def is_taken(server: Server) -> bool:
        return any(one.takes(server.name, server.metadata, server.groups) for one in selectors)

    groups_of_servers = tuple(sorted({one.server_group for one in selectors if one.server_group is not None}))
    asked = Wanted(project_id=project_id, only=is_taken, limit=MOST_NODES, groups=groups_of_servers, descending=False)
    return list(servers.list(asked))


def chosen(
    groups: Sequence[NodeGroup], found: Sequence[Server], now: Mapping[str, Collection[str]], others: Collection[str]
) -> dict[str, list[str]]:
    """By group the servers that its selector takes, each server in the first group that takes it.

    `now` are the nodes that groups have, which stay where they fit; with a count a group takes none of `others`.
    """
    taken: set[str] = set()
    known = {one for ids in now.values() for one in ids}
    ready = [one for one in found if one.status in TAKEN or one.id in known]
    picked: dict[str, list[str]] = {}
    for group in groups:
        if not group.selector:
            taken.update(now.get(group.id, ()))
    for group in groups:
        if not group.selector:
            continue
        takes = group.selector.takes
        fit = [one.id for one in ready if one.id not in taken and takes(one.name, one.metadata, one.groups)]
        if group.count is not None:
            had = set(now.get(group.id, ()))
            staying = [one for one in fit if one in had]
            fit = [*staying, *(one for one in fit if one not in had and one not in others)][: group.count]
        taken.update(fit)
        picked[group.id] = fit
    return picked


def apply(tx: Tx, cluster: Cluster, groups: Sequence[NodeGroup], found: Sequence[Server]) -> bool:
    """Make the nodes those that the selectors take; whether anything changes. The cluster is locked."""
    now = {group.id: nodes.of_group(tx, group.id) for group in groups}
    has_count = any(group.count is not None for group in groups)
    others = nodes.taken(tx, cluster.id, cluster.project_id) if has_count else set()
    has_changed = False
    for group_id, wanted in chosen(groups, found, now, others).items():
        known = set(now[group_id])
        coming = [one for one in wanted if one not in known]
        going = known.difference(wanted)
        nodes.let_go(tx, cluster.id, sorted(going))
        if coming:
            nodes.add(tx, cluster.id, group_id, coming)
        has_changed |= bool(coming or going)
    clusters.note_look(tx, cluster.id)
    return has_changed
