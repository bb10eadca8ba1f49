# SPDX-License-Identifier: Apache-2.0
"""Share group types: operators set them up for the groups that users will make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from abaca import errors, policy
from abaca.db.catalog import share_group_types as db
from abaca.db.catalog import share_types
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Row
from abaca.domain.catalog import extra_specs
from abaca.domain.catalog.share_group_types import ShareGroupType
from abaca.http import bodies
from abaca.http.bodies import Body, Filters, Flag, Name, Object, Pairs, Text
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Computed, Many, One, Plain, Since, View

INDEX = policy.reader("share_group_type:index", "List share group types.")
SHOW = policy.reader("share_group_type:show", "Show a share group type.")
DEFAULT = policy.reader("share_group_type:default", "Show the default share group type.")
CREATE = policy.admin("share_group_type:create", "Create a share group type.")
DELETE = policy.admin("share_group_type:delete", "Delete a share group type.")
LIST_ACCESS = policy.admin(
    "share_group_type:list_project_access", "See which projects may use a private share group type."
)
ADD_ACCESS = policy.admin("share_group_type:add_project_access", "Let a project use a private share group type.")
REMOVE_ACCESS = policy.admin(
    "share_group_type:remove_project_access", "Take a project's access to a share group type away."
)
SPECS_INDEX = policy.admin("share_group_types_spec:index", "List group specs.")
SPECS_SHOW = policy.admin("share_group_types_spec:show", "Show one group spec.")
SPECS_CREATE = policy.admin("share_group_types_spec:create", "Set group specs.")
SPECS_UPDATE = policy.admin("share_group_types_spec:update", "Change a group spec.")
SPECS_DELETE = policy.admin("share_group_types_spec:delete", "Remove a group spec.")

RESOURCE = Resource("share group types", "/share-group-types", since="2.31", experimental=("2.31", "2.54"))


def _is_default(call: Call, type_id: str, name: str) -> bool:
    return call.settings.default_share_group_type in (name, type_id)


class ShareGroupTypeView(View):
    """A share group type, with the ids of the share types that its groups' shares may have."""

    id: str
    name: str
    is_public: bool
    group_specs: dict[str, str]
    share_types: Annotated[
        list[str], Computed(lambda _call, ids: sorted((ids or "").split()), needs=("share_type_ids",))
    ]
    is_default: Annotated[bool, Since("2.46"), Computed(_is_default, needs=("id", "name"))]


class GroupTypeAccessView(View):
    """A project that may use a private type."""

    share_group_type_id: str
    project_id: str


class CreateGroupType(Body, key="share_group_type"):
    """A new type; `share_types` are names or ids."""

    name: Name
    share_types: list[Text]
    group_specs: Object | None = None
    is_public: Flag = True


class GroupSpecs(Body):
    """Group specs to set, beside those that are there."""

    group_specs: Object


class GroupTypeProject(Body):
    """A project, by its id."""

    project: Name


class GroupTypeFilters(Filters):
    """What types can be listed by. `is_public` may also be `all` or none, for administrators."""

    is_public: Text
    group_specs: Annotated[Pairs, Since("2.66")]


TYPE = One("share_group_type", ShareGroupTypeView)
SPECS = Plain("group_specs", dict[str, str])
# A type says of few share types that its groups may have them.
MOST_SHARE_TYPES = 100


@RESOURCE.get(policy=INDEX, view=Many("share_group_types", ShareGroupTypeView), filters=GroupTypeFilters)
def index(call: Call, filters: dict[str, object]) -> Sequence[Row]:
    """The types that the caller's project may use; administrators see all that there are, or the private, if asked."""
    asked = dict(filters)
    public = str(asked.pop("is_public", "true")).lower()
    if not call.caller.is_admin:
        asked["open_to"] = call.caller.project_id
    elif public not in ("none", "all", ""):
        if bodies.flag("is_public", public):
            asked["open_to"] = call.caller.project_id
        else:
            asked["is_public"] = False
    page = call.page._replace(sort_key="name", descending=False, marker=None)
    with call.db.read() as tx:
        return db.GROUP_TYPES.rows(tx, call.columns, asked, page)


@RESOURCE.get("/default", policy=DEFAULT, view=TYPE)
def default(call: Call) -> Row:
    """The type that is configured as the usual one."""
    name = call.settings.default_share_group_type
    with call.db.read() as tx:
        for asked in ({"id": name}, {"name": name}) if name else ():
            found = db.GROUP_TYPES.one(tx, call.columns, {**asked, **_visible(call)})
            if found is not None:
                return found
    raise errors.NotFound("There is no default share group type.")


@RESOURCE.get("/{type_id}", policy=SHOW, view=TYPE)
def show(call: Call, type_id: str) -> Row:
    """One type."""
    with call.db.read() as tx:
        return _found(call, tx, type_id)


@RESOURCE.post(policy=CREATE, view=TYPE, body=CreateGroupType)
def create(call: Call, body: CreateGroupType) -> Row:
    """Make a type; it names the share types that its groups' shares may have."""
    if not body.name.strip():
        raise errors.Invalid("'name' must not be blank.")
    if not 1 <= len(body.share_types) <= MOST_SHARE_TYPES:
        raise errors.Invalid(f"'share_types' must name 1 to {MOST_SHARE_TYPES} share types.")
    specs = extra_specs.check(body.group_specs or {})
    values = {"name": body.name, "is_public": body.is_public, "group_specs": specs}
    with call.db.write() as tx:
        found = {name: share_types.find(tx, name) for name in body.share_types}
        for name, kind in found.items():
            if kind is None:
                raise errors.NotFound(f"Share type {name[:255]} could not be found.")
        type_id = db.create(tx, values, {kind.id for kind in found.values() if kind is not None})
        return _found(call, tx, type_id)


@RESOURCE.delete("/{type_id}", policy=DELETE, status=204)
def delete(call: Call, type_id: str) -> None:
    """Remove a type."""
    with call.db.write() as tx:
        if not db.delete(tx, type_id):
            raise errors.NotFound(resource="Share group type", id=type_id)


@RESOURCE.get("/{type_id}/access", policy=LIST_ACCESS, view=Many("share_group_type_access", GroupTypeAccessView))
def list_access(call: Call, type_id: str) -> Sequence[Row]:
    """The projects that may use a private type."""
    with call.db.read() as tx:
        if _type(tx, type_id).is_public:
            raise errors.NotFound(f"Share group type {type_id} is public: everybody may use it, so there is no list.")
        return db.projects(tx, type_id, call.columns)


@RESOURCE.action("addProjectAccess", at="/{type_id}/action", policy=ADD_ACCESS, body=GroupTypeProject, status=202)
def add_access(call: Call, type_id: str, body: GroupTypeProject) -> None:
    """Let a project use a private type."""
    with call.db.write() as tx:
        _refuse_public(tx, type_id)
        db.allow(tx, type_id, body.project)


@RESOURCE.action("removeProjectAccess", at="/{type_id}/action", policy=REMOVE_ACCESS, body=GroupTypeProject, status=202)
def remove_access(call: Call, type_id: str, body: GroupTypeProject) -> None:
    """Take a project's access to a private type away."""
    with call.db.write() as tx:
        _refuse_public(tx, type_id)
        if not db.disallow(tx, type_id, body.project):
            raise errors.NotFound(f"Project {body.project} has no access to share group type {type_id}.")


@RESOURCE.get("/{type_id}/group-specs", policy=SPECS_INDEX, view=SPECS)
def list_specs(call: Call, type_id: str) -> dict[str, str]:
    """All group specs."""
    with call.db.read() as tx:
        return _type(tx, type_id).group_specs


@RESOURCE.get("/{type_id}/group-specs/{key}", policy=SPECS_SHOW, view=Plain(None, dict[str, str]))
def show_spec(call: Call, type_id: str, key: str) -> dict[str, str]:
    """One group spec."""
    with call.db.read() as tx:
        specs = _type(tx, type_id).group_specs
    if key not in specs:
        raise _no_spec(type_id, key)
    return {key: specs[key]}


@RESOURCE.post("/{type_id}/group-specs", policy=SPECS_CREATE, view=SPECS, body=GroupSpecs)
def create_specs(call: Call, type_id: str, body: GroupSpecs) -> dict[str, str]:
    """Set group specs beside those that are there."""
    return _set(call, type_id, extra_specs.check(body.group_specs))


@RESOURCE.put(
    "/{type_id}/group-specs/{key}", policy=SPECS_UPDATE, view=Plain(None, dict[str, str]), body=bodies.Anything
)
def update_spec(call: Call, type_id: str, key: str, body: bodies.Anything) -> dict[str, str]:
    """Set one group spec; the body holds it alone, under its key."""
    if not isinstance(body.sent, dict) or tuple(body.sent) != (key,):
        raise errors.Invalid(f"The body must hold '{key}' and nothing else.")
    return _set(call, type_id, extra_specs.check(body.sent))


@RESOURCE.delete("/{type_id}/group-specs/{key}", policy=SPECS_DELETE, status=204)
def delete_spec(call: Call, type_id: str, key: str) -> None:
    """Remove a group spec."""
    with call.db.write() as tx:
        specs = db.specs_for_update(tx, type_id)
        if specs is None or specs.pop(key, None) is None:
            raise _no_spec(type_id, key)
        db.set_specs(tx, type_id, specs)


def _visible(call: Call) -> dict[str, str]:
    return {} if call.caller.is_admin else {"open_to": call.caller.project_id}


def _found(call: Call, tx: Tx, type_id: str) -> Row:
    found = db.GROUP_TYPES.one(tx, call.columns, {"id": type_id, **_visible(call)})
    if found is None:
        raise errors.NotFound(resource="Share group type", id=type_id)
    return found


def _type(tx: Tx, type_id: str) -> ShareGroupType:
    found = db.find(tx, type_id)
    if found is None:
        raise errors.NotFound(resource="Share group type", id=type_id)
    return found


def _no_spec(type_id: str, key: str) -> errors.NotFound:
    return errors.NotFound(f"Share group type {type_id} has no group spec {key[:255]}.")


def _refuse_public(tx: Tx, type_id: str) -> None:
    if _type(tx, type_id).is_public:
        raise errors.Conflict(f"Share group type {type_id} is public: everybody may use it.")


def _set(call: Call, type_id: str, changes: dict[str, str]) -> dict[str, str]:
    with call.db.write() as tx:
        specs = db.specs_for_update(tx, type_id)
        if specs is None:
            raise errors.NotFound(resource="Share group type", id=type_id)
        db.set_specs(tx, type_id, extra_specs.check({**specs, **changes}))
    return changes
