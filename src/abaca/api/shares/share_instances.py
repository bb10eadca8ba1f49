# SPDX-License-Identifier: Apache-2.0
"""Share instances: the copies of shares on back ends, for administrators."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Annotated

from abaca import errors
from abaca.api.shares.lookups import share_for_look
from abaca.api.shares.share_actions import ResetStatus, refused_as
from abaca.api.shares.shares import FIRST_PATH, PATHS
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Row
from abaca.db.shares import share_instances
from abaca.http.bodies import Filters, Flag, Text
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Computed, Many, One, Since, Until, View, Was
from abaca.operations.shares import share_delete
from abaca.policy import admin

LIST = admin("share_instance:index", "List share instances.")
SHOW = admin("share_instance:show", "See a share instance.")
RESET = admin("share_instance:reset_status", "Set the status of a share instance by hand.")
FORCE_DELETE = admin("share_instance:force_delete", "Delete a share instance whatever its status.")

RESOURCE = Resource("share instances", "/share_instances", since="2.3")
OF_SHARE = Resource("instances of a share", "/shares", since="2.3")


def _old_rules_status(_call: Call, status: str) -> str:
    return "out_of_sync" if status == "syncing" else status


class InstanceView(View):
    """An instance as administrators see it."""

    id: str
    share_id: str
    availability_zone: str | None
    created_at: datetime.datetime
    host: str | None
    status: str
    share_network_id: str | None
    share_server_id: str | None
    export_location: Annotated[str | None, Until("2.8"), FIRST_PATH]
    export_locations: Annotated[list[str], Until("2.8"), PATHS]
    access_rules_status: Annotated[
        str, Since("2.10"), Was("2.27", Computed(_old_rules_status, needs=("access_rules_status",)))
    ]
    replica_state: Annotated[str | None, Since("2.11")]
    share_type_id: Annotated[str | None, Since("2.22")]
    cast_rules_to_readonly: Annotated[bool, Since("2.30")]
    progress: Annotated[str | None, Since("2.54")]
    updated_at: Annotated[datetime.datetime | None, Since("2.71")]


class InstanceFilters(Filters):
    """What the list may be asked for."""

    export_location_id: Annotated[Text, Since("2.35")]
    export_location_path: Annotated[Text, Since("2.35")]
    is_soft_deleted: Annotated[Flag, Since("2.69")]


@RESOURCE.get(policy=LIST, view=Many("share_instances", InstanceView), filters=InstanceFilters)
def index(call: Call, filters: dict[str, object]) -> Sequence[Row]:
    """All instances of all projects."""
    asked = {"is_soft_deleted": False, **filters}
    with call.db.read() as tx:
        return share_instances.INSTANCES.rows(tx, call.columns, asked, call.page)


@OF_SHARE.get("/{id}/instances", policy=LIST, view=Many("share_instances", InstanceView))
def index_of_share(call: Call, id: str) -> Sequence[Row]:
    """The instances of one share."""
    with call.db.read() as tx:
        share_for_look(call, tx, id, ())
        return share_instances.INSTANCES.rows(tx, call.columns, {"share_id": id}, call.page)


@RESOURCE.get("/{id}", policy=SHOW, view=One("share_instance", InstanceView))
def show(call: Call, id: str) -> Row:
    """One instance."""
    with call.db.read() as tx:
        return _found(tx, id, call.columns)


@RESOURCE.action("reset_status", formerly=("os-reset_status", "2.6"), policy=RESET, body=ResetStatus, status=202)
def reset_status(call: Call, id: str, body: ResetStatus) -> None:
    """Set its status by hand."""
    if body.status is None:
        raise errors.Invalid("'status' is required.")
    with call.db.write() as tx:
        _found(tx, id, ("id",))
        share_instances.reset(tx, id, body.status)


@RESOURCE.action("force_delete", formerly=("os-force_delete", "2.6"), policy=FORCE_DELETE, status=202)
def force_delete(call: Call, id: str) -> None:
    """Take it away whatever its status; its share goes with its last instance."""
    with call.db.write() as tx, refused_as(errors.Forbidden):
        share_id = _found(tx, id, ("share_id",)).share_id
        share_delete.start_of_instance(tx, share_id, id, call.caller)


def _found(tx: Tx, instance_id: str, columns: tuple[str, ...]) -> Row:
    row = share_instances.INSTANCES.one(tx, columns, {"id": instance_id})
    if row is None:
        raise errors.NotFound(resource="Share instance", id=instance_id)
    return row
