# SPDX-License-Identifier: Apache-2.0
"""An operation as the journal has it. What kinds there are, and how one runs, is the journal's business."""

from __future__ import annotations

import datetime
from typing import Literal, Required, TypedDict

import msgspec

OperationState = Literal["queued", "running", "waiting", "paused", "done", "failed", "cancelled"]
Direction = Literal["do", "undo"]


class Waiting(TypedDict, total=False):
    """What an operation waits for: in words, the names of its conditions, since when and until when at most.

    Times are seconds since the epoch, but for `within_s`: so many seconds it may last.
    """

    what: Required[str]
    conditions: list[str]
    since_s: float
    until_s: float
    within_s: float


class OperationRecord(msgspec.Struct, frozen=True, gc=False):
    """An operation, with all that is written down of it.

    `seq` says in which order operations came. `queue` is where it is to be run next, `home` where it belongs; `keys`
    are what it holds while it lives. It stands at `step`, in `direction`, after `attempt` tries that failed; `data` is
    what its steps have recorded. Times ending in `_at` are naive UTC; `not_before`, `lease_until` and `overdue_since`
    are seconds since the epoch.
    """

    seq: int
    id: str
    kind: str
    queue: str
    home: str
    keys: list[str]
    coalesce_key: str | None
    state: OperationState
    step: int
    direction: Direction
    attempt: int
    not_before: float
    wait: Waiting | None
    signals: int
    owner: str | None
    token: int
    generation: int
    lease_until: float | None
    overdue_since: float | None
    args: dict[str, object]
    data: dict[str, object]
    progress_done: int
    progress_total: int
    parent_id: str | None
    place: int | None
    children: int
    joins_each: bool
    cancel: bool
    pause: bool
    error_code: str | None
    error_text: str | None
    request_id: str | None
    project_id: str | None
    user_id: str | None
    resource_type: str
    resource_id: str
    created_at: datetime.datetime
    updated_at: datetime.datetime
    finished_at: datetime.datetime | None
