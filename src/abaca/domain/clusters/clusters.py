# SPDX-License-Identifier: Apache-2.0
"""A cluster: servers of a project in node groups, and the shares that are wanted on them.

A share of the cluster is wanted on all its nodes, one of a node group on the nodes of that. Where both name a share,
what the cluster says of it replaces what the group says, whole.
"""

from __future__ import annotations

import datetime
import fnmatch
import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from abaca import errors
from abaca.domain.attachments import mount_points
from abaca.domain.shares import access_rules
from abaca.domain.state_machine import StateMachine

CLUSTER = StateMachine(
    "cluster",
    # at                          event      to
    ("none",                      "create",  "creating"),
    (("active", "error"),         "change",  "changing"),
    (("creating", "changing",
      "error"),                   "settled", "active"),  # an error passes by itself, too
    (("creating", "changing",
      "deleting"),                "failed",  "error"),
    ("active",                    "lost",    "error"),  # nodes that fail later are told as well
    (("creating", "active",
      "changing", "error"),       "delete",  "deleting"),
    ("deleting",                  "deleted", "gone"),
    busy=("creating", "changing", "deleting"),
)  # fmt: skip

# The group of a cluster that names none.
ONLY_GROUP = "nodes"
MOST_NODES = 10_000
MOST_GROUPS = 32
MOST_SHARES = 32
# So many names are told in a sentence.
MOST_NAMED = 5

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,62}")


class WantedShare(msgspec.Struct, frozen=True):
    """A share that is wanted, where, and how: the server's `path`, and `rw` or `ro`."""

    id: str
    path: str
    access_level: Literal["rw", "ro"] = "rw"


class Selector(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which servers are taken: those whose metadata has all these pairs, whose name fits a pattern with `*`, `?`, and
    that are in a server group, said by its id.

    An empty one takes none.
    """

    metadata: dict[str, str] = {}
    name: str | None = None
    server_group: str | None = None

    def __bool__(self) -> bool:
        return bool(self.metadata) or self.name is not None or self.server_group is not None

    def takes(self, name: str, metadata: Mapping[str, str], groups: Collection[str] = ()) -> bool:
        """Whether it takes a server of that name and metadata, which is in these server groups."""
        is_named = self.name is None or fnmatch.fnmatchcase(name, self.name)
        is_in = self.server_group is None or self.server_group in groups
        pairs = self.metadata.items()
        return bool(self) and is_named and is_in and all(metadata.get(key) == value for key, value in pairs)


class NodeGroup(msgspec.Struct, frozen=True, gc=False):
    """Nodes of a cluster that are alike. With a selector it takes what fits, of these `count` at most unless None.

    `told` is what the data processing door was told of it beside that, None where it was made at our own.
    """

    id: str
    cluster_id: str
    name: str
    shares: list[WantedShare]
    selector: Selector
    count: int | None
    told: dict[str, object] | None


class Cluster(msgspec.Struct, frozen=True, gc=False):
    """A cluster. Times are naive UTC.

    `wanted` is `present` or `deleted`: where it goes from an error. So many nodes as `tolerance` says may fail before
    it is in error. With `network` its shares let in that network, and no node by itself. `told` is as that of node
    groups. `looked_at` is when its selectors were evaluated, None where it has none. What failed `attempts` times in a
    row is tried again at `retry_at`.
    """

    id: str
    project_id: str
    user_id: str | None
    name: str
    description: str | None
    status: str
    wanted: Literal["present", "deleted"]
    shares: list[WantedShare]
    tolerance: int
    network: str | None
    is_protected: bool
    is_forced: bool
    told: dict[str, object] | None
    looked_at: datetime.datetime | None
    error_code: str | None
    error_text: str | None
    attempts: int
    retry_at: datetime.datetime | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


class Node(msgspec.Struct, frozen=True, gc=False):
    """A server of a cluster. `refusals` say by share why nothing was attached."""

    id: str
    cluster_id: str
    node_group_id: str
    server_id: str
    is_leaving: bool
    refusals: dict[str, str]


class NamedNode(msgspec.Struct, frozen=True, gc=False):
    """The same as it is shown, with the name of a registered server."""

    id: str
    node_group_id: str
    server_id: str
    server_name: str | None
    is_leaving: bool
    refusals: dict[str, str]
    created_at: datetime.datetime


# What can be done about a cluster in error, by the error's code; its nodes say more.
MENDS = {
    "NodesFailed": "See what its nodes say; what is mended there is found by itself. Or let the cluster tolerate more.",
    "NodesLeft": "See what its nodes say; it is tried again by itself. To delete it without them use force.",
    "TooFewServers": "Start more servers that fit the selector, or lower the group's count.",
    "Refused": "Mend what the message says, or take the server or the share out of the cluster; it is tried again.",
}


def mend(error_code: str | None) -> str | None:
    """What to do about an error of this code."""
    return None if error_code is None else MENDS.get(error_code, "Nothing: it is tried again by itself.")


# What is to be read of a node: the shares that it lacks are on their way, it has all, or something keeps them.
NODE_STATES = ("waiting", "mounting", "ready", "off", "error", "leaving")
# How bad the state of an attachment is for its node, the worst last.
RANKS = {"active": 0, "attaching": 1, "remounting": 1, "detaching": 1, "inactive": 2, "error": 3}


def node_state(wanted: int, had: int, worst: int | None, *, is_refused: bool, is_leaving: bool) -> str:
    """The state of a node that shall have so many shares, and has so many of which the worst is of that rank."""
    if is_leaving:
        return "leaving"
    if is_refused or worst == RANKS["error"]:
        return "error"
    if worst == RANKS["inactive"]:
        return "off"
    if had < wanted:
        return "waiting"
    return "mounting" if worst else "ready"


def check_name(name: str, what: str = "cluster") -> str:
    """The name of a cluster or a node group. Raises `Invalid`."""
    if not _NAME.fullmatch(name):
        raise errors.Invalid(
            f"The name of a {what} begins with a letter and has at most 63 letters, digits and the characters . _ -"
        )
    return name


def check_number_of_groups(number: int) -> None:
    """Raises `Invalid` for more node groups than a cluster has."""
    if number > MOST_GROUPS:
        raise errors.Invalid(f"A cluster has at most {MOST_GROUPS} node groups.")


def check_number_of_shares(number: int, where: str) -> None:
    """Raises `Invalid` for more shares than one list has."""
    if number > MOST_SHARES:
        raise errors.Invalid(f"At most {MOST_SHARES} shares are wanted of {where}.")


def check_shares(shares: Sequence[WantedShare], where: str) -> list[WantedShare]:
    """The shares of one list, which `where` says. Raises `Invalid` for one that is named twice, or too many."""
    check_number_of_shares(len(shares), where)
    if twice := _twice(one.id for one in shares):
        raise errors.Invalid(f"Share {twice} is named twice for {where}; name it once.")
    check_paths(shares, where)
    return list(shares)


def wanted_share(share_id: str, path: str | None, access_level: str | None) -> WantedShare:
    """A share as it is wanted: without a path at /mnt/ and its id, without a level to write. Raises `Invalid`."""
    at = mount_points.check(mount_points.default(share_id) if path is None else path)
    return WantedShare(share_id, at, "ro" if access_rules.check_level(access_level) == "ro" else "rw")


def check_paths(shares: Sequence[WantedShare], where: str) -> None:
    """Raises `Invalid` where two of these would be mounted at one place, or one within the other."""
    ordered = sorted(shares, key=lambda one: f"{one.path}/")
    for first, second in itertools.pairwise(ordered):
        if not mount_points.is_within(second.path, first.path):
            continue
        how = f"both at {first.path}" if first.path == second.path else f"one at {second.path}, within {first.path}"
        raise errors.Invalid(
            f"Shares {first.id} and {second.id} would be mounted on the same nodes, {how}: {where}. "
            "Give one of them another path."
        )


def effective(of_cluster: Sequence[WantedShare], of_group: Sequence[WantedShare]) -> list[WantedShare]:
    """What is wanted on each node of a group: a share of the cluster replaces the group's entry whole."""
    known = {one.id for one in of_cluster}
    return [*of_cluster, *(one for one in of_group if one.id not in known)]


def on_every_node(of_cluster: Sequence[WantedShare], of_groups: Sequence[Sequence[WantedShare]]) -> list[WantedShare]:
    """What is wanted on the nodes of each of some groups, at the same place and level."""
    first, *others = [effective(of_cluster, one) for one in of_groups] or [list(of_cluster)]
    return [one for one in first if all(one in other for other in others)]


def check_together(of_cluster: Sequence[WantedShare], groups: Mapping[str, Sequence[WantedShare]]) -> None:
    """Raises `Invalid` where what is wanted by any route meets on a node; `groups` are their shares by name."""
    for name, shares in groups.items():
        check_paths(effective(of_cluster, shares), f"nodes of group {name!r}")


def named(names: Sequence[str]) -> str:
    """Some names for a sentence, and how many more there are."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _twice(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for one in names:
        if one in seen:
            return one
        seen.add(one)
    return None
