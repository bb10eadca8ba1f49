# SPDX-License-Identifier: Apache-2.0
"""Where the nodes of a cluster have the files that manila:// URLs name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from abaca import errors
from abaca.api.clusters import reading
from abaca.db.clusters import clusters
from abaca.domain.clusters import urls
from abaca.http.bodies import Body, Filters, Flag, Text
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Plain, View
from abaca.operations.clusters import cluster_accept
from abaca.operations.clusters.cluster_accept import Change
from abaca.policy import member, reader

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.clusters.clusters import Cluster
    from abaca.domain.clusters.urls import Named, Place

RESOURCE = Resource("files on clusters", "/clusters")


class PlaceView(View):
    """Where the nodes of a group have a file: its path, and the same as a URL."""

    node_group: str
    path: str
    url: str


class UrlFilters(Filters, unknown="refuse"):
    """Which file."""

    url: Text


class MountUrl(Body, key="file", unknown="refuse", alone=True):
    """A file that all nodes shall have; `read_only` where nobody shall write to its share from there."""

    url: Text
    read_only: Flag = False


_PLACES = Plain("places", list[PlaceView])


@RESOURCE.get(
    "/{id}/files",
    policy=reader("cluster:get_files", "See where the nodes of a cluster have files of shares."),
    view=_PLACES,
    filters=UrlFilters,
)
def find(call: Call, id: str, filters: dict[str, object]) -> list[dict[str, object]]:
    """Where the nodes have what `url` names, `manila://SHARE-ID/PATH`; nothing where no group has that share."""
    if "url" not in filters:
        raise errors.Invalid("Say 'url', such as manila://SHARE-ID/PATH.")
    named = urls.read(str(filters["url"]))
    with call.db.read() as tx:
        return _shown(_places(tx, reading.cluster_for(call, tx, id), named))


@RESOURCE.post(
    "/{id}/files",
    policy=member("cluster:mount_files", "Have the share of a file mounted on all nodes of a cluster."),
    body=MountUrl,
    view=_PLACES,
    status=202,
)
def mount(call: Call, id: str, body: MountUrl) -> list[dict[str, object]]:
    """The same; where no group has the share it is mounted on all nodes, at /mnt/SHARE-ID."""
    named = urls.read(body.url)
    with call.db.read() as tx:
        cluster = reading.cluster_for(call, tx, id)
        id = cluster.id
        if there := _places(tx, cluster, named):
            return _shown(there)
        level = "ro" if body.read_only else "rw"
        wanted = reading.wanted_share(call, tx, cluster.project_id, (named.share_id, None, level))
    with call.db.write() as tx:
        held = clusters.hold(tx, id)
        if held is None:
            raise errors.NotFound(resource="Cluster", id=id)
        if not _places(tx, held, named):
            cluster_accept.change(tx, held, Change(shares=[*held.shares, wanted]), call.caller)
        return _shown(_places(tx, reading.cluster_for(call, tx, id), named))


def _places(tx: Tx, cluster: Cluster, named: Named) -> list[Place]:
    return urls.places(named, cluster, clusters.groups(tx, cluster.id))


def _shown(places: list[Place]) -> list[dict[str, object]]:
    return [{"node_group": one.node_group, "path": one.path, "url": one.url} for one in places]
