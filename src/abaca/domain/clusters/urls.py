# SPDX-License-Identifier: Apache-2.0
"""manila:// URLs, in which jobs name files of shares: `manila://SHARE-ID/PATH`, and where a cluster has these files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from abaca import errors
from abaca.domain import ids
from abaca.domain.clusters.clusters import Cluster, NodeGroup, effective

LONGEST = 2048


class Named(NamedTuple):
    """What a URL names: a share, and a normalised path in it that begins with a slash."""

    share_id: str
    path: str


class Place(NamedTuple):
    """Where the nodes of a group have what a URL names."""

    node_group: str
    path: str

    @property
    def url(self) -> str:
        """For programs on these nodes."""
        return f"file://{quote(self.path)}"


def read(url: str) -> Named:
    """What a URL names. Raises `Invalid`."""
    if len(url) > LONGEST:
        raise errors.Invalid(f"A URL has at most {LONGEST} characters.")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise errors.Invalid(f"{url[:64]!r} is no URL such as manila://SHARE-ID/PATH.") from None
    if parts.scheme != "manila" or not ids.is_id(parts.netloc):
        raise errors.Invalid(f"{url[:64]!r} is no URL of a share: it begins with manila:// and the share's id.")
    if parts.query or parts.fragment or not parts.path.strip("/"):
        raise errors.Invalid(f"{url[:64]!r} names no file: the path in the share stands behind its id.")
    within = parts.path[1:].split("/")
    if "" in within[:-1] or "." in within or ".." in within or not parts.path.isprintable():
        raise errors.Invalid(f"{url[:64]!r} has a path that is not normalised: no '.', '..' and '//' in it.")
    return Named(parts.netloc, parts.path)


def places(named: Named, cluster: Cluster, groups: Sequence[NodeGroup]) -> list[Place]:
    """Where each node group that has the share has it, by name."""
    return [
        Place(group.name, f"{one.path}{named.path}")
        for group in groups
        for one in effective(cluster.shares, group.shares)
        if one.id == named.share_id
    ]
