# SPDX-License-Identifier: Apache-2.0
"""The shares of a server, as Nova's clients know them, and the two actions that were proposed before those.

Both are views of the same attachments (api/attachments). A server that is off holds its shares `inactive`, and has
them mounted when it is on again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from abaca import errors
from abaca.api.attachments.attaching import attach
from abaca.api.compute.server_views import share_status
from abaca.api.compute.servers import find
from abaca.db.attachments import attachments
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Row
from abaca.db.shares import shares
from abaca.domain.attachments import attachments as domain
from abaca.http.bodies import UNSET, Body, Scalar, Text, UnsetType, Uuid
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import AdminOnly, Column, Computed, Many, One, View
from abaca.operations.attachments import attachment_clusters, attachment_detach
from abaca.operations.attachments.attachment_accept import AttachmentRequest
from abaca.policy import member, reader

INDEX = reader("os_compute_api:os-server-shares:index", "List the shares of a server.")
SHOW = reader("os_compute_api:os-server-shares:show", "See a share of a server.")
CREATE = member("os_compute_api:os-server-shares:create", "Attach a share to a server.")
DELETE = member("os_compute_api:os-server-shares:delete", "Detach a share from a server.")

RESOURCE = Resource("server shares", "/servers", since="2.97")
ACTIONS = Resource("server share actions", "/servers", since="2.1")


class ServerShareListed(View):
    """A share of a server in the list."""

    share_id: str
    status: Annotated[str, Computed(share_status, needs=("state",))]
    tag: str


class ServerShareView(ServerShareListed):
    """The same by itself; `uuid` is the attachment's id."""

    uuid: Annotated[str, Column("id"), AdminOnly()]
    export_location: Annotated[str | None, Column("source"), AdminOnly()]


def _read_tag(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004 (one kind of failure for the reader)
    try:
        return domain.check_tag(value, "")
    except errors.Invalid:
        raise ValueError from None


Tag = Annotated[
    str,
    Scalar(
        _read_tag,
        "1 to 255 letters, digits and '-'",
        {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9-]*$"},
    ),
]


class CreateServerShare(Body, key="share", unknown="refuse", alone=True):
    """Which share; `tag` is the share's id unless it is said."""

    share_id: Uuid
    tag: Tag | UnsetType = UNSET


class ShareAttach(Body, unknown="refuse"):
    """Which share, and where; without `mount_point` it is /mnt/ and the share's id."""

    share_id: Text
    mount_point: Text | None = None


class ShareDetach(Body, unknown="refuse"):
    """Which share; with `mount_point` it must be there."""

    share_id: Text
    mount_point: Text | None = None


@RESOURCE.get("/{server_id}/shares", policy=INDEX, view=Many("shares", ServerShareListed))
def index(call: Call, server_id: str) -> Sequence[Row]:
    """The shares of a server, those attached first at the head."""
    _refuse_query(call)
    find(call, server_id)
    page = call.page._replace(sort_key="created_at", descending=False, marker=None)
    with call.db.read() as tx:
        return attachments.ATTACHMENTS.rows(tx, call.columns, {"server_id": server_id}, page)


@RESOURCE.get("/{server_id}/shares/{share_id}", policy=SHOW, view=One("share", ServerShareView))
def show(call: Call, server_id: str, share_id: str) -> Row:
    """One share of a server."""
    _refuse_query(call)
    find(call, server_id)
    with call.db.read() as tx:
        row = attachments.ATTACHMENTS.one(tx, call.columns, {"server_id": server_id, "share_id": share_id})
    if row is None:
        raise _missing(server_id, share_id)
    return row


@RESOURCE.post(
    "/{server_id}/shares", policy=CREATE, body=CreateServerShare, view=One("share", ServerShareView), status=201
)
def create(call: Call, server_id: str, body: CreateServerShare) -> Row | None:
    """Attach a share to a server; its status tells when it is there."""
    find(call, server_id)
    attach(call, body.share_id, [server_id], AttachmentRequest(tag=body.tag or None))
    with call.db.read() as tx:
        asked = {"server_id": server_id, "share_id": body.share_id}
        return attachments.ATTACHMENTS.one(tx, call.columns, asked)


@RESOURCE.delete("/{server_id}/shares/{share_id}", policy=DELETE)
def delete(call: Call, server_id: str, share_id: str) -> None:
    """Detach a share from a server."""
    find(call, server_id)
    with call.db.write() as tx:
        _detach(call, tx, server_id, share_id, None)


@ACTIONS.action("share_attach", at="/{server_id}/action", policy=CREATE, body=ShareAttach, status=202)
def share_attach(call: Call, server_id: str, body: ShareAttach) -> None:
    """Attach a share to a server, at a mount point."""
    find(call, server_id)
    attach(call, body.share_id, [server_id], AttachmentRequest(mount_point=body.mount_point))


@ACTIONS.action("share_detach", at="/{server_id}/action", policy=DELETE, body=ShareDetach, status=202)
def share_detach(call: Call, server_id: str, body: ShareDetach) -> None:
    """Detach a share from a server."""
    find(call, server_id)
    with call.db.write() as tx:
        _detach(call, tx, server_id, body.share_id, body.mount_point)


def _refuse_query(call: Call) -> None:
    if call.query:
        raise errors.Invalid(f"Nothing is known of {next(iter(call.query))[:64]!r} here: this takes no query.")


def _detach(call: Call, tx: Tx, server_id: str, share_id: str, mount_point: str | None) -> None:
    shares.lock(tx, share_id)
    row = attachments.on_server(tx, server_id, share_id)
    if row is None:
        raise _missing(server_id, share_id)
    if mount_point not in (None, row.mount_point):
        raise errors.Conflict(f"Share {share_id} is at {row.mount_point} on server {server_id}, not where you say.")
    attachment_clusters.refuse_owned(row)
    attachment_detach.start(tx, row, call.caller)


def _missing(server_id: str, share_id: str) -> errors.NotFound:
    return errors.NotFound(f"Share {share_id} is not attached to server {server_id}.")
