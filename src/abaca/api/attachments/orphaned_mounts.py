# SPDX-License-Identifier: Apache-2.0
"""What forced detaching left on machines that could not be entered; it goes by itself when they can."""

from __future__ import annotations

import datetime
from typing import Annotated

from abaca import policy
from abaca.api.attachments.attaching import server_ids
from abaca.db.attachments.orphaned_mounts import ORPHANED_MOUNTS
from abaca.http.bodies import Filters, Text
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import COUNTED, Column, Many, View

INDEX = policy.admin("orphaned_mount:get_all", "List what forced detaching left on machines.")

RESOURCE = Resource("orphaned mounts", "/orphaned-mounts")


class OrphanedMountView(View):
    """A mount that no attachment explains any more: `id` was the attachment's, `machine_id` has the mount."""

    id: str
    server_id: str
    machine_id: str
    mode: str
    tag: str
    mount_point: str
    export_location: Annotated[str, Column("source")]
    attempts: int
    next_try_at: Annotated[datetime.datetime, Column("retry_at")]
    created_at: datetime.datetime


class OrphanedMountFilters(Filters, unknown="refuse"):
    """What the list may be asked for."""

    server_id: Text
    machine_id: Text


@RESOURCE.get(
    policy=INDEX,
    view=Many("orphaned_mounts", OrphanedMountView, links="orphaned_mounts_links", counted=COUNTED),
    filters=OrphanedMountFilters,
)
def index(call: Call, filters: dict[str, str]) -> Listed:
    """The newest first; machines may be said by name."""
    asked = dict(filters)
    for name in ("server_id", "machine_id"):
        if name in filters:
            asked[name] = server_ids(call, [filters[name]])[0]
    with call.db.read() as tx:
        rows = ORPHANED_MOUNTS.rows(tx, call.columns, asked, call.page)
        return Listed(rows, call.count(lambda most: ORPHANED_MOUNTS.count(tx, asked, most)))
