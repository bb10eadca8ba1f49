# SPDX-License-Identifier: Apache-2.0
"""Taking snapshots under management that exist on a back end, and releasing them: administrators' work."""

from __future__ import annotations

from typing import Annotated

from abaca import errors
from abaca.api.driver_options import options_of
from abaca.api.shares.lookups import share_held_for_change
from abaca.api.shares.managing import ON_SHARE_SERVERS, needed
from abaca.api.shares.snapshots import SnapshotView, snapshot_held_for_change
from abaca.db.engine.statements import Row
from abaca.db.shares import snapshots as db
from abaca.domain import metadata
from abaca.http.bodies import Also, Body, Name, Object, Text
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import One, Since
from abaca.operations.shares import share_delete, snapshot_manage, snapshot_unmanage
from abaca.policy import admin

MANAGE = admin("share_snapshot:manage_snapshot", "Take a snapshot of a back end under management.")
UNMANAGE = admin("share_snapshot:unmanage_snapshot", "Release a snapshot from management; its data stays.")

RESOURCE = Resource("snapshots under management", "/snapshots", since="2.12")


class ManageSnapshot(Body, key="snapshot", missing=422):
    """Of which share it is, what its back end calls it, and what it shall be called here."""

    share_id: Text | None = None
    provider_location: Name | None = None
    name: Annotated[Name | None, Also("display_name")] = None
    description: Annotated[Name | None, Also("display_description")] = None
    driver_options: Object | None = None
    metadata: Annotated[Object | None, Since("2.73")] = None


@RESOURCE.post("/manage", policy=MANAGE, body=ManageSnapshot, view=One("snapshot", SnapshotView), status=202)
def manage(call: Call, body: ManageSnapshot) -> Row | None:
    """Accept it; a worker looks for it meanwhile, and `status` tells how that ended."""
    wanted = snapshot_manage.Found(
        share_id=needed("share_id", body.share_id),
        provider_location=needed("provider_location", body.provider_location),
        name=body.name,
        description=body.description,
        metadata=metadata.check(body.metadata) if body.metadata is not None else {},
        options=options_of(body.driver_options or {}),
    )
    with call.db.write() as tx:
        share_held_for_change(call, tx, wanted.share_id)
        return db.show(tx, snapshot_manage.start(tx, wanted, call.caller, call.settings), call.columns)


@RESOURCE.action("unmanage", policy=UNMANAGE, status=202)
def unmanage(call: Call, id: str) -> None:
    """Release it: its rows go, its data, its export and who can mount it stay."""
    with call.db.write() as tx:
        snapshot = snapshot_held_for_change(call, tx, id)
        try:
            snapshot_unmanage.start(tx, snapshot, call.caller, also_on_servers=call.has(ON_SHARE_SERVERS))
        except share_delete.HasReplicas:
            raise
        except errors.Conflict as conflict:
            raise errors.Forbidden(conflict.message) from None
