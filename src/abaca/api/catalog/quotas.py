# SPDX-License-Identifier: Apache-2.0
"""Quotas of projects, of users and share types in them, and of quota classes. -1 is unlimited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from abaca import errors, policy
from abaca.db.catalog import quotas as db
from abaca.db.catalog import share_types
from abaca.db.engine.database import Tx
from abaca.domain.catalog import quotas as rules
from abaca.http.bodies import UNSET, Body, Filters, Flag, Text, UnsetType, Whole
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import One, Since, View

SHOW = policy.reader("quota_set:show", "See the quotas of a project.")
UPDATE = policy.admin("quota_set:update", "Set the quotas of a project, or of a user or share type in it.")
DELETE = policy.admin("quota_set:delete", "Give a project the default quotas again.")
SHOW_CLASS = policy.admin("quota_class_set:show", "See the quotas of a quota class.")
UPDATE_CLASS = policy.admin("quota_class_set:update", "Set the quotas of a quota class.")

Limit = int | UnsetType


class QuotaSetView(View):
    """The limits that hold. Those that share types cannot have are left out of theirs, and the id of what is set."""

    id: str | UnsetType
    shares: Limit
    gigabytes: Limit
    snapshots: Limit
    snapshot_gigabytes: Limit
    share_networks: Limit
    share_groups: Annotated[Limit, Since("2.40")]
    share_group_snapshots: Annotated[Limit, Since("2.40")]
    share_replicas: Annotated[Limit, Since("2.53")]
    replica_gigabytes: Annotated[Limit, Since("2.53")]
    per_share_gigabytes: Annotated[Limit, Since("2.62")]
    backups: Annotated[Limit, Since("2.80")]
    backup_gigabytes: Annotated[Limit, Since("2.80")]
    encryption_keys: Annotated[Limit, Since("2.90")]


class Use(msgspec.Struct, frozen=True):
    """A limit beside what is in use; nothing is ever reserved apart."""

    limit: int
    in_use: int
    reserved: int = 0


Used = Use | UnsetType
# What stands in an answer, and all that does, in the order of the columns.
Value = str | Limit | Used
Shown = tuple[Value, ...]


class QuotaDetailView(View):
    """The limits that hold, each with what is in use."""

    id: str
    shares: Used
    gigabytes: Used
    snapshots: Used
    snapshot_gigabytes: Used
    share_networks: Used
    share_groups: Annotated[Used, Since("2.40")]
    share_group_snapshots: Annotated[Used, Since("2.40")]
    share_replicas: Annotated[Used, Since("2.53")]
    replica_gigabytes: Annotated[Used, Since("2.53")]
    per_share_gigabytes: Annotated[Used, Since("2.62")]
    backups: Annotated[Used, Since("2.80")]
    backup_gigabytes: Annotated[Used, Since("2.80")]
    encryption_keys: Annotated[Used, Since("2.90")]


class Limits(Body, unknown="refuse"):
    """The limits to set; the others stay as they are."""

    shares: Whole | UnsetType = UNSET
    gigabytes: Whole | UnsetType = UNSET
    snapshots: Whole | UnsetType = UNSET
    snapshot_gigabytes: Whole | UnsetType = UNSET
    share_networks: Whole | UnsetType = UNSET
    share_groups: Annotated[Whole | UnsetType, Since("2.40")] = UNSET
    share_group_snapshots: Annotated[Whole | UnsetType, Since("2.40")] = UNSET
    share_replicas: Annotated[Whole | UnsetType, Since("2.53")] = UNSET
    replica_gigabytes: Annotated[Whole | UnsetType, Since("2.53")] = UNSET
    per_share_gigabytes: Annotated[Whole | UnsetType, Since("2.62")] = UNSET
    backups: Annotated[Whole | UnsetType, Since("2.80")] = UNSET
    backup_gigabytes: Annotated[Whole | UnsetType, Since("2.80")] = UNSET
    encryption_keys: Annotated[Whole | UnsetType, Since("2.90")] = UNSET

    def sent(self) -> dict[str, int]:
        """What is to be set. Raises Invalid when it is nothing."""
        limits = {name: getattr(self, name) for name in rules.RESOURCES if getattr(self, name) is not UNSET}
        if not limits:
            raise errors.Invalid("Name at least one quota to set.")
        return limits


class SetQuotas(Limits, key="quota_set", unknown="refuse"):
    """`force` sets a limit below what is in use. Clients name the project once more."""

    force: Flag = False
    tenant_id: Text | UnsetType = UNSET


class SetClass(Limits, key="quota_class_set", unknown="refuse"):
    """Limits of a class; clients name it once more."""

    class_name: Text | UnsetType = UNSET


class Whose(Filters):
    """A user, or a share type by name or id, in the project."""

    user_id: Text
    share_type: Annotated[Text, Since("2.39", refuse=True)]


RESOURCE = Resource("quota sets", "/quota-sets", formerly=("/os-quota-sets", "2.6"))
CLASSES = Resource("quota class sets", "/quota-class-sets", formerly=("/os-quota-class-sets", "2.6"))
QUOTA_SET = One("quota_set", QuotaSetView)
CLASS_SET = One("quota_class_set", QuotaSetView)


@RESOURCE.get("/{project_id}", policy=SHOW, view=QUOTA_SET, filters=Whose)
def show(call: Call, project_id: str, filters: dict[str, str]) -> Shown:
    """The limits that hold for a project, a user or a type in it."""
    call.require(SHOW, project_id=project_id)
    with call.db.read() as tx:
        scope = _scope(call, tx, filters)
        limits = db.limits(tx, project_id, scope, call.settings.quota.limits)
    return _row(call, {"id": project_id, **limits}, scope)


@RESOURCE.get("/{project_id}/defaults", policy=SHOW, view=QUOTA_SET)
def show_defaults(call: Call, project_id: str) -> Shown:
    """The limits that hold where nothing else is set, of every project."""
    with call.db.read() as tx:
        limits = db.class_limits(tx, "default", call.settings.quota.limits)
    return _row(call, {"id": project_id, **limits})


@RESOURCE.get("/{project_id}/detail", policy=SHOW, view=One("quota_set", QuotaDetailView), filters=Whose, since="2.25")
def show_detail(call: Call, project_id: str, filters: dict[str, str]) -> Shown:
    """The limits that hold, and what is in use."""
    call.require(SHOW, project_id=project_id)
    with call.db.read() as tx:
        scope = _scope(call, tx, filters)
        limits, in_use = db.standing(tx, project_id, scope, call.settings.quota.limits)
    used = {name: Use(limit, in_use.get(name, 0)) for name, limit in limits.items()}
    return _row(call, {"id": project_id, **used}, scope)


@RESOURCE.put("/{project_id}", policy=UPDATE, view=QUOTA_SET, body=SetQuotas, filters=Whose)
def update(call: Call, project_id: str, body: SetQuotas, filters: dict[str, str]) -> Shown:
    """Set some limits, not below what is in use unless forced."""
    changed = body.sent()
    with call.db.write() as tx:
        scope = _scope(call, tx, filters)
        rules.check_whose(project_id, scope)
        _refuse_foreign(changed, scope)
        limits, in_use = db.standing(tx, project_id, scope, call.settings.quota.limits)
        bounds = {} if scope == rules.PROJECT else db.limits(tx, project_id, rules.PROJECT, call.settings.quota.limits)
        rules.check_limits(changed, in_use, bounds, force=body.force)
        db.put(tx, project_id, scope, changed)
    return _row(call, {"id": UNSET, **limits, **changed}, scope)


@RESOURCE.delete("/{project_id}", policy=DELETE, filters=Whose, status=202)
def delete(call: Call, project_id: str, filters: dict[str, str]) -> None:
    """Forget what was set for a project with its users and types, or for one of them."""
    with call.db.write() as tx:
        db.remove(tx, project_id, _scope(call, tx, filters))


@CLASSES.get("/{class_name}", policy=SHOW_CLASS, view=CLASS_SET)
def show_class(call: Call, class_name: str) -> Shown:
    """The limits of a quota class; those of `default` hold for every project that has no others."""
    with call.db.read() as tx:
        return _row(call, {"id": class_name, **db.class_limits(tx, class_name, call.settings.quota.limits)})


@CLASSES.put("/{class_name}", policy=UPDATE_CLASS, view=CLASS_SET, body=SetClass)
def update_class(call: Call, class_name: str, body: SetClass) -> Shown:
    """Set some limits of a quota class."""
    changed = body.sent()
    scope = rules.class_scope(class_name)
    rules.check_whose("", scope)
    rules.check_limits(changed, {}, {}, force=True)
    with call.db.write() as tx:
        db.put(tx, "", scope, changed)
        return _row(call, {"id": UNSET, **db.class_limits(tx, class_name, call.settings.quota.limits)})


def _scope(call: Call, tx: Tx, filters: Mapping[str, str]) -> str:
    user, share_type = filters.get("user_id"), filters.get("share_type")
    if user and share_type:
        raise errors.Invalid("Quotas are those of a user or of a share type: send user_id or share_type, not both.")
    if share_type:
        # nobody learns here which types there are that are not theirs
        visible = {} if call.caller.is_admin else {"open_to": call.caller.project_id}
        found = share_types.find(tx, share_type, **visible)
        if found is None:
            raise errors.NotFound(f"There is no share type with the name or id {share_type}.")
        return rules.type_scope(found.id)
    return rules.user_scope(user) if user else rules.PROJECT


def _is_of_type(scope: str) -> bool:
    return scope.startswith(rules.type_scope(""))


def _refuse_foreign(changed: Mapping[str, int], scope: str) -> None:
    for name in changed:
        if _is_of_type(scope) and not rules.RESOURCES[name].is_of_types:
            raise errors.Invalid(f"A share type cannot have a quota of {name}.")


def _row(call: Call, values: dict[str, Value], scope: str = rules.PROJECT) -> Shown:
    if _is_of_type(scope):
        values |= {name: UNSET for name, resource in rules.RESOURCES.items() if not resource.is_of_types}
    return tuple(values[name] for name in call.columns)
