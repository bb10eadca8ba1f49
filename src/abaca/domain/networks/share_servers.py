# SPDX-License-Identifier: Apache-2.0
"""Share servers: what serves shares at addresses of a share network; their states, and which one a share goes to."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import msgspec

from abaca.domain.networks.share_networks import Subnet
from abaca.domain.shares.shares import TASK_STATES
from abaca.domain.state_machine import StateMachine

# At which a share server can be given up.
RELEASABLE = ("active", "error", "manage_error", "unmanage_error")

SHARE_SERVER = StateMachine(
    "share server",
    # at                     event       to
    ("none",                 "create",   "creating"),
    ("creating",             "done",     "active"),
    ("creating",             "failed",   "error"),
    ("none",                 "manage",   "manage_starting"),
    ("manage_starting",      "done",     "active"),
    ("manage_starting",      "failed",   "manage_error"),
    ("active",               "change",   "network_change"),
    ("network_change",       "done",     "active"),
    ("network_change",       "failed",   "error"),
    ("error",                "change",   "network_change"),
    (("active", "error"),    "delete",   "deleting"),
    ("deleting",             "done",     "gone"),
    ("deleting",             "failed",   "error"),
    (RELEASABLE,             "unmanage", "unmanage_starting"),
    ("unmanage_starting",    "done",     "gone"),
    ("unmanage_starting",    "failed",   "unmanage_error"),
    busy=("creating", "manage_starting", "network_change", "deleting", "unmanage_starting"),
    resettable=(
        "active", "error", "creating", "deleting", "network_change",
        "manage_starting", "manage_error", "unmanage_starting", "unmanage_error",
    ),
)  # fmt: skip

# No event moves it yet; an operator may set it.
SERVER_TASK = StateMachine("share server task", resettable=TASK_STATES)

# What a share server can, as its back end could when it was made; an administrator may say it anew.
CAPABILITIES = (
    "security_service_update_support",
    "network_allocation_update_support",
    "share_server_multiple_subnet_support",
)


class ShareServer(msgspec.Struct, frozen=True, gc=False):
    """A share server; `host` is host@backend. Times are naive UTC.

    Of one that goes the share network may be gone. `details` is what the driver wants told of it. It is deleted by
    itself when nothing was on it since `unused_since` for long, if it `is_auto_deletable`. All shares on it are
    encrypted with the key `encryption_key_ref`, if there is one. `task_state` is what an administrator has set.
    """

    id: str
    project_id: str
    share_network_id: str | None
    host: str
    status: str
    identifier: str | None
    is_auto_deletable: bool
    details: dict[str, str]
    security_service_update_support: bool
    network_allocation_update_support: bool
    share_server_multiple_subnet_support: bool
    unused_since: datetime.datetime | None
    encryption_key_ref: str | None
    task_state: str | None
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


class NamedShareServer(ShareServer, frozen=True, gc=False):
    """A share server with the name of its share network."""

    share_network_name: str | None


class Load(msgspec.Struct, frozen=True, gc=False):
    """What is on a share server: so many shares, of so many GiB together."""

    shares: int
    gib: int


class Limits(msgspec.Struct, frozen=True, gc=False):
    """How many shares, and how many GiB of them, a share server of a back end may have; -1: any number."""

    shares: int = -1
    gib: int = -1

    def leave_room(self, load: Load, size_gib: int) -> bool:
        """Whether one more share of that size stays within them."""
        return _within(self.shares, load.shares + 1) and _within(self.gib, load.gib + size_gib)


def _within(limit: int, wanted: int) -> bool:
    return limit < 0 or wanted <= limit


def usable(subnets: Sequence[Subnet], zone: str) -> list[Subnet]:
    """The subnets by which a share server in a zone is reached: the zone's own, or else those of all zones."""
    own = [subnet for subnet in subnets if subnet.availability_zone == zone]
    return own or [subnet for subnet in subnets if subnet.availability_zone is None]
