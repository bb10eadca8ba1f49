# SPDX-License-Identifier: Apache-2.0
"""Share servers: what serves the shares of share networks, for administrators."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import structs

from abaca import errors
from abaca.api.networks.lookups import asks_for_nothing, rows
from abaca.db.engine.database import Tx
from abaca.db.networks import share_servers as db
from abaca.domain.networks.share_servers import NamedShareServer
from abaca.domain.shares.shares import check_task_state
from abaca.http.bodies import Body, Filters, Text
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Computed, Many, One, Plain, Since, Until, View
from abaca.operations.networks import share_server_delete
from abaca.policy import admin

LIST = admin("share_server:index", "List share servers.")
SHOW = admin("share_server:show", "See a share server.")
DETAILS = admin("share_server:details", "See what its back end says of a share server.")
DELETE = admin("share_server:delete", "Delete a share server.")
RESET = admin("share_server:reset_status", "Set a share server's status by hand.")
RESET_TASK = admin("share_server:share_server_reset_task_state", "Set by hand the step of a migration that it shows.")

RESOURCE = Resource("share servers", "/share-servers")

# Share servers do not move yet.
NONE = Computed(lambda _call: None)


class ShareServerListed(View):
    """A share server in a list; its host is host@backend."""

    id: str
    project_id: str
    updated_at: datetime.datetime | None
    status: str
    host: str
    share_network_name: str | None
    share_network_id: str | None
    is_auto_deletable: Annotated[bool, Since("2.49")]
    identifier: Annotated[str | None, Since("2.49")]
    share_network_subnet_id: Annotated[str | None, Since("2.51"), Until("2.69")]
    task_state: Annotated[str | None, Since("2.57")]
    source_share_server_id: Annotated[None, Since("2.57"), NONE]
    security_service_update_support: Annotated[bool, Since("2.63")]
    share_network_subnet_ids: Annotated[list[str], Since("2.70")]
    network_allocation_update_support: Annotated[bool, Since("2.70")]
    encryption_key_ref: Annotated[str | None, Since("2.90")]


class ShareServerView(ShareServerListed):
    """One share server, with what its driver says of it."""

    created_at: datetime.datetime
    backend_details: dict[str, str]


class ShareServerFilters(Filters):
    """What share servers can be listed by; `share_network` is an id or a name."""

    host: Text
    status: Text
    share_network: Text
    share_network_id: Text
    share_network_subnet_id: Text
    project_id: Text
    identifier: Text
    source_share_server_id: Text
    encryption_key_ref: Annotated[Text, Since("2.90")]


class ResetStatus(Body):
    """The status to set."""

    status: Text


class ResetTaskState(Body):
    """The step of a migration to show; null for none."""

    task_state: Text | None


@RESOURCE.get(policy=LIST, view=Many("share_servers", ShareServerListed), filters=ShareServerFilters)
def index(call: Call, filters: dict[str, object]) -> Listed:
    """Share servers of all projects."""
    if filters.pop("source_share_server_id", None) is not None or asks_for_nothing(call, ShareServerFilters):
        return Listed([])  # none has moved here from another one
    with call.db.read() as tx:
        page = db.SHARE_SERVERS.entities(tx, NamedShareServer, filters, call.page)
        subnets = db.subnets_of(tx, [one.id for one in page])
    return Listed(rows(call, (shown(one, subnets.get(one.id, [])) for one in page)))


@RESOURCE.get("/{id}", policy=SHOW, view=One("share_server", ShareServerView))
def show(call: Call, id: str) -> dict[str, object]:
    """One share server."""
    with call.db.read() as tx:
        return shown(found(tx, id), db.subnets_of(tx, [id]).get(id, []))


@RESOURCE.get("/{id}/details", policy=DETAILS, view=Plain("details", dict[str, str]))
def details(call: Call, id: str) -> Mapping[str, str]:
    """What its driver says of it."""
    with call.db.read() as tx:
        return found(tx, id).details


@RESOURCE.delete("/{id}", policy=DELETE, status=202)
def delete(call: Call, id: str) -> None:
    """Take one away on which no share is."""
    with call.db.write() as tx:
        server = found(tx, id)
        try:
            share_server_delete.start(tx, server, call.caller)
        except share_server_delete.InUse:
            raise
        except errors.Conflict as conflict:
            raise errors.Forbidden(conflict.message) from None


@RESOURCE.action("reset_status", policy=RESET, body=ResetStatus, since="2.49", status=202)
def reset_status(call: Call, id: str, body: ResetStatus) -> None:
    """Set the status by hand."""
    with call.db.write() as tx:
        found(tx, id)
        db.reset(tx, id, body.status)


@RESOURCE.action(
    "reset_task_state", policy=RESET_TASK, body=ResetTaskState, since="2.57", experimental=("2.57", None), status=202
)
def reset_task_state(call: Call, id: str, body: ResetTaskState) -> None:
    """Set the step of a migration that it shows; clients clear it whenever they set its status."""
    state = check_task_state(body.task_state)
    with call.db.write() as tx:
        found(tx, id)
        db.TASK_STATE.reset(tx, id, state)


def found(tx: Tx, server_id: str) -> NamedShareServer:
    """One with the name of its share network. Raises `NotFound`."""
    server = db.SHARE_SERVERS.entity(tx, NamedShareServer, {"id": server_id})
    if server is None:
        raise errors.NotFound(resource="Share server", id=server_id)
    return server


def shown(server: NamedShareServer, subnet_ids: Sequence[str]) -> dict[str, object]:
    """Whatever a version shows of it; of old it had one subnet at most."""
    return {
        **structs.asdict(server),
        "backend_details": server.details,
        "share_network_subnet_ids": subnet_ids,
        "share_network_subnet_id": subnet_ids[0] if subnet_ids else None,
    }
