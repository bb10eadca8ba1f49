# SPDX-License-Identifier: Apache-2.0
"""Shares: create, show, list, update, delete. What is done to a share by actions is in share_actions.py."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from abaca import errors
from abaca.api.permissions import SPECS_INDEX
from abaca.api.shares.lookups import share_for_look, share_held_for_change
from abaca.db.engine.lists import Page
from abaca.db.engine.statements import Row
from abaca.db.shares import shares
from abaca.domain import metadata
from abaca.domain.shares.shares import Share
from abaca.http.bodies import UNSET, Also, Body, Filters, Flag, Gib, Name, Pairs, Text, UnsetType
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import (
    AdminOnly,
    Column,
    Computed,
    Counted,
    Feature,
    Link,
    Many,
    Named,
    One,
    Since,
    Until,
    View,
    Was,
)
from abaca.operations.shares import share_accept, share_delete
from abaca.policy import admin, member, reader

LIST_BY_HOST = admin("share:list_by_host", "List shares by the host that serves them.")
LIST_BY_SERVER = admin("share:list_by_share_server_id", "List shares by their share server.")
LIST = reader("share:get_all", "List shares.")
LIST_ALL_PROJECTS = admin("share:list_all_projects", "List the shares of all projects.")
CREATE_PUBLIC = admin("share:create_public_share", "Create a share that every project sees.")
SET_PUBLIC = admin("share:set_public_share", "Make a share public.")
UPDATE = member("share:update", "Change a share's name and description.")

RESOURCE = Resource(
    "shares", "/shares", rules=(LIST_BY_HOST, LIST_BY_SERVER, LIST_ALL_PROJECTS, CREATE_PUBLIC, SET_PUBLIC)
)

CLONES_BY_TYPE = Feature(
    "clones_by_type",
    "2.24",
    "A share is made from a snapshot only where its type says create_share_from_snapshot_support.",
)

BOUND_TO_ZONES = Feature(
    "bound_to_zones", "2.48", "A share lies in one of the zones that its type says in availability_zones, if it does."
)

LINKS = Computed(lambda call, share_id: call.links("shares", share_id), needs=("id",))


def _first(paths: Sequence[str]) -> str | None:
    return paths[0] if paths else None


def _paths(call: Call, public: str | None, every: str | None) -> list[str]:
    said = every if call.caller.is_admin else public
    return sorted(said.split("\n")) if said else []


PATHS = Computed(_paths, needs=("export_paths", "all_export_paths"))
FIRST_PATH = Computed(lambda call, *paths: _first(_paths(call, *paths)), needs=("export_paths", "all_export_paths"))


def _old_status(_call: Call, status: str) -> str:
    return "creating" if status == "creating_from_snapshot" else status


def _old_rules_status(_call: Call, status: str) -> str:
    return "out_of_sync" if status == "syncing" else status


def _metadata(call: Call, pairs: Mapping[str, str]) -> Mapping[str, str]:
    hidden = call.notes.get(_HIDDEN)
    if hidden is None:  # of a list the first row finds them for all
        hidden = metadata.hidden(call.settings.admin_only_metadata, is_admin=call.caller.is_admin)
        call.notes[_HIDDEN] = hidden
    return pairs if hidden.isdisjoint(pairs) else metadata.seen(pairs, hidden)


_HIDDEN = "hidden metadata"


class ShareSummary(View):
    """A share in a short list."""

    id: str
    name: str | None
    links: Annotated[list[Link], LINKS]


class ShareView(View):
    """A share as the API shows it."""

    id: str
    size: int
    availability_zone: str | None
    created_at: datetime.datetime
    status: Annotated[str, Was("2.53", Computed(_old_status, needs=("status",)))]
    name: str | None
    description: str | None
    project_id: str
    snapshot_id: str | None
    share_network_id: str | None
    share_proto: str
    metadata: Annotated[dict[str, str], Computed(_metadata, needs=("metadata",))]
    share_type: Annotated[str | None, Column("share_type_id"), Was("2.5", Column("share_type_name"))]
    share_type_name: Annotated[str | None, Since("2.6")]
    volume_type: Annotated[str | None, Column("share_type_name")]
    is_public: bool
    links: Annotated[list[Link], LINKS]
    export_location: Annotated[str | None, Until("2.8"), FIRST_PATH]
    export_locations: Annotated[list[str], Until("2.8"), PATHS]
    host: Annotated[str | None, AdminOnly()]
    share_server_id: Annotated[str | None, AdminOnly()]
    snapshot_support: Annotated[bool, Since("2.2")]
    task_state: Annotated[str | None, Since("2.5")]
    access_rules_status: Annotated[
        str, Since("2.10"), Was("2.27", Computed(_old_rules_status, needs=("access_rules_status",)))
    ]
    replication_type: Annotated[str | None, Since("2.11")]
    has_replicas: Annotated[bool, Since("2.11")]
    user_id: Annotated[str | None, Since("2.16")]
    create_share_from_snapshot_support: Annotated[bool, Since("2.24")]
    revert_to_snapshot_support: Annotated[bool, Since("2.27")]
    share_group_id: Annotated[str | None, Since("2.31")]
    source_share_group_snapshot_member_id: Annotated[str | None, Since("2.31")]
    mount_snapshot_support: Annotated[bool, Since("2.32")]
    progress: Annotated[str | None, Since("2.54")]
    is_soft_deleted: Annotated[bool, Since("2.69")]
    scheduled_to_be_deleted_at: Annotated[datetime.datetime | None, Since("2.69")]
    source_backup_id: Annotated[str | None, Since("2.80")]
    encryption_key_ref: Annotated[str | None, Since("2.90")]
    snapshot_inherit_share_access_support: Annotated[bool, Since("2.99")]


class CreateShare(Body, key="share", missing=422):
    """What a new share shall be."""

    share_proto: Text
    size: Gib | None = None
    name: Annotated[Name | None, Also("display_name")] = None
    description: Annotated[Name | None, Also("display_description")] = None
    share_type: Text | None = None
    volume_type: Text | None = None
    share_network_id: Text | None = None
    snapshot_id: Text | None = None
    is_public: Flag = False
    metadata: Any = None
    availability_zone: Text | None = None
    share_group_id: Annotated[Text | None, Since("2.31")] = None
    scheduler_hints: Annotated[dict[str, Any] | None, Since("2.65")] = None
    mount_point_name: Annotated[Name | None, Since("2.84")] = None
    encryption_key_ref: Annotated[Text | None, Since("2.90")] = None


class UpdateShare(Body, key="share", missing=422):
    """What may change about a share by hand."""

    display_name: Name | UnsetType | None = UNSET
    display_description: Name | UnsetType | None = UNSET
    is_public: Flag | UnsetType = UNSET


class ShareFilters(Filters):
    """What a list of shares may be asked for."""

    # by the names of old these were always asked for, by the others since then
    display_description: Text
    display_name_like: Annotated[Text, Named("display_name~")]
    display_description_like: Annotated[Text, Named("display_description~")]
    name: Annotated[Text, Also("display_name")]
    description: Annotated[Text, Since("2.36")]
    name_like: Annotated[Text, Since("2.36"), Named("name~")]
    description_like: Annotated[Text, Since("2.36"), Named("description~")]
    status: Text
    host: Text
    share_server_id: Text
    share_type_id: Annotated[Text, Also("volume_type_id")]
    snapshot_id: Text
    share_network_id: Text
    share_group_id: Text
    project_id: Text
    user_id: Text
    share_proto: Text
    is_public: Flag
    metadata: Pairs
    extra_specs: Pairs
    export_location_id: Annotated[Text, Since("2.35")]
    export_location_path: Annotated[Text, Since("2.35")]
    is_soft_deleted: Annotated[Flag, Since("2.69")]
    mount_point_name: Text
    encryption_key_ref: Annotated[Text, Since("2.90")]
    availability_zone: Annotated[Text, Since("2.97")]


@RESOURCE.get(
    "/detail",
    policy=LIST,
    view=Many("shares", ShareView, links="shares_links", counted=Counted("2.42")),
    filters=ShareFilters,
)
def index_detailed(call: Call, filters: dict[str, object]) -> Listed:
    """Shares with all their fields."""
    return _listed(call, filters)


@RESOURCE.get(
    policy=LIST,
    view=Many("shares", ShareSummary, links="shares_links", counted=Counted("2.42")),
    filters=ShareFilters,
)
def index(call: Call, filters: dict[str, object]) -> Listed:
    """Shares by id and name."""
    return _listed(call, filters)


def _listed(call: Call, filters: dict[str, object]) -> Listed:
    asked = {**filters, **call.project_filter(LIST_ALL_PROJECTS)}
    for name in ("description", "name_like", "description_like"):
        if f"display_{name}" in asked:
            asked.setdefault(name, asked.pop(f"display_{name}"))
    for name, rule in (("host", LIST_BY_HOST), ("share_server_id", LIST_BY_SERVER), ("extra_specs", SPECS_INDEX)):
        if name in asked:
            call.require(rule)
    pairs = filters.get("metadata")
    if isinstance(pairs, dict):
        reserved = call.settings.admin_only_metadata
        metadata.check_admin_only(pairs, reserved, is_admin=call.caller.is_admin)
    if asked.pop("is_public", None) and "project_id" in asked:
        # widens the list rather than narrowing it, which is what clients that look up a name expect
        asked["visible_to"] = asked.pop("project_id")
    asked.setdefault("is_soft_deleted", False)
    page = _page(call)
    with call.db.read() as tx:
        rows = shares.SHARES.rows(tx, call.columns, asked, page)
        count = call.count(lambda most: shares.SHARES.count(tx, asked, most))
    return Listed(rows, count)


def _page(call: Call) -> Page:
    alias = shares.SORT_ALIASES.get(call.page.sort_key)
    return call.page._replace(sort_key=alias) if alias else call.page


@RESOURCE.get("/{id}", policy=reader("share:get", "See a share."), view=One("share", ShareView))
def show(call: Call, id: str) -> Row:
    """One share."""
    with call.db.read() as tx:
        return share_for_look(call, tx, id, call.columns)


@RESOURCE.post(policy=member("share:create", "Create a share."), body=CreateShare, view=One("share", ShareView))
def create(call: Call, body: CreateShare) -> Row | None:
    """Accept a new share; the back end makes it meanwhile, and `status` tells how that ended."""
    if body.is_public:
        call.require(CREATE_PUBLIC)
    if body.share_type and body.volume_type:
        raise errors.Invalid("Give share_type or volume_type, not both: they are two names of one thing.")
    request = share_accept.CreateRequest(
        share_proto=body.share_proto,
        size_gib=body.size,
        name=body.name,
        description=body.description,
        share_type=body.share_type or body.volume_type,
        share_network_id=body.share_network_id,
        snapshot_id=body.snapshot_id,
        clones_by_type=call.has(CLONES_BY_TYPE),
        zones_by_type=call.has(BOUND_TO_ZONES),
        is_public=body.is_public,
        metadata=body.metadata,
        availability_zone=body.availability_zone,
        share_group_id=body.share_group_id,
        scheduler_hints=body.scheduler_hints or {},
        mount_point_name=body.mount_point_name,
        encryption_key_ref=body.encryption_key_ref,
    )
    admission = share_accept.Admission(call.settings, call.caller, call.parts.extras["known_pools"])
    return admission.share(call.db, request, call.columns)


@RESOURCE.put("/{id}", policy=UPDATE, body=UpdateShare, view=One("share", ShareView))
def update(call: Call, id: str, body: UpdateShare) -> Row | None:
    """Change name, description or who sees it."""
    sent = {"name": body.display_name, "description": body.display_description, "is_public": body.is_public}
    values = {name: value for name, value in sent.items() if value is not UNSET}
    with call.db.write() as tx:
        share = share_held_for_change(call, tx, id)
        if values.get("is_public") and not share.is_public:
            call.require(SET_PUBLIC, project_id=share.project_id)
        if share.is_soft_deleted:
            raise errors.Forbidden(f"Share {id} is in the recycle bin; restore it before you change it.")
        if values:
            shares.update(tx, id, values)
        return shares.show(tx, id, call.columns)


@RESOURCE.delete("/{id}", policy=member("share:delete", "Delete a share."), status=202)
def delete(call: Call, id: str) -> None:
    """Take it away for good."""
    with call.db.write() as tx:
        share = share_held_for_change(call, tx, id)
        _check_group(call, share)
        try:
            share_delete.start(tx, id, share.instance_id, call.caller)
        except share_delete.HasReplicas:
            raise
        except errors.Conflict as conflict:
            raise errors.Forbidden(conflict.message) from None


def _check_group(call: Call, share: Share) -> None:
    said = call.query.get("share_group_id")
    if share.share_group_id and said != share.share_group_id:
        raise errors.Invalid("The share is in a share group: name the group with share_group_id to delete it.")
    if said and not share.share_group_id:
        raise errors.Invalid(f"The share is not in share group {said}.")
