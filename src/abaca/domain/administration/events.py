# SPDX-License-Identifier: Apache-2.0
"""Events: what happened to a resource, told to whoever an operator names; and which targets want which."""

from __future__ import annotations

import datetime
import fnmatch
from collections.abc import Mapping, Sequence

import msgspec

START, END, ERROR = "start", "end", "error"
# The queue that is announced when a transaction with events commits.
QUEUE = "events"


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event. `id` is the same at every try to deliver it; `event_type` is like `share.create.end`."""

    id: str
    event_type: str
    resource_type: str
    resource_id: str
    project_id: str | None
    user_id: str | None
    request_id: str | None
    created_at: datetime.datetime
    payload: Mapping[str, object]

    @property
    def is_error(self) -> bool:
        """Whether it tells of a failure."""
        return self.event_type.endswith(f".{ERROR}")


class EventTarget(msgspec.Struct, frozen=True, gc=False):
    """How a target stands: which worker serves it and until when, and since when it cannot be reached.

    Times in seconds count from the epoch by the database's clock. One that nobody ever served has a name alone.
    """

    name: str
    owner: str | None = None
    lease_until_s: float = 0.0
    not_before_s: float = 0.0
    attempts: int = 0
    error: str | None = None
    failing_since: datetime.datetime | None = None
    delivered: int = 0
    delivered_at: datetime.datetime | None = None
    dropped: int = 0


class Undelivered(msgspec.Struct, frozen=True, gc=False):
    """What a target still has to get: how many events, the time of the oldest, how many it refused, and why one."""

    target: str
    undelivered: int = 0
    oldest: datetime.datetime | None = None
    refused: int = 0
    refusal: str | None = None


class About(msgspec.Struct, frozen=True, kw_only=True):
    """Whom an event is about, and who asked for what happened."""

    resource_type: str
    resource_id: str
    project_id: str | None = None
    user_id: str | None = None
    request_id: str | None = None


class Subscriptions:
    """Which targets want which events: names, each with patterns such as `share.create.*`."""

    def __init__(self, wanted: Mapping[str, Sequence[str]]) -> None:
        self._wanted = dict(wanted)
        self._known: dict[str, tuple[str, ...]] = {}

    def __call__(self, event_type: str) -> tuple[str, ...]:
        """The names of the targets that want events of this type."""
        found = self._known.get(event_type)
        if found is None:
            found = self._known[event_type] = tuple(
                name
                for name, patterns in self._wanted.items()
                if any(fnmatch.fnmatchcase(event_type, pattern) for pattern in patterns)
            )
        return found
