# SPDX-License-Identifier: Apache-2.0
"""Who is asking: known once at the door, then handed down as a value."""

from __future__ import annotations

import msgspec

# A role brings those to its right with it, as Keystone's own implications do.
IMPLIED_ROLES = {
    "admin": ("manager", "member", "reader"),
    "manager": ("member", "reader"),
    "member": ("reader",),
}


class Identity(msgspec.Struct, frozen=True):
    """What a token, a password or the configuration says about a person or a service.

    `has_file_service` is False where a catalog is known for them that names no shared file system service.
    """

    user_id: str
    project_id: str
    roles: frozenset[str]
    system_scope: str | None = None
    has_file_service: bool = True


class Caller(msgspec.Struct, frozen=True):
    """An identity at work on one request."""

    user_id: str
    project_id: str
    roles: frozenset[str]
    is_admin: bool
    request_id: str
    global_request_id: str | None = None
    system_scope: str | None = None
    has_file_service: bool = True


def with_implied(roles: frozenset[str]) -> frozenset[str]:
    """The roles, in lower case, and all that they bring with them."""
    named = {role.lower() for role in roles}
    for role in tuple(named):
        named.update(IMPLIED_ROLES.get(role, ()))
    return frozenset(named)
