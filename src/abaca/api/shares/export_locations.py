# SPDX-License-Identifier: Apache-2.0
"""Export locations: where a share can be mounted from."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from abaca import errors
from abaca.api.shares.lookups import share_for_look, share_held_for_change, share_id_of
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Row
from abaca.db.shares import export_location_history, export_locations, share_instances, shares
from abaca.domain import ids, metadata
from abaca.http.bodies import Body
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import COUNTED, AdminOnly, Computed, Many, One, Plain, Since, View
from abaca.operations.shares import metadata_limits
from abaca.policy import admin, member, reader

OF_SHARE = Resource("export locations", "/shares/{id}/export_locations", since="2.9")
OF_INSTANCE = Resource("export locations of instances", "/share_instances/{id}/export_locations", since="2.9")

HISTORY = Resource("export location history", "/shares/{id}/export-locations/history")

LIST_HISTORY = reader("share_export_location:history", "List where a share could be mounted from, and when.")
LIST = reader("share_export_location:index", "List where a share can be mounted from.")
SHOW = reader("share_export_location:show", "See one place where a share can be mounted from.")
LIST_OF_INSTANCE = admin("share_instance_export_location:index", "List where a share instance can be mounted from.")
SHOW_OF_INSTANCE = admin("share_instance_export_location:show", "See one such place of a share instance.")
GET_METADATA = reader("share_export_location:get_metadata", "See the metadata of an export location.")
UPDATE_METADATA = member("share_export_location:update_metadata", "Set the metadata of an export location.")
DELETE_METADATA = member("share_export_location:delete_metadata", "Remove metadata of an export location.")


def _own_metadata(_call: Call, pairs: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in pairs.items() if key != "preferred"}


def _changed_at(_call: Call, updated_at: datetime.datetime | None, created_at: datetime.datetime) -> datetime.datetime:
    """Clients read it as a time: of what has never changed it is when it came."""
    return updated_at or created_at


class LocationListed(View):
    """An export location in a list."""

    id: str
    path: str
    preferred: Annotated[bool, Since("2.14")]
    metadata: Annotated[dict[str, str], Since("2.87"), Computed(_own_metadata, needs=("metadata",))]
    share_instance_id: Annotated[str, AdminOnly()]
    is_admin_only: Annotated[bool, AdminOnly()]


class LocationView(LocationListed):
    """An export location by itself."""

    created_at: datetime.datetime
    updated_at: Annotated[datetime.datetime, Computed(_changed_at, needs=("updated_at", "created_at"))]


class PeriodView(View):
    """From when to when a share could be mounted from a place, and which operations made it so; no `until`: it can."""

    id: str
    export_location_id: str
    path: str
    preferred: bool
    since: datetime.datetime
    until: datetime.datetime | None
    begun_by: str | None
    begun_by_kind: str | None
    ended_by: str | None
    ended_by_kind: str | None
    share_instance_id: Annotated[str, AdminOnly()]
    is_admin_only: Annotated[bool, AdminOnly()]


class SetMetadata(Body):
    """All pairs under `metadata`."""

    metadata: dict[str, Any]


@OF_SHARE.get(policy=LIST, view=Many("export_locations", LocationListed))
def index(call: Call, id: str) -> Sequence[Row]:
    """A share's export locations, the preferred ones first."""
    with call.db.read() as tx:
        _look(call, tx, id)
        return export_locations.of_share(tx, id, call.columns, with_admin_only=call.caller.is_admin)


@HISTORY.get(policy=LIST_HISTORY, view=Many("export_locations", PeriodView, counted=COUNTED))
def history(call: Call, id: str) -> Listed:
    """Where a share could be mounted from, the newest first; of one that is gone as long as that is kept."""
    page = call.page if "sort_key" in call.query else call.page._replace(sort_key="since")
    with call.db.read() as tx:
        id = share_id_of(call, tx, id)
        asked: dict[str, object] = {"share_id": id, **({} if call.caller.is_admin else {"is_admin_only": False})}
        formerly_of = export_location_history.project_of(tx, id)
        if shares.show(tx, id, ("id",)) is not None or formerly_of is None:
            share_for_look(call, tx, id, ())
        else:
            call.visible(formerly_of, "Share", id)
        rows = export_location_history.HISTORY.rows(tx, call.columns, asked, page)
        return Listed(rows, call.count(lambda most: export_location_history.HISTORY.count(tx, asked, most)))


@OF_SHARE.get("/{location_id}", policy=SHOW, view=One("export_location", LocationView))
def show(call: Call, id: str, location_id: str) -> Row:
    """One of them."""
    with call.db.read() as tx:
        _look(call, tx, id)
        return _found(call, tx, id, location_id, call.columns)


@OF_INSTANCE.get(policy=LIST_OF_INSTANCE, view=Many("export_locations", LocationListed))
def index_of_instance(call: Call, id: str) -> Sequence[Row]:
    """Those of one instance."""
    with call.db.read() as tx:
        _check_instance(tx, id)
        return export_locations.of_instance(tx, id, call.columns)


@OF_INSTANCE.get("/{location_id}", policy=SHOW_OF_INSTANCE, view=One("export_location", LocationView))
def show_of_instance(call: Call, id: str, location_id: str) -> Row:
    """One of those."""
    with call.db.read() as tx:
        _check_instance(tx, id)
        row = export_locations.show(tx, location_id, call.columns, share_instance_id=id)
    if row is None:
        raise errors.NotFound(resource="Export location", id=location_id)
    return row


@OF_SHARE.get("/{location_id}/metadata", since="2.87", policy=GET_METADATA, view=Plain("metadata", dict[str, str]))
def index_metadata(call: Call, id: str, location_id: str) -> dict[str, str]:
    """All pairs, `preferred` among them."""
    with call.db.read() as tx:
        share_for_look(call, tx, id, ())
        return _all(_found(call, tx, id, location_id, _METADATA))


@OF_SHARE.get("/{location_id}/metadata/{key}", since="2.87", policy=GET_METADATA, view=Plain("meta", dict[str, str]))
def show_metadata(call: Call, id: str, location_id: str, key: str) -> dict[str, str]:
    """One pair."""
    found = index_metadata(call, id, location_id)
    if key not in found:
        raise errors.NotFound(f"Export location {location_id} has no metadata key {key!r}.")
    return {key: found[key]}


@OF_SHARE.post(
    "/{location_id}/metadata",
    since="2.87",
    policy=UPDATE_METADATA,
    body=SetMetadata,
    view=Plain("metadata", dict[str, str]),
)
def update_metadata(call: Call, id: str, location_id: str, body: SetMetadata) -> dict[str, str]:
    """Add and overwrite; the whole is answered."""
    return _write(call, id, location_id, lambda old: {**old, **_checked(call, body.metadata)})


@OF_SHARE.put(
    "/{location_id}/metadata",
    since="2.87",
    policy=UPDATE_METADATA,
    body=SetMetadata,
    view=Plain("metadata", dict[str, str]),
)
def replace_metadata(call: Call, id: str, location_id: str, body: SetMetadata) -> dict[str, str]:
    """Make these pairs all there are; what only administrators may touch stays."""
    pairs, reserved = _checked(call, body.metadata), call.settings.admin_only_el_metadata
    is_admin = call.caller.is_admin
    return _write(call, id, location_id, lambda old: metadata.replaced(old, pairs, reserved, is_admin=is_admin))


@OF_SHARE.delete("/{location_id}/metadata/{key}", since="2.87", policy=DELETE_METADATA)
def delete_metadata(call: Call, id: str, location_id: str, key: str) -> None:
    """Remove one pair."""
    metadata.check_admin_only([key], call.settings.admin_only_el_metadata, is_admin=call.caller.is_admin)

    def without(old: dict[str, str]) -> dict[str, str]:
        if key not in old:
            raise errors.NotFound(f"Export location {location_id} has no metadata key {key!r}.")
        return {name: value for name, value in old.items() if name != key}

    _write(call, id, location_id, without)


_METADATA = ("id", "metadata", "preferred", "is_admin_only")


def _all(row: Row) -> dict[str, str]:
    return {**row.metadata, "preferred": str(row.preferred)}


def _checked(call: Call, sent: dict[str, object]) -> dict[str, str]:
    pairs = metadata.check(sent)
    metadata.check_admin_only(pairs, call.settings.admin_only_el_metadata, is_admin=call.caller.is_admin)
    return pairs


def _write(
    call: Call, share_id: str, location_id: str, change: Callable[[dict[str, str]], dict[str, str]]
) -> dict[str, str]:
    with call.db.write() as tx:
        # held, or of two who write at once one would not see what the other adds
        project_id = share_held_for_change(call, tx, share_id).project_id
        row = _found(call, tx, share_id, location_id, _METADATA)
        new = change(dict(row.metadata))
        preferred = new.pop("preferred", None)
        more = metadata_limits.check(call.settings, row.metadata, new)
        said = None if preferred is None else preferred.strip().lower() in ("1", "true", "t", "yes", "on")
        if not export_locations.set_metadata(tx, location_id, new, preferred=said):
            raise errors.NotFound(resource="Export location", id=location_id)
        metadata_limits.count(tx, call.settings, project_id, more)
        return {**new, "preferred": str(row.preferred if said is None else said)}


def _look(call: Call, tx: Tx, share_id: str) -> None:
    """Raises NotFound, or Forbidden to users of whose project no such share is known to have been.

    Clients expect that for a share of another project. It is said of one that never was as well, so that nobody
    learns which shares others have.
    """
    try:
        share_for_look(call, tx, share_id, ())
    except errors.NotFound:
        formerly_of = export_location_history.project_of(tx, share_id) if ids.is_id(share_id) else None
        if call.caller.is_admin or not ids.is_id(share_id) or formerly_of == call.caller.project_id:
            raise
        raise errors.Forbidden(f"Share {share_id} is not one that your project may see.") from None


def _found(call: Call, tx: Tx, share_id: str, location_id: str, columns: tuple[str, ...]) -> Row:
    wanted = columns if "is_admin_only" in columns else (*columns, "is_admin_only")
    row = export_locations.show(tx, location_id, wanted, share_id=share_id)
    if row is None:
        raise errors.NotFound(resource="Export location", id=location_id)
    if row.is_admin_only and not call.caller.is_admin:
        raise errors.Forbidden("This export location is for administrators only.")
    return row


def _check_instance(tx: Tx, instance_id: str) -> None:
    if share_instances.INSTANCES.one(tx, ("id",), {"id": instance_id}) is None:
        raise errors.NotFound(resource="Share instance", id=instance_id)
