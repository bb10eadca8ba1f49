# SPDX-License-Identifier: Apache-2.0
"""Locks: what can be locked against what, and who has a say over whose lock."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Literal

import msgspec

from abaca import errors

if TYPE_CHECKING:
    from abaca.domain.callers import Caller

DELETE, SHOW = "delete", "show"
SHARE, ACCESS_RULE = "share", "access_rule"
ACTIONS = {SHARE: (DELETE,), ACCESS_RULE: (DELETE, SHOW)}
# Whoever stands further to the right has a say over all locks to the left, too.
CONTEXTS = ("user", "service", "admin")
MOST_REASON = 1023
# What stands where a hidden rule says whom it lets in, and with which key.
MASK = "******"

# A lock comes too late when the thing goes already.
_GOING = {
    SHARE: ("deleting", "error_deleting", "unmanage_starting", "unmanage_error", "unmanaged"),
    ACCESS_RULE: ("queued_to_deny", "denying"),
}


class ResourceLock(msgspec.Struct, frozen=True, gc=False):
    """A lock on a share or on an access rule, whose share is named too; `resource_id` is what users call it by.

    `because_of` is the lock on a rule that put this one on the rule's share.
    """

    id: str
    project_id: str
    user_id: str
    lock_context: str
    share_id: str
    access_rule_id: str | None
    resource_type: Literal["share", "access_rule"]
    resource_id: str
    resource_action: Literal["delete", "show"]
    lock_reason: str | None
    because_of: str | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


def context_of(caller: Caller) -> str:
    """As whom the caller locks."""
    if caller.is_admin:
        return "admin"
    return "service" if "service" in caller.roles else "user"


def has_a_say(caller: Caller, lock_context: str) -> bool:
    """Whether the caller stands high enough to touch a lock, or look past it; whose it is, is another matter."""
    return CONTEXTS.index(context_of(caller)) >= CONTEXTS.index(lock_context)


def check_action(resource_type: str, action: str) -> str:
    """The action. Raises `Invalid` where such a thing cannot be locked against it."""
    actions = ACTIONS[resource_type]
    if action not in actions:
        raise errors.Invalid(
            f"'resource_action' must be one of: {', '.join(actions)}, for a lock on a {resource_type}."
        )
    return action


def check_reason(reason: str | None) -> str | None:
    """The reason. Raises `Invalid` for one that is too long."""
    if reason is not None and len(reason) > MOST_REASON:
        raise errors.Invalid(f"'lock_reason' must be text of at most {MOST_REASON} characters.")
    return reason


def check_stays(resource_type: str, resource_id: str, state: str) -> None:
    """Raises `Conflict` when the thing is going."""
    if state in _GOING[resource_type]:
        raise errors.Conflict(f"The {resource_type} {resource_id} is {state}: a lock would come too late.")


def reason_on_share(lock_id: str) -> str:
    """Why a share is locked of which a rule is."""
    return f"Locked by access lock: {lock_id}"
