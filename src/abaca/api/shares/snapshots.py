# SPDX-License-Identifier: Apache-2.0
"""Snapshots of shares: take, show, list, update and delete them, and set their status by hand."""

from __future__ import annotations

import datetime
from typing import Annotated

from abaca import errors
from abaca.api.shares.lookups import share_held_for_change
from abaca.api.shares.share_actions import ResetStatus, refused_as
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Row
from abaca.db.shares import snapshot_instances
from abaca.db.shares import snapshots as db
from abaca.domain import metadata
from abaca.domain.shares.snapshots import Snapshot
from abaca.http.bodies import (
    UNSET,
    Also,
    Body,
    Filters,
    Name,
    Object,
    Pairs,
    Scalar,
    Text,
    UnsetType,
    Whole,
    among,
    flag,
)
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import AdminOnly, Computed, Counted, Link, Many, Named, One, Since, View
from abaca.operations.shares import snapshot_create, snapshot_delete
from abaca.policy import admin, member, reader

LIST_ALL_PROJECTS = admin("share_snapshot:list_all_projects", "List the snapshots of all projects.")
LIST = reader("share_snapshot:get_all_snapshots", "List snapshots.")
SHOW = reader("share_snapshot:get_snapshot", "See a snapshot.")
CREATE = member("share:create_snapshot", "Take a snapshot of a share.")
UPDATE = member("share:snapshot_update", "Change a snapshot's name and description.")
DELETE = member("share:delete_snapshot", "Delete a snapshot.")
FORCE_DELETE = admin("share_snapshot:force_delete", "Delete a snapshot whatever its status.")
RESET = admin("share_snapshot:reset_status", "Set the status of a snapshot by hand.")

RESOURCE = Resource("snapshots", "/snapshots", rules=(LIST_ALL_PROJECTS,))

LINKS = Computed(lambda call, snapshot_id: call.links("snapshots", snapshot_id), needs=("id",))


class SnapshotSummary(View):
    """A snapshot in a short list."""

    id: str
    name: str | None
    links: Annotated[list[Link], LINKS]


class SnapshotView(View):
    """A snapshot as the API shows it; sizes are in GiB."""

    id: str
    share_id: str
    share_size: int
    created_at: datetime.datetime
    status: str
    name: str | None
    description: str | None
    size: int
    share_proto: str
    links: Annotated[list[Link], LINKS]
    provider_location: Annotated[str | None, Since("2.12"), AdminOnly()]
    user_id: Annotated[str | None, Since("2.17")]
    project_id: Annotated[str, Since("2.17")]
    metadata: Annotated[dict[str, str], Since("2.73")]


def _is_forced(said: object) -> bool:
    """What is no boolean says no, as clients know it."""
    try:
        return flag("force", said)
    except errors.Invalid:
        return False


class CreateSnapshot(Body, key="snapshot", missing=422):
    """What a new snapshot shall be."""

    share_id: Text
    name: Annotated[Name | None, Also("display_name")] = None
    description: Annotated[Name | None, Also("display_description")] = None
    force: Annotated[bool, Scalar(_is_forced, "a boolean", {"description": "A boolean; anything else is no."})] = False
    metadata: Annotated[Object | None, Since("2.73")] = None


class UpdateSnapshot(Body, key="snapshot", missing=422):
    """What may change about a snapshot by hand."""

    display_name: Name | UnsetType | None = UNSET
    display_description: Name | UnsetType | None = UNSET


class SnapshotFilters(Filters):
    """What a list of snapshots may be asked for."""

    name: Annotated[Text, Also("display_name")]
    description: Annotated[Text, Since("2.36")]
    name_like: Annotated[Text, Since("2.36"), Named("name~")]
    description_like: Annotated[Text, Since("2.36"), Named("description~")]
    status: Text
    share_id: Text
    size: Whole
    usage: Annotated[str, among(("any", "used", "unused"))]
    project_id: Text
    metadata: Annotated[Pairs, Since("2.73")]


@RESOURCE.get(
    "/detail",
    policy=LIST,
    view=Many("snapshots", SnapshotView, links="share_snapshots_links", counted=Counted("2.79")),
    filters=SnapshotFilters,
)
def index_detailed(call: Call, filters: dict[str, object]) -> Listed:
    """Snapshots with all their fields."""
    return _listed(call, filters)


@RESOURCE.get(
    policy=LIST,
    view=Many("snapshots", SnapshotSummary, links="share_snapshots_links", counted=Counted("2.79")),
    filters=SnapshotFilters,
)
def index(call: Call, filters: dict[str, object]) -> Listed:
    """Snapshots by id and name."""
    return _listed(call, filters)


def _listed(call: Call, filters: dict[str, object]) -> Listed:
    asked = {**filters, **call.project_filter(LIST_ALL_PROJECTS)}
    with call.db.read() as tx:
        rows = db.SNAPSHOTS.rows(tx, call.columns, asked, call.page)
        count = call.count(lambda most: db.SNAPSHOTS.count(tx, asked, most))
    return Listed(rows, count)


@RESOURCE.get("/{id}", policy=SHOW, view=One("snapshot", SnapshotView))
def show(call: Call, id: str) -> Row:
    """One snapshot."""
    with call.db.read() as tx:
        return snapshot_for_look(call, tx, id, call.columns)


@RESOURCE.post(policy=CREATE, body=CreateSnapshot, view=One("snapshot", SnapshotView), status=202)
def create(call: Call, body: CreateSnapshot) -> Row | None:
    """Accept a new snapshot; the back end takes it meanwhile, and `status` tells how that ended."""
    wanted = snapshot_create.Wanted(
        share_id=body.share_id,
        name=body.name,
        description=body.description,
        metadata=metadata.check(body.metadata) if body.metadata is not None else {},
        force=body.force,
    )
    with call.db.write() as tx:
        share_held_for_change(call, tx, body.share_id)
        return db.show(tx, snapshot_create.start(tx, wanted, call.caller, call.settings), call.columns)


@RESOURCE.put("/{id}", policy=UPDATE, body=UpdateSnapshot, view=One("snapshot", SnapshotView))
def update(call: Call, id: str, body: UpdateSnapshot) -> Row | None:
    """Change name or description."""
    sent = {"name": body.display_name, "description": body.display_description}
    values = {name: value for name, value in sent.items() if value is not UNSET}
    with call.db.write() as tx:
        snapshot_held_for_change(call, tx, id)
        if values:
            db.update(tx, id, values)
        return db.show(tx, id, call.columns)


@RESOURCE.delete("/{id}", policy=DELETE, status=202)
def delete(call: Call, id: str) -> None:
    """Take it away for good."""
    with call.db.write() as tx, refused_as(errors.Invalid):
        snapshot_delete.start(tx, snapshot_held_for_change(call, tx, id), call.caller)


@RESOURCE.action("force_delete", formerly=("os-force_delete", "2.6"), policy=FORCE_DELETE, status=202)
def force_delete(call: Call, id: str) -> None:
    """Take it away whatever its status."""
    with call.db.write() as tx, refused_as(errors.Forbidden):
        snapshot_delete.start(tx, snapshot_held_for_change(call, tx, id), call.caller, event="force_delete")


@RESOURCE.action("reset_status", formerly=("os-reset_status", "2.6"), body=ResetStatus, policy=RESET, status=202)
def reset_status(call: Call, id: str, body: ResetStatus) -> None:
    """Set the status by hand."""
    if body.status is None:
        raise errors.Invalid("'status' is required.")
    with call.db.write() as tx:
        snapshot_instances.reset(tx, snapshot_for_change(call, tx, id).instance_id, body.status)


# ---------------------------------------------------------------- looking up


def snapshot_for_look(call: Call, tx: Tx, snapshot_id: str, names: tuple[str, ...]) -> Row:
    """The columns `names` of a snapshot that the caller may see. Raises NotFound."""
    row = db.show(tx, snapshot_id, names if "project_id" in names else (*names, "project_id"))
    if row is None:
        raise errors.NotFound(resource="Snapshot", id=snapshot_id)
    call.visible(row.project_id, "Snapshot", snapshot_id)
    return row


def snapshot_for_change(call: Call, tx: Tx, snapshot_id: str) -> Snapshot:
    """A snapshot that the caller wants to change. Raises NotFound."""
    snapshot = db.find(tx, snapshot_id)
    if snapshot is None:
        raise errors.NotFound(resource="Snapshot", id=snapshot_id)
    call.visible(snapshot.project_id, "Snapshot", snapshot_id)
    return snapshot


def snapshot_held_for_change(call: Call, tx: Tx, snapshot_id: str) -> Snapshot:
    """The same, which nobody else changes until this transaction ends: meanwhile it passes to no other project."""
    snapshot_instances.lock(tx, snapshot_for_change(call, tx, snapshot_id).instance_id)
    return snapshot_for_change(call, tx, snapshot_id)
