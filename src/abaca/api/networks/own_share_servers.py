# SPDX-License-Identifier: Apache-2.0
"""Share servers by Abaca's own door: what they can, until it is said anew, and how one that has failed serves again."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import structs

from abaca import errors
from abaca.api import naming
from abaca.api.networks.lookups import A_SHARE_SERVER, rows, share_network_id_of
from abaca.api.networks.share_servers import LIST
from abaca.db.networks import share_servers as db
from abaca.domain.networks.share_servers import CAPABILITIES, SHARE_SERVER, NamedShareServer
from abaca.http.bodies import UNSET, Body, Filters, Flag, IdPrefix, Text, UnsetType, among
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import COUNTED, Many, One, View
from abaca.operations.networks import share_server_mend
from abaca.policy import admin

UPDATE = admin("share_server:update_capabilities", "Say what a share server can.")
MEND = admin("share_server:mend", "Have a share server made on its back end what the database says.")

RESOURCE = Resource("what share servers can", "/share-servers")


class CapableView(View):
    """A share server; its host is host@backend."""

    id: str
    project_id: str
    host: str
    status: str
    share_network_id: str | None
    share_network_name: str | None
    share_network_subnet_ids: list[str]
    security_service_update_support: bool
    network_allocation_update_support: bool
    share_server_multiple_subnet_support: bool
    unused_since: datetime.datetime | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


class CapableFilters(Filters, unknown="refuse"):
    """What share servers can be listed by."""

    id_prefix: IdPrefix
    host: Text
    status: Annotated[str, among(SHARE_SERVER.values)]
    share_network_id: Text
    project_id: Text


class Capabilities(Body, key="share_server", unknown="refuse"):
    """What it can from now on; what is not said stays."""

    security_service_update_support: Flag | UnsetType = UNSET
    network_allocation_update_support: Flag | UnsetType = UNSET
    share_server_multiple_subnet_support: Flag | UnsetType = UNSET


@RESOURCE.get(
    policy=LIST,
    view=Many("share_servers", CapableView, links="share_servers_links", counted=COUNTED),
    filters=CapableFilters,
)
def index(call: Call, filters: dict[str, object]) -> Listed:
    """Share servers of all projects."""
    with call.db.read() as tx:
        if "share_network_id" in filters:
            network_id = share_network_id_of(call, tx, str(filters["share_network_id"]))
            filters = {**filters, "share_network_id": network_id}
        found = db.SHARE_SERVERS.entities(tx, NamedShareServer, filters, call.page)
        subnets = db.subnets_of(tx, [one.id for one in found])
        count = call.count(lambda most: db.SHARE_SERVERS.count(tx, filters, most))
    return Listed(rows(call, (_shown(one, subnets) for one in found)), count)


@RESOURCE.put("/{id}", policy=UPDATE, view=One("share_server", CapableView), body=Capabilities)
def update(call: Call, id: str, body: Capabilities) -> dict[str, object]:
    """Say what a share server can, where the database has it otherwise; its back end is not asked."""
    values = {name: said for name in CAPABILITIES if (said := getattr(body, name)) is not UNSET}
    if not values:
        raise errors.Invalid(f"Send at least one of: {', '.join(CAPABILITIES)}.")
    with call.db.write() as tx:
        id = naming.id_of(call, tx, A_SHARE_SERVER, id)
        db.hold(tx, id)
        if db.show(tx, id) is None:
            raise errors.NotFound(resource="Share server", id=id)
        db.update(tx, id, values)
        (found,) = db.SHARE_SERVERS.entities(tx, NamedShareServer, {"id": id})
        return _shown(found, db.subnets_of(tx, [id]))


@RESOURCE.post("/{id}/mend", policy=MEND, view=One("share_server", CapableView), status=202)
def mend(call: Call, id: str) -> dict[str, object]:
    """Make it on its back end what the database says: on all subnets of its share network, with all its shares.

    One in error is `network_change` until then, and `active` afterwards, and so are its shares `available` that its
    back end serves. When that fails it is in error again, and the operation `share-server-mend` says why.
    """
    with call.db.write() as tx:
        id = naming.id_of(call, tx, A_SHARE_SERVER, id)
        found = db.show(tx, id)
        if found is None:
            raise errors.NotFound(resource="Share server", id=id)
        share_server_mend.retry(tx, found, call.caller)
        (now,) = db.SHARE_SERVERS.entities(tx, NamedShareServer, {"id": id})
        return _shown(now, db.subnets_of(tx, [id]))


def _shown(server: NamedShareServer, subnets: Mapping[str, Sequence[str]]) -> dict[str, object]:
    return {**structs.asdict(server), "share_network_subnet_ids": subnets.get(server.id, [])}
