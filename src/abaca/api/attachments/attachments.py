# SPDX-License-Identifier: Apache-2.0
"""Attachments: which share is wanted on which server, where, and how it stands with that."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Annotated

from abaca import errors
from abaca.api.administration import rule_locks
from abaca.api.attachments import attaching, lookups
from abaca.api.shares.lookups import share_id_of
from abaca.db.attachments import attachments
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Row
from abaca.db.shares import shares
from abaca.domain.attachments import attachments as domain
from abaca.domain.attachments.attachments import Attachment
from abaca.http import bodies
from abaca.http.bodies import UNSET, Body, Filters, IdPrefix, Text, UnsetType, among
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import COUNTED, Column, Computed, Many, One, Plain, View
from abaca.operations.attachments import (
    attachment_accept,
    attachment_clusters,
    attachment_detach,
    attachment_rules,
    attachment_verify,
)
from abaca.policy import admin, member, reader

LIST_ALL_PROJECTS = admin("attachment:list_all_projects", "List the attachments of all projects.")
LIST = reader("attachment:get_all", "List attachments.")
SHOW = reader("attachment:get", "See an attachment.")
CREATE = member("attachment:create", "Attach a share to servers.")
DELETE = member("attachment:delete", "Detach a share from a server.")
VERIFY = member("attachment:verify", "Have an attachment looked at, and made true again.")

RESOURCE = Resource("attachments", "/attachments", rules=(LIST_ALL_PROJECTS, attaching.MOUNT_ANYWHERE))

MOST_SERVERS = 1000


def _error(call: Call, code: str | None, text: str | None) -> dict[str, str] | None:
    if code is None:
        return None
    return {"code": code, "message": (text or "") + call.notes.get("in the way", ""), "mend": domain.mend(code) or ""}


class AttachmentView(View):
    """A share on a server: `export_location` is the one in use, `error` says what is wrong and what to do.

    `server_name` is that of a registered server.

    `wanted` is `detached` while it goes; `next_try_at` is when one in error is tried again. What a cluster has attached
    goes with that.
    """

    id: str
    share_id: str
    share_name: str | None
    server_id: str
    server_name: str | None
    project_id: str
    user_id: str | None
    mode: str
    mount_point: str
    tag: str
    access_level: str
    state: str
    wanted: str
    addresses: list[str]
    export_location: Annotated[str | None, Column("source")]
    last_verified_at: datetime.datetime | None
    error: Annotated[dict[str, str] | None, Computed(_error, needs=("error_code", "error_text"))]
    attempts: int
    next_try_at: Annotated[datetime.datetime | None, Column("retry_at")]
    cluster_id: str | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


class RefusedView(View):
    """A server that the share is not attached to, and why."""

    server_id: str
    code: int
    message: str


class AttachedView(View):
    """What came of attaching: `attachment` where one server was asked for, else `attachments` and `refused`."""

    attachment: AttachmentView | UnsetType
    attachments: list[AttachmentView] | UnsetType
    refused: list[RefusedView] | UnsetType


class Attach(Body, key="attachment", unknown="refuse", alone=True):
    """Which share, on which server or servers, by name or id, and how; without `mount_point` it is /mnt/SHARE-ID."""

    share_id: Text
    server_id: Text | None = None
    server_ids: list[Text] | None = None
    mount_point: Text | None = None
    tag: Text | None = None
    access_level: Text | None = None
    mode: Text | None = None


class AttachmentFilters(Filters, unknown="refuse"):
    """What the list may be asked for."""

    share_id: Text
    server_id: Text
    mode: Annotated[str, among(domain.MODES)]
    state: Annotated[str, among(domain.ATTACHMENT.states)]
    id: Text
    id_prefix: IdPrefix


@RESOURCE.get(
    policy=LIST,
    view=Many("attachments", AttachmentView, links="attachments_links", counted=COUNTED),
    filters=AttachmentFilters,
)
def index(call: Call, filters: dict[str, object]) -> Listed:
    """Attachments, the newest first; the share and the server may be said by name."""
    asked = {**filters, **call.project_filter(LIST_ALL_PROJECTS)}
    if "server_id" in asked:
        asked["server_id"] = attaching.server_ids(call, [str(asked["server_id"])])[0]
    with call.db.read() as tx:
        if "share_id" in asked:
            asked["share_id"] = share_id_of(call, tx, str(asked["share_id"]))
        rows = attachments.ATTACHMENTS.rows(tx, call.columns, asked, call.page)
        return Listed(rows, call.count(lambda most: attachments.ATTACHMENTS.count(tx, asked, most)))


@RESOURCE.get("/{id}", policy=SHOW, view=One("attachment", AttachmentView))
def show(call: Call, id: str) -> Row:
    """One attachment; where an access rule stands in its way that the caller may see, `error` says which."""
    with call.db.read() as tx:
        found = _found(call, tx, lookups.attachment_id_of(call, tx, id), call.columns)
        if found.error_code == attachment_rules.REFUSED:
            call.notes["in the way"] = _in_the_way(call, tx, found)
        return found


@RESOURCE.post(policy=CREATE, body=Attach, view=Plain(None, AttachedView), status=202)
def create(call: Call, body: Attach) -> dict[str, object]:
    """Attach a share: with `server_id` the answer is the `attachment`, with `server_ids` the `attachments`.

    Of many servers some may be refused: `refused` says which, and why; the others are attached.
    """
    if (body.server_id is None) == (body.server_ids is None):
        raise errors.Invalid("Say 'server_id' for one server or 'server_ids' for many, and not both.")
    with call.db.read() as tx:
        share_id = share_id_of(call, tx, body.share_id)
    if body.server_id is not None:
        done = attaching.attach(call, share_id, attaching.server_ids(call, [body.server_id]), _request(body))
        return {"attachment": _rows(call, done.ids)[0], "attachments": UNSET, "refused": UNSET}
    if not 1 <= len(body.server_ids or []) <= MOST_SERVERS:
        raise errors.Invalid(f"'server_ids' must name 1 to {MOST_SERVERS} servers.")
    ids = list(dict.fromkeys(attaching.server_ids(call, body.server_ids or [])))
    done = attaching.attach(call, share_id, ids, _request(body))
    refused = [
        {"server_id": server_id, "code": error.status, "message": error.message} for server_id, error in done.refused
    ]
    return {"attachment": UNSET, "attachments": _rows(call, done.ids), "refused": refused}


@RESOURCE.delete("/{id}", policy=DELETE, status=202)
def delete(call: Call, id: str) -> None:
    """Detach; with `?force=true` open files lose the share, and a machine that does not answer is given up."""
    force = bodies.flag("force", call.query.get("force", "false"))
    with call.db.write() as tx:
        row = _locked(call, tx, lookups.attachment_id_of(call, tx, id))
        attachment_clusters.refuse_owned(row)
        attachment_detach.start(tx, row, call.caller, force=force)


@RESOURCE.post("/{id}/verify", policy=VERIFY, view=One("attachment", AttachmentView), status=202)
def verify(call: Call, id: str) -> Row:
    """Look at the machine now, and make it true where it is not; one that is well stays `active`.

    `last_verified_at` tells when that was done. With `?force=true` one whose export has moved follows it at once:
    processes lose the files that they have open.
    """
    force = bodies.flag("force", call.query.get("force", "false"))
    with call.db.write() as tx:
        id = lookups.attachment_id_of(call, tx, id)
        attachment_verify.ask(tx, _locked(call, tx, id), call.caller, force=force)
        return _found(call, tx, id, call.columns)


def _request(body: Attach) -> attachment_accept.AttachmentRequest:
    return attachment_accept.AttachmentRequest(
        mount_point=body.mount_point, tag=body.tag, access_level=body.access_level, mode=body.mode
    )


def _rows(call: Call, ids: Sequence[str]) -> list[Row]:
    columns = call.shape(AttachmentView).columns
    with call.db.read() as tx:
        rows = [attachments.ATTACHMENTS.one(tx, columns, {"id": one}) for one in ids]
    return [row for row in rows if row is not None]


def _found(call: Call, tx: Tx, attachment_id: str, columns: tuple[str, ...]) -> Row:
    row = attachments.ATTACHMENTS.one(tx, columns, {"id": attachment_id})
    if row is None:
        raise errors.NotFound(resource="Attachment", id=attachment_id)
    call.visible(row.project_id, "Attachment", attachment_id)
    return row


def _in_the_way(call: Call, tx: Tx, row: Row) -> str:
    rules = attachment_rules.in_the_way(tx, row.share_id, row.addresses, row.access_level)
    hidden = rule_locks.hide_some(call, tx, row.share_id)
    said = [
        f"rule {rule.id}, which a user made, lets {rule.client} only read" for rule in rules if rule.id not in hidden
    ]
    return f" ({'; '.join(said)})" if said else ""


def _locked(call: Call, tx: Tx, attachment_id: str) -> Attachment:
    """The attachment, with its share locked: nobody else attaches or detaches that meanwhile."""
    share_id = _found(call, tx, attachment_id, ("share_id", "project_id")).share_id
    shares.lock(tx, share_id)
    row = attachments.show(tx, attachment_id)
    if row is None:
        raise errors.NotFound(resource="Attachment", id=attachment_id)
    return row
