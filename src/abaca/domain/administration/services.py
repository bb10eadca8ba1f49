# SPDX-License-Identifier: Apache-2.0
"""A service: what a worker does for one back end, and whether it is alive."""

from __future__ import annotations

import datetime
from typing import Literal

import msgspec

State = Literal["up", "down", "stopped"]
# The heartbeat of a back end that could never be served yet.
NEVER = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - the database's times are naive UTC


def state_of(heartbeat_at: datetime.datetime, down_before: datetime.datetime, *, is_stopped: bool) -> State:
    """Up with a heartbeat since `down_before`; stopped where the worker was told to end."""
    if is_stopped:
        return "stopped"
    return "up" if heartbeat_at >= down_before else "down"


class Service(msgspec.Struct, frozen=True, gc=False):
    """A service; `host` is host@backend, and `problem` why the worker cannot serve that now. Times are naive UTC."""

    id: int
    binary: str
    host: str
    availability_zone: str
    disabled: bool
    disabled_reason: str | None
    ensuring: bool
    stopped: bool
    heartbeat_at: datetime.datetime
    problem: str | None

    def state(self, down_before: datetime.datetime) -> State:
        """How the service is; it needs a heartbeat since `down_before` to be up."""
        return state_of(self.heartbeat_at, down_before, is_stopped=self.stopped)

    def takes_work(self, down_before: datetime.datetime) -> bool:
        """Whether it is up, or was told to stop so lately that it may be restarting."""
        return self.heartbeat_at >= down_before
