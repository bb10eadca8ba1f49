# SPDX-License-Identifier: Apache-2.0
"""Who may do what. A rule's default stands beside the route that it guards; operators override it in policy.yaml.

Rule names are those of Manila, so that policy files keep their meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from abaca.domain.callers import Caller, Identity

CONTEXT_IS_ADMIN = "context_is_admin"
ADMIN_ONLY = f"rule:{CONTEXT_IS_ADMIN}"


class Rule(NamedTuple):
    """A named permission: its default in oslo.policy's language, and what it lets people do."""

    name: str
    check: str
    description: str


class Decides(Protocol):
    """Says who may do what: `decisions.Policy`, or one that knows a single caller."""

    def is_admin(self, identity: Identity, /) -> bool: ...

    def allows(
        self, rule: str, caller: Caller, /, *, project_id: str | None = None, user_id: str | None = None
    ) -> bool: ...


BASE_RULES = (
    Rule(CONTEXT_IS_ADMIN, "role:admin", "Who counts as an administrator."),
    Rule(
        "admin_or_project_member",
        "rule:context_is_admin or (role:member and project_id:%(project_id)s)",
        "An administrator, or somebody who works in the project.",
    ),
    Rule(
        "admin_or_project_reader",
        "rule:context_is_admin or (role:reader and project_id:%(project_id)s)",
        "An administrator, or somebody who may look at the project.",
    ),
    Rule("admin_or_service", "rule:context_is_admin or role:service", "An administrator, or another service."),
    Rule(
        "owner_user",
        "rule:admin_or_service or (user_id:%(user_id)s and project_id:%(project_id)s)",
        "The user who made it, an administrator, or another service.",
    ),
)


def admin(name: str, description: str = "") -> Rule:
    """Administrators only."""
    return Rule(name, ADMIN_ONLY, description)


def member(name: str, description: str = "") -> Rule:
    """Members of the project that owns the thing, and administrators."""
    return Rule(name, "rule:admin_or_project_member", description)


def reader(name: str, description: str = "") -> Rule:
    """Readers of the project that owns the thing, and administrators."""
    return Rule(name, "rule:admin_or_project_reader", description)


def service(name: str, description: str = "") -> Rule:
    """Other services, and administrators."""
    return Rule(name, "rule:admin_or_service", description)


def service_or_reader(name: str, description: str = "") -> Rule:
    """Other services, readers of the project that owns the thing, and administrators."""
    return Rule(name, "rule:admin_or_service or rule:admin_or_project_reader", description)


def service_or_member(name: str, description: str = "") -> Rule:
    """Other services, members of the project that owns the thing, and administrators."""
    return Rule(name, "rule:admin_or_service or rule:admin_or_project_member", description)


def owner(name: str, description: str = "") -> Rule:
    """The user who made the thing, other services, and administrators."""
    return Rule(name, "rule:owner_user", description)


def anyone(name: str, description: str = "") -> Rule:
    """Everybody who is known."""
    return Rule(name, "", description)
