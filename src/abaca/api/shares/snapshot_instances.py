# SPDX-License-Identifier: Apache-2.0
"""Snapshot instances: what snapshots are on back ends, for administrators."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from abaca import errors
from abaca.api.shares.share_actions import ResetStatus
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Row
from abaca.db.shares import snapshot_instances as db
from abaca.http.bodies import Filters, Text
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Many, One, View
from abaca.policy import admin

LIST = admin("share_snapshot_instance:index", "List snapshot instances.")
DETAIL = admin("share_snapshot_instance:detail", "List snapshot instances with all their fields.")
SHOW = admin("share_snapshot_instance:show", "See a snapshot instance.")
RESET = admin("share_snapshot_instance:reset_status", "Set the status of a snapshot instance by hand.")

RESOURCE = Resource("snapshot instances", "/snapshot-instances", since="2.19")


class SnapshotInstanceSummary(View):
    """A snapshot instance in a short list."""

    id: str
    snapshot_id: str
    status: str


class SnapshotInstanceView(SnapshotInstanceSummary):
    """A snapshot instance as administrators see it."""

    share_id: str
    share_instance_id: str
    progress: str | None
    provider_location: str | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


class SnapshotInstanceFilters(Filters):
    """What the lists may be asked for."""

    snapshot_id: Text


@RESOURCE.get(
    "/detail", policy=DETAIL, view=Many("snapshot_instances", SnapshotInstanceView), filters=SnapshotInstanceFilters
)
def index_detailed(call: Call, filters: dict[str, object]) -> Sequence[Row]:
    """Those of all projects, with all their fields."""
    return _listed(call, filters)


@RESOURCE.get(policy=LIST, view=Many("snapshot_instances", SnapshotInstanceSummary), filters=SnapshotInstanceFilters)
def index(call: Call, filters: dict[str, object]) -> Sequence[Row]:
    """Those of all projects."""
    return _listed(call, filters)


def _listed(call: Call, filters: dict[str, object]) -> Sequence[Row]:
    with call.db.read() as tx:
        return db.INSTANCES.rows(tx, call.columns, filters, call.page)


@RESOURCE.get("/{id}", policy=SHOW, view=One("snapshot_instance", SnapshotInstanceView))
def show(call: Call, id: str) -> Row:
    """One instance."""
    with call.db.read() as tx:
        return _found(tx, id, call.columns)


@RESOURCE.action("reset_status", policy=RESET, body=ResetStatus, status=202)
def reset_status(call: Call, id: str, body: ResetStatus) -> None:
    """Set its status by hand."""
    if body.status is None:
        raise errors.Invalid("'status' is required.")
    with call.db.write() as tx:
        _found(tx, id, ("id",))
        db.reset(tx, id, body.status)


def _found(tx: Tx, instance_id: str, columns: tuple[str, ...]) -> Row:
    row = db.INSTANCES.one(tx, columns, {"id": instance_id})
    if row is None:
        raise errors.NotFound(resource="Snapshot instance", id=instance_id)
    return row
