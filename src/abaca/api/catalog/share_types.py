# SPDX-License-Identifier: Apache-2.0
"""Share types: what kinds of shares there are, who may use them, what they ask of a back end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

from abaca import errors, policy
from abaca.api.permissions import SPECS_INDEX
from abaca.db.catalog import quotas
from abaca.db.catalog import share_types as db
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Row
from abaca.domain.catalog import extra_specs
from abaca.domain.catalog.share_types import ShareType
from abaca.http import bodies
from abaca.http.bodies import UNSET, Also, Body, Filters, Flag, Name, Object, Pairs, Text, UnsetType
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Computed, Feature, Many, Named, One, Plain, Renamed, Since, View

SNAPSHOTS_ARE_OPTIONAL = Feature(
    "snapshots_are_optional", "2.24", "A type without snapshot_support has none; before, it was taken as True."
)
INHERITED_ACCESS = Feature(
    "inherited_access", "2.99", "Users see whether snapshots inherit the access rules of their share."
)

EVERY_TYPE = 2**31

INDEX = policy.reader("share_type:index", "List share types.")
SHOW = policy.reader("share_type:show", "Show a share type.")
DEFAULT = policy.reader("share_type:default", "Show the default share type.")
CREATE = policy.admin("share_type:create", "Create a share type.")
UPDATE = policy.admin("share_type:update", "Change a share type.")
DELETE = policy.admin("share_type:delete", "Delete a share type.")
LIST_ACCESS = policy.admin("share_type:list_project_access", "See which projects may use a private share type.")
ADD_ACCESS = policy.admin("share_type:add_project_access", "Let a project use a private share type.")
REMOVE_ACCESS = policy.admin("share_type:remove_project_access", "Take a project's access to a share type away.")
SPECS_SHOW = policy.admin("share_types_extra_spec:show", "Show one extra spec.")
SPECS_CREATE = policy.admin("share_types_extra_spec:create", "Set extra specs.")
SPECS_UPDATE = policy.admin("share_types_extra_spec:update", "Change an extra spec.")
SPECS_DELETE = policy.admin("share_types_extra_spec:delete", "Remove an extra spec.")


# Clients send the name of one version at others as well; a type that was to be private must not become public by that.
_IS_PUBLIC, _WAS_PUBLIC = "share_type_access:is_public", "os-share-type-access:is_public"


def _shown_specs(call: Call, specs: dict[str, str]) -> Mapping[str, str | bool]:
    if call.caller.is_admin:
        return specs
    shown: dict[str, str | bool] = {**extra_specs.visible(specs)}
    if call.has(SNAPSHOTS_ARE_OPTIONAL):
        shown = {**dict.fromkeys(extra_specs.INFERRED, False), **shown}
    if call.has(INHERITED_ACCESS):
        shown.setdefault("snapshot_inherit_share_access_support", False)
    return shown


def _required_specs(call: Call, specs: dict[str, str]) -> Mapping[str, str | bool]:
    """Text, but to whoever has just sent a boolean the same: clients compare it with what they sent."""
    return {**extra_specs.required(specs), **call.notes.get("required_specs", {})}


def _is_default(call: Call, type_id: str, name: str) -> bool:
    return call.settings.default_share_type in (name, type_id)


class ShareTypeView(View):
    """A share type; users see of its extra specs what concerns them."""

    id: str
    name: str
    extra_specs: Annotated[dict[str, Any], Computed(_shown_specs, needs=("extra_specs",))]
    required_extra_specs: Annotated[dict[str, str | bool], Computed(_required_specs, needs=("extra_specs",))]
    is_public: Annotated[bool, Named(_IS_PUBLIC), Renamed("2.6", _WAS_PUBLIC)]
    description: Annotated[str | None, Since("2.41")]
    is_default: Annotated[bool, Since("2.46"), Computed(_is_default, needs=("id", "name"))]


class AccessView(View):
    """A project that may use a private type."""

    share_type_id: str
    project_id: str


class Create(Body, key=("share_type", "volume_type")):
    """A new type."""

    name: Name
    extra_specs: Object | None = None
    description: Annotated[Name | None, Since("2.41", refuse=True)] = None
    is_public: Annotated[Flag, Named(_IS_PUBLIC), Renamed("2.6", _WAS_PUBLIC), Also(_IS_PUBLIC), Also(_WAS_PUBLIC)] = (
        True
    )


class Update(Body, key=("share_type", "volume_type")):
    """What can be changed of a type."""

    name: Name | UnsetType = UNSET
    description: Name | UnsetType | None = UNSET
    is_public: Annotated[Flag | UnsetType, Named(_IS_PUBLIC), Also(_WAS_PUBLIC)] = UNSET


class ExtraSpecs(Body):
    """Extra specs to set, beside those that are there."""

    extra_specs: Object


class Project(Body):
    """A project, by its id."""

    project: Name


class TypeFilters(Filters):
    """What types can be listed by. `is_public` may also be `all` or none, for administrators."""

    is_public: Text
    extra_specs: Annotated[Pairs, Since("2.43", refuse=True)]


TYPE = One(("share_type", "volume_type"), ShareTypeView)
SPECS = Plain("extra_specs", dict[str, str])
RESOURCE = Resource("share types", "/types")


@RESOURCE.get(policy=INDEX, view=Many(("share_types", "volume_types"), ShareTypeView), filters=TypeFilters)
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
    pairs = dict(cast("Mapping[str, str]", asked.pop("extra_specs", {})))
    zones = extra_specs.zones(pairs)
    pairs.pop(extra_specs.ZONES, None)
    if pairs:
        asked["extra_specs"] = pairs
    with call.db.read() as tx:
        if not zones:
            return db.TYPES.rows(tx, call.columns, asked, page)
        # a type is bound to some zones or to none: there are few, so they are read whole
        listed = db.TYPES.rows(tx, call.columns, asked, page._replace(offset=0, limit=EVERY_TYPE))
    at = call.columns.index("extra_specs")
    return [row for row in listed if extra_specs.may_lie_in(row[at], zones)][page.offset :][: page.limit]


@RESOURCE.get("/default", policy=DEFAULT, view=TYPE)
def default(call: Call) -> Row:
    """The type of shares that are created without one."""
    name = call.settings.default_share_type
    with call.db.read() as tx:
        found = db.find(tx, name, **_visible(call)) if name else None
        if found is None:
            raise errors.NotFound("There is no default share type.")
        return _found(call, tx, found.id)


@RESOURCE.get("/{type_id}", policy=SHOW, view=TYPE)
def show(call: Call, type_id: str) -> Row:
    """One type."""
    with call.db.read() as tx:
        return _found(call, tx, type_id)


@RESOURCE.post(policy=CREATE, view=TYPE, body=Create)
def create(call: Call, body: Create) -> Row:
    """Make a type; it must say whether its shares live on share servers."""
    if not body.name.strip():
        raise errors.Invalid("'name' must not be blank.")
    specs = extra_specs.check(body.extra_specs or {})
    extra_specs.check_required(specs)
    if not call.has(SNAPSHOTS_ARE_OPTIONAL):
        specs.setdefault("snapshot_support", "True")
    values = {
        "name": body.name,
        "description": body.description or None,
        "is_public": body.is_public,
        "extra_specs": specs,
    }
    call.notes["required_specs"] = extra_specs.required(body.extra_specs or {})
    with call.db.write() as tx:
        return _found(call, tx, db.create(tx, values))


@RESOURCE.put("/{type_id}", policy=UPDATE, view=TYPE, body=Update, since="2.50")
def update(call: Call, type_id: str, body: Update) -> Row:
    """Change name, description or whether everybody may use it."""
    description = body.description if body.description is UNSET else body.description or None
    sent = {"name": body.name, "description": description, "is_public": body.is_public}
    values = {name: value for name, value in sent.items() if value is not UNSET}
    if not values:
        raise errors.Invalid("Send at least one of: name, description, share_type_access:is_public.")
    if not str(values.get("name", "x")).strip():
        raise errors.Invalid("'name' must not be blank.")
    with call.db.write() as tx:
        _found(call, tx, type_id)
        db.update(tx, type_id, values)
        return _found(call, tx, type_id)


@RESOURCE.delete("/{type_id}", policy=DELETE, status=202)
def delete(call: Call, type_id: str) -> None:
    """Remove a type that no share has."""
    with call.db.write() as tx:
        if not db.delete(tx, type_id):
            raise errors.NotFound(resource="Share type", id=type_id)
        quotas.remove_type(tx, type_id)


@RESOURCE.get("/{type_id}/os-share-type-access", policy=LIST_ACCESS, view=Many("share_type_access", AccessView))
@RESOURCE.get("/{type_id}/share_type_access", policy=LIST_ACCESS, view=Many("share_type_access", AccessView))
def list_access(call: Call, type_id: str) -> Sequence[Row]:
    """The projects that may use a private type."""
    with call.db.read() as tx:
        if _type(tx, type_id).is_public:
            raise errors.NotFound(f"Share type {type_id} is public: everybody may use it, so there is no list.")
        return db.projects(tx, type_id, call.columns)


@RESOURCE.action("addProjectAccess", at="/{type_id}/action", policy=ADD_ACCESS, body=Project, status=202)
def add_access(call: Call, type_id: str, body: Project) -> None:
    """Let a project use a private type."""
    with call.db.write() as tx:
        _refuse_public(tx, type_id)
        db.allow(tx, type_id, body.project)


@RESOURCE.action("removeProjectAccess", at="/{type_id}/action", policy=REMOVE_ACCESS, body=Project, status=202)
def remove_access(call: Call, type_id: str, body: Project) -> None:
    """Take a project's access to a private type away; its shares stay."""
    with call.db.write() as tx:
        _refuse_public(tx, type_id)
        if not db.disallow(tx, type_id, body.project):
            raise errors.NotFound(f"Project {body.project} has no access to share type {type_id}.")


@RESOURCE.get("/{type_id}/extra_specs", policy=SPECS_INDEX, view=SPECS)
def list_specs(call: Call, type_id: str) -> dict[str, str]:
    """All extra specs."""
    with call.db.read() as tx:
        return _type(tx, type_id).extra_specs


@RESOURCE.get("/{type_id}/extra_specs/{key}", policy=SPECS_SHOW, view=Plain(None, dict[str, str]))
def show_spec(call: Call, type_id: str, key: str) -> dict[str, str]:
    """One extra spec."""
    with call.db.read() as tx:
        specs = _type(tx, type_id).extra_specs
    if key not in specs:
        raise errors.NotFound(f"Share type {type_id} has no extra spec {key}.")
    return {key: specs[key]}


@RESOURCE.post("/{type_id}/extra_specs", policy=SPECS_CREATE, view=SPECS, body=ExtraSpecs)
def create_specs(call: Call, type_id: str, body: ExtraSpecs) -> dict[str, str]:
    """Set extra specs beside those that are there."""
    added = extra_specs.check(body.extra_specs)
    _change_specs(call, type_id, added)
    return added


@RESOURCE.put(
    "/{type_id}/extra_specs/{key}", policy=SPECS_UPDATE, view=Plain(None, dict[str, str]), body=bodies.Anything
)
def update_spec(call: Call, type_id: str, key: str, body: bodies.Anything) -> dict[str, str]:
    """Set one extra spec; the body holds it alone, under its key."""
    if not isinstance(body.sent, dict) or tuple(body.sent) != (key,):
        raise errors.Invalid(f"The body must hold '{key}' and nothing else.")
    changed = extra_specs.check(body.sent)
    _change_specs(call, type_id, changed)
    return changed


@RESOURCE.delete("/{type_id}/extra_specs/{key}", policy=SPECS_DELETE, status=202)
def delete_spec(call: Call, type_id: str, key: str) -> None:
    """Remove an extra spec that is not required."""
    required = extra_specs.REQUIRED if call.has(SNAPSHOTS_ARE_OPTIONAL) else extra_specs.REQUIRED_ONCE
    if key in required:
        raise errors.Forbidden(f"Every share type says {key}; it cannot be removed.")
    with call.db.write() as tx:
        specs = db.specs_for_update(tx, type_id)
        if specs is None or specs.pop(key, None) is None:
            raise errors.NotFound(f"Share type {type_id} has no extra spec {key}.")
        db.update(tx, type_id, {"extra_specs": specs})


def _visible(call: Call) -> dict[str, str]:
    return {} if call.caller.is_admin else {"open_to": call.caller.project_id}


def _found(call: Call, tx: Tx, type_id: str) -> Row:
    found = db.TYPES.one(tx, call.columns, {"id": type_id, **_visible(call)})
    if found is None:
        raise errors.NotFound(resource="Share type", id=type_id)
    return found


def _type(tx: Tx, type_id: str) -> ShareType:
    found = db.show(tx, type_id)
    if found is None:
        raise errors.NotFound(resource="Share type", id=type_id)
    return found


def _refuse_public(tx: Tx, type_id: str) -> None:
    if _type(tx, type_id).is_public:
        raise errors.Conflict(f"Share type {type_id} is public: everybody may use it.")


def _change_specs(call: Call, type_id: str, changes: dict[str, str]) -> None:
    with call.db.write() as tx:
        specs = db.specs_for_update(tx, type_id)
        if specs is None:
            raise errors.NotFound(resource="Share type", id=type_id)
        db.update(tx, type_id, {"extra_specs": extra_specs.check({**specs, **changes})})
