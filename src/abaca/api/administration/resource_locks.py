# SPDX-License-Identifier: Apache-2.0
"""Resource locks: a share that shall stay, an access rule that shall stay or not be seen."""

from __future__ import annotations

import datetime
from typing import Annotated, Literal

from abaca import errors
from abaca.api.administration.rule_locks import LOOK_PAST, REMOVE
from abaca.api.shares.lookups import share_held_for_change
from abaca.db.administration import resource_locks as db
from abaca.db.administration.resource_locks import LOCKS
from abaca.db.engine.database import Tx
from abaca.db.engine.statements import Row
from abaca.db.shares import access_rules
from abaca.domain.administration import resource_locks as rules
from abaca.domain.administration.resource_locks import DELETE, SHARE, ResourceLock
from abaca.domain.shares.access_rules import AccessRule
from abaca.http.bodies import UNSET, Body, Filters, Text, Time, UnsetType, Uuid
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import Computed, Counted, Link, Many, Named, One, View
from abaca.operations.administration import resource_locks
from abaca.policy import owner, service, service_or_member, service_or_reader

LIST = service_or_reader("resource_lock:get_all", "List resource locks.")
SHOW = service_or_reader("resource_lock:get", "See a resource lock.")
ALL_PROJECTS = service("resource_lock:get_all_projects", "List the resource locks of all projects.")
CREATE = service_or_member("resource_lock:create", "Lock a share or an access rule.")
UPDATE = owner("resource_lock:update", "Change a resource lock.")

RESOURCE = Resource("resource locks", "/resource-locks", since="2.81", rules=(ALL_PROJECTS, LOOK_PAST))


class LockView(View):
    """Who locked what against what, and why."""

    id: str
    user_id: str
    project_id: str
    lock_context: str
    resource_type: str
    resource_id: str
    resource_action: str
    lock_reason: str | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
    links: Annotated[list[Link], Computed(lambda call, id_: call.links("resource-locks", id_), needs=("id",))]


class CreateLock(Body, key="resource_lock"):
    """What to lock against what. Rules can be locked at every version, as clients that stay at 2.81 do."""

    resource_id: Uuid
    resource_type: Literal["share", "access_rule"]
    resource_action: Text | None = None
    lock_reason: Text | None = None


class UpdateLock(Body, key="resource_lock", unknown="refuse"):
    """What may change about a lock; a reason of null takes the reason away."""

    resource_action: Text | UnsetType = UNSET
    lock_reason: Text | UnsetType | None = UNSET


class LockFilters(Filters):
    """What locks can be listed by."""

    id: Text
    user_id: Text
    project_id: Text
    resource_id: Text
    resource_type: Text
    resource_action: Text
    lock_context: Text
    lock_reason: Text
    lock_reason_like: Annotated[Text, Named("lock_reason~")]
    created_since: Time
    created_before: Time


@RESOURCE.get(
    policy=LIST,
    view=Many("resource_locks", LockView, links="resource_locks_links", counted=Counted("2.81")),
    filters=LockFilters,
)
def index(call: Call, filters: dict[str, object]) -> Listed:
    """Locks that people of the project made, and with all_projects those of all."""
    asked = {**filters, **call.project_filter(ALL_PROJECTS)}
    with call.db.read() as tx:
        rows = LOCKS.rows(tx, call.columns, asked, call.page)
        count = call.count(lambda most: LOCKS.count(tx, asked, most))
    return Listed(rows, count)


@RESOURCE.get("/{lock_id}", policy=SHOW, view=One("resource_lock", LockView))
def show(call: Call, lock_id: str) -> Row:
    """One lock."""
    with call.db.read() as tx:
        row = LOCKS.one(tx, call.columns, {"id": lock_id})
        if row is None:
            raise errors.NotFound(resource="Resource lock", id=lock_id)
        call.visible(row.project_id, "Resource lock", lock_id)
        return row


@RESOURCE.post(policy=CREATE, body=CreateLock, view=One("resource_lock", LockView))
def create(call: Call, body: CreateLock) -> Row | None:
    """Lock a share or an access rule; from then on it is as the lock says, for everybody."""
    action = rules.check_action(body.resource_type, body.resource_action or DELETE)
    reason = rules.check_reason(body.lock_reason)
    with call.db.write() as tx:
        try:
            if body.resource_type == SHARE:
                share_held_for_change(call, tx, body.resource_id)
                lock_id = resource_locks.lock_share(tx, body.resource_id, reason, call.caller)
            else:
                rule = _rule_for_change(call, tx, body.resource_id)
                lock_id = resource_locks.lock_rule(tx, rule.share_id, rule.id, action, reason, call.caller)
        except errors.NotFound as missing:
            raise errors.Invalid(missing.message) from None
        return LOCKS.one(tx, call.columns, {"id": lock_id})


@RESOURCE.put("/{lock_id}", policy=UPDATE, body=UpdateLock, view=One("resource_lock", LockView))
def update(call: Call, lock_id: str, body: UpdateLock) -> Row | None:
    """Change the reason, or what it locks against."""
    values: dict[str, str | None] = {}
    if not isinstance(body.lock_reason, UnsetType):
        values["lock_reason"] = rules.check_reason(body.lock_reason)
    with call.db.write() as tx:
        lock = _for_change(call, tx, lock_id)
        if not isinstance(body.resource_action, UnsetType):
            values["resource_action"] = rules.check_action(lock.resource_type, body.resource_action)
        if values:
            try:
                resource_locks.change(tx, lock, values)
            except errors.Conflict as conflict:
                raise errors.Invalid(conflict.message) from None
        return LOCKS.one(tx, call.columns, {"id": lock_id})


@RESOURCE.delete("/{lock_id}", policy=REMOVE, status=204)
def delete(call: Call, lock_id: str) -> None:
    """Unlock."""
    with call.db.write() as tx:
        resource_locks.unlock(tx, _for_change(call, tx, lock_id))


# ---------------------------------------------------------------- looking up and checking


def _for_change(call: Call, tx: Tx, lock_id: str) -> ResourceLock:
    lock = db.show(tx, lock_id)
    if lock is None:
        raise errors.NotFound(resource="Resource lock", id=lock_id)
    call.visible(lock.project_id, "Resource lock", lock_id)
    call.require(call.route.policy, project_id=lock.project_id, user_id=lock.user_id)
    if not rules.has_a_say(call.caller, lock.lock_context):
        raise errors.Forbidden(
            f"Resource lock {lock_id} was made as {lock.lock_context}; ask an administrator to change or delete it."
        )
    return lock


def _rule_for_change(call: Call, tx: Tx, rule_id: str) -> AccessRule:
    missing = errors.NotFound(resource="Share access rule", id=rule_id)
    rule = access_rules.find(tx, rule_id)
    if rule is None:
        raise missing
    try:
        share_held_for_change(call, tx, rule.share_id)
    except (errors.NotFound, errors.Forbidden):
        # of a public share others see that it is there, but not its rules
        raise missing from None
    return rule
