# SPDX-License-Identifier: Apache-2.0
"""Share servers: what serves shares at addresses of a share network; their states, and which one a share goes to."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

import msgspec

from abaca.domain.networks.share_networks import Subnet
from abaca.domain.state_machine import StateMachine

SHARE_SERVER = StateMachine(
    "share server",
    # at                     event      to
    ("none",                 "create",  "creating"),
    ("creating",             "done",    "active"),
    ("creating",             "failed",  "error"),
    ("active",               "change",  "network_change"),
    ("network_change",       "done",    "active"),
    ("network_change",       "failed",  "error"),
    ("error",                "change",  "network_change"),
    (("active", "error"),    "delete",  "deleting"),
    ("deleting",             "done",    "gone"),
    ("deleting",             "failed",  "error"),
    busy=("creating", "network_change", "deleting"),
    resettable=("active", "error", "creating", "deleting", "network_change"),
)  # fmt: skip


class ShareServer(msgspec.Struct, frozen=True, gc=False):
    """A share server; `host` is host@backend. Times are naive UTC.

    `details` is what the driver wants told of it. It is deleted by itself when nothing was on it since `unused_since`
    for long, if it `is_auto_deletable`.
    """

    id: str
    project_id: str
    share_network_id: str
    host: str
    status: str
    identifier: str | None
    is_auto_deletable: bool
    details: dict[str, str]
    security_service_update_support: bool
    network_allocation_update_support: bool
    share_server_multiple_subnet_support: bool
    unused_since: datetime.datetime | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


class Load(msgspec.Struct, frozen=True, gc=False):
    """What is on a share server: so many shares, of so many GiB together."""

    shares: int
    gib: int


def has_room(load: Load, size_gib: int, capabilities: Mapping[str, object]) -> bool:
    """Whether one more share of that size stays within the limits of the back end; -1, or nothing said: no limit."""
    return _within(capabilities.get("max_shares_per_share_server"), load.shares + 1) and _within(
        capabilities.get("max_share_server_size"), load.gib + size_gib
    )


def _within(limit: object, wanted: int) -> bool:
    return not isinstance(limit, int) or limit < 0 or wanted <= limit


def usable(subnets: Sequence[Subnet], zone: str) -> list[Subnet]:
    """The subnets by which a share server in a zone is reached: the zone's own, or else those of all zones."""
    own = [subnet for subnet in subnets if subnet.availability_zone == zone]
    return own or [subnet for subnet in subnets if subnet.availability_zone is None]
