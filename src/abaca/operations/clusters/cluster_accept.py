# SPDX-License-Identifier: Apache-2.0
"""Accept clusters and what shall change of them: rows and operation in the one transaction that makes them exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from abaca import errors
from abaca.db.clusters import clusters, nodes
from abaca.domain.clusters import clusters as domain
from abaca.domain.clusters.clusters import Cluster, NodeGroup, WantedShare
from abaca.operations.clusters import cluster_change

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.journal.requester import Requester


class GroupChange(msgspec.Struct, frozen=True, kw_only=True):
    """A node group as it shall be, and which servers become its nodes, or are no more."""

    group: NodeGroup
    is_new: bool
    add: Sequence[str] = ()
    remove: Sequence[str] = ()


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What shall be of a cluster: its own columns, and its groups; what is not said stays. `gone` are ids of groups."""

    values: Mapping[str, object] = {}
    shares: Sequence[WantedShare] | None = None
    groups: Sequence[GroupChange] = ()
    gone: Sequence[str] = ()

    @property
    def moves_nodes(self) -> bool:
        """Whether nodes come or go."""
        return bool(self.gone) or any(one.add or one.remove or one.group.selector for one in self.groups)


def create(tx: Tx, change: Change, by: Requester) -> str:
    """Write down a cluster and its groups; its id. Raises `Invalid` and `Conflict`."""
    _check(change.shares or (), [one.group for one in change.groups])
    row = {"shares": msgspec.to_builtins(change.shares or ())}
    cluster_id = clusters.add(tx, {**change.values, **row, "user_id": by.user_id})
    _note_selectors(tx, cluster_id, [one.group for one in change.groups])
    for one in change.groups:
        clusters.add_group(tx, cluster_id, one.group)
        nodes.add(tx, cluster_id, one.group.id, one.add)
    cluster_change.start(tx, cluster_id, by, "create")
    return cluster_id


def change(tx: Tx, cluster: Cluster, wanted: Change, by: Requester) -> None:
    """Change a cluster, which is locked: only what differs is done. Raises `Invalid` and `Conflict`."""
    if cluster.wanted == "deleted":
        raise errors.Conflict(f"Cluster {cluster.id} is being deleted; nothing of it can be changed.")
    changed = {one.group.id: one.group for one in wanted.groups}
    before = clusters.groups(tx, cluster.id)
    groups = [changed.get(one.id, one) for one in before if one.id not in wanted.gone]
    groups += [one.group for one in wanted.groups if one.is_new]
    _refuse_leaving(tx, cluster, wanted)
    shares = cluster.shares if wanted.shares is None else wanted.shares
    _check(shares, groups)
    clusters.update(tx, cluster.id, {**wanted.values, "shares": msgspec.to_builtins(shares)})
    _note_selectors(tx, cluster.id, groups)
    # first who goes: a node that moves from one group to another is named for both
    for group_id in wanted.gone:
        clusters.let_group_go(tx, group_id)
        nodes.let_group_go(tx, group_id)
    for one in wanted.groups:
        nodes.let_go(tx, cluster.id, one.remove)
    for one in wanted.groups:
        _change_group(tx, cluster, one)
    if sum(nodes.count(tx, [cluster.id]).values()) > domain.MOST_NODES:
        raise errors.Invalid(f"A cluster has at most {domain.MOST_NODES} nodes.")
    if (
        wanted.moves_nodes
        or wanted.groups
        or wanted.shares is not None
        or {"tolerance", "network"} & wanted.values.keys()
    ):
        # one that is on its way already is told what is new by its next operation
        clusters.STATUS.try_move(tx, cluster.id, "change")
        cause: cluster_change.Cause = "scale" if wanted.moves_nodes else "change"
        cluster_change.start(tx, cluster.id, by, cause, _only(cluster, wanted, before))


def _only(cluster: Cluster, wanted: Change, before: Sequence[NodeGroup]) -> nodes.Only:
    """The servers on which alone a change makes a difference; None where it may on any, or where anything is amiss."""
    named = {server_id for one in wanted.groups for server_id in (*one.add, *one.remove)}
    is_well = cluster.status == "active" and cluster.retry_at is None
    had = {one.id: one.shares for one in before}
    others = bool(wanted.gone) or wanted.shares is not None or bool({"tolerance", "network"} & wanted.values.keys())
    others = others or cluster.looked_at is not None or any(one.group.selector for one in wanted.groups)
    others = others or any(one.group.shares != had.get(one.group.id, one.group.shares) for one in wanted.groups)
    return sorted(named) if is_well and named and not others and len(named) <= nodes.AT_ONCE else None


def _refuse_leaving(tx: Tx, cluster: Cluster, wanted: Change) -> None:
    """Raises `Conflict` for a new group of a name that one has which is not gone yet."""
    leaving = clusters.leaving_groups(tx, cluster.id)
    for one in wanted.groups:
        if one.is_new and one.group.name in leaving:
            raise errors.Conflict(
                f"Node group {one.group.name!r} is being removed; make it anew when its last node is gone."
            )


def _change_group(tx: Tx, cluster: Cluster, one: GroupChange) -> None:
    if one.is_new:
        clusters.add_group(tx, cluster.id, one.group)
    else:
        clusters.update_group(tx, one.group)
    nodes.add(tx, cluster.id, one.group.id, one.add)


def _note_selectors(tx: Tx, cluster_id: str, groups: Sequence[NodeGroup]) -> None:
    if any(group.selector for group in groups):
        clusters.note_look(tx, cluster_id)


def _check(shares: Sequence[WantedShare], groups: Sequence[NodeGroup]) -> None:
    domain.check_number_of_groups(len(groups))
    domain.check_shares(shares, "the cluster")
    for group in groups:
        domain.check_shares(group.shares, f"node group {group.name!r}")
    domain.check_together(shares, {group.name: group.shares for group in groups})
