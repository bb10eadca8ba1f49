# SPDX-License-Identifier: Apache-2.0
"""How a cluster is: what is wanted on its nodes, in which state these are, and what is not as it shall be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from abaca import errors
from abaca.db.clusters import clusters, nodes
from abaca.domain.clusters import clusters as domain
from abaca.domain.clusters.clusters import Cluster, NodeGroup, WantedShare

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx


class NodesFailed(errors.Conflict):
    """{number} of the cluster's nodes do not hold all their shares, and it tolerates {tolerance}: {which}"""

    code = "NodesFailed"


class TooFewServers(errors.Conflict):
    """Group {group} of the cluster wants {count} nodes, and its selector takes only {found} servers that are free."""

    code = "TooFewServers"


def wanted_of(cluster: Cluster, groups: Sequence[NodeGroup]) -> dict[str, list[WantedShare]]:
    """What is wanted on the nodes of each group, by its id."""
    return {group.id: domain.effective(cluster.shares, group.shares) for group in groups}


def states_of(tx: Tx, cluster: Cluster, groups: Sequence[NodeGroup], *, is_done: bool = False) -> dict[str, int]:
    """How many nodes are in each state in which there are any; `is_done` says that nothing is left to be changed."""
    wanted = {group_id: len(found) for group_id, found in wanted_of(cluster, groups).items()}
    # while it changes one node may have too much, and another too little
    ready = _all_ready(tx, cluster, wanted) if is_done or cluster.status == "active" else None
    if ready is not None:
        return {"ready": ready} if ready else {}
    found: dict[str, int] = {}
    for one in nodes.counts(tx, cluster.id):
        state = domain.node_state(
            wanted.get(one.node_group_id, 0), one.had, one.worst, is_refused=one.is_refused, is_leaving=one.is_leaving
        )
        found[state] = found.get(state, 0) + one.number
    return found


def _all_ready(tx: Tx, cluster: Cluster, wanted: Mapping[str, int]) -> int | None:
    """How many nodes there are where all are ready; None where some may not be, and each has to be looked at."""
    active = nodes.number_active(tx, cluster.id)
    numbers = None if active is None else nodes.numbers_at_rest(tx, cluster.id)
    if numbers is None or active != sum(number * wanted.get(group_id, 0) for group_id, number in numbers.items()):
        return None
    return sum(numbers.values())


def problem_of(tx: Tx, cluster: Cluster) -> tuple[errors.AbacaError | None, bool]:
    """What is not as it shall be, None where all is; and whether the cluster tolerates that."""
    groups = clusters.groups(tx, cluster.id)
    for group in groups:
        has = len(nodes.of_group(tx, group.id)) if group.count is not None else 0
        if group.count is not None and has < group.count:
            return TooFewServers(group=group.name, count=group.count, found=has), False
    states = states_of(tx, cluster, groups, is_done=True)
    failing = sum(number for state, number in states.items() if state not in ("ready", "leaving"))
    if not failing and "leaving" not in states:
        return None, True
    found = nodes.problems(tx, cluster.id, domain.MOST_NAMED)
    which = "; ".join(f"{one.server_id}: {_why(one)}" for one in found) or "they change at this moment"
    error = NodesFailed(number=failing + states.get("leaving", 0), tolerance=cluster.tolerance, which=which)
    return error, failing <= cluster.tolerance


def _why(one: nodes.Problem) -> str:
    if one.refusals:
        return next(iter(one.refusals.values()))
    return one.error_text or "it is off, and goes on when it is on"
