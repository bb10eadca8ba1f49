# SPDX-License-Identifier: Apache-2.0
"""Where a share can be mounted from."""

from __future__ import annotations

import datetime
from typing import Protocol

import msgspec


class Export(Protocol):
    """A place as a driver names it: the `path` that clients write, such as `10.0.0.5:/shares/x`."""

    @property
    def path(self) -> str: ...
    @property
    def is_admin_only(self) -> bool: ...
    @property
    def preferred(self) -> bool: ...


class ExportLocation(msgspec.Struct, frozen=True, gc=False):
    """A place where an instance can be mounted from. Times are naive UTC.

    With `preferred_by_hand` somebody has said whether it is preferred, and the driver no longer does.
    """

    id: str
    share_instance_id: str
    path: str
    is_admin_only: bool
    preferred: bool
    preferred_by_hand: bool
    metadata: dict[str, str]
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
