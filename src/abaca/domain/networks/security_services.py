# SPDX-License-Identifier: Apache-2.0
"""Security services: the directory that a share server joins, so that it knows users."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Literal

import msgspec

from abaca import errors

Type = Literal["active_directory", "ldap", "kerberos"]
TYPES: tuple[Type, ...] = ("active_directory", "ldap", "kerberos")
# What may change while share servers have joined it.
WORDS = ("name", "description")


class SecurityService(msgspec.Struct, frozen=True, gc=False):
    """A directory of a project. `password` is the project's own, and stands in no log. Times are naive UTC."""

    id: str
    project_id: str
    type: Type
    name: str | None
    description: str | None
    dns_ip: str | None
    server: str | None
    domain: str | None
    user: str | None
    password: str | None
    ou: str | None
    default_ad_site: str | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


def check_site(values: Mapping[str, object]) -> None:
    """Raises `Invalid` where a site is named for what has none, or beside a server."""
    if not values.get("default_ad_site"):
        return
    if values.get("type") != "active_directory":
        raise errors.Invalid("'default_ad_site' is for security services of the type active_directory.")
    if values.get("server"):
        raise errors.Invalid("Give 'server' or 'default_ad_site', not both: each says how a server is found.")
