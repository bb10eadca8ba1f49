# SPDX-License-Identifier: Apache-2.0
"""What is going on behind the API, and why something waits: the journal as its project may see it."""

from __future__ import annotations

import datetime
from typing import Annotated, Literal

from abaca import errors
from abaca.api import naming
from abaca.api.administration import resources
from abaca.db.engine.statements import Row
from abaca.db.journal import keys, operations
from abaca.db.journal.findings import FINDINGS
from abaca.domain.operations import Waiting
from abaca.http.bodies import Filters, Flag, IdPrefix, Text, among
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import COUNTED, AdminOnly, Computed, Many, One, View
from abaca.journal import kinds, steering
from abaca.operations.registry import OPERATIONS, RESOURCE_TYPES
from abaca.policy import admin, reader

STEER = {
    verb: admin(f"operation:{verb}", does)
    for verb, does in (
        ("cancel", "Cancel an operation."),
        ("pause", "Pause an operation."),
        ("resume", "Resume an operation that is paused."),
        ("retry", "Let an operation that waits for its next try run at once."),
    )
}
GET_FINDINGS = admin("operation:get_findings", "List what an operation found.")
LIST_ALL_PROJECTS = admin("operation:list_all_projects", "List the operations of all projects.")

OPERATION = naming.Kind("Operation", operations.OPERATIONS, is_named=False)

RESOURCE = Resource("operations", "/operations", rules=(LIST_ALL_PROJECTS,))


class _Place:
    """As much of a row as names the step it stands at."""

    def __init__(self, kind: str, step: int) -> None:
        self.kind, self.step = kind, step


def _step(_call: Call, kind: str, step: int, state: str) -> str | None:
    return None if state in operations.ENDED else kinds.waiting_for(_Place(kind, step), OPERATIONS)


def _next_try(_call: Call, state: str, not_before: float) -> str | None:
    if state != "waiting":
        return None
    return _time(not_before)


def _time(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).replace(tzinfo=None).isoformat("T", "microseconds")


def _waits_for(call: Call, id: str, queue: str, state: str, wait: Waiting | None) -> str | None:
    """What an operation that is not under way waits for; what is ahead of a queued one is looked up for one alone."""
    if state == "waiting":
        return str(wait["what"]) if wait else "its next try"
    if state == "paused":
        return f"`abaca operation resume {id}`"
    if state != "queued" or "ahead" not in call.notes:
        return None
    ahead = call.notes["ahead"]
    if ahead:
        return f"the end of {ahead[0].id} ({ahead[0].kind})"
    return f"a worker that serves {queue}" if call.caller.is_admin else "a worker"


def _overdue_since(_call: Call, overdue_since: float | None) -> str | None:
    return None if overdue_since is None else _time(overdue_since)


def _progress(_call: Call, done: int, total: int) -> dict[str, int] | None:
    return {"done": done, "total": total} if total else None


class OperationView(View):
    """An operation; `step`, `attempt`, `error`, `waits_for` and `next_try_at` say where it stands and why it waits.

    `overdue_since` is set while its step takes longer than it may; `progress` of one with children counts those.
    `cancel` and `pause` say whether it was asked to.
    """

    id: str
    kind: str
    resource_type: str
    resource_id: str
    project_id: str | None
    user_id: str | None
    request_id: str | None
    state: Literal["queued", "running", "waiting", "paused", "done", "failed", "cancelled"]
    step: Annotated[str | None, Computed(_step, needs=("kind", "step", "state"))]
    direction: Literal["do", "undo"]
    attempt: int
    cancel: bool
    pause: bool
    next_try_at: Annotated[str | None, Computed(_next_try, needs=("state", "not_before"))]
    waits_for: Annotated[str | None, Computed(_waits_for, needs=("id", "queue", "state", "wait"))]
    overdue_since: Annotated[str | None, Computed(_overdue_since, needs=("overdue_since",))]
    parent_id: str | None
    progress: Annotated[dict[str, int] | None, Computed(_progress, needs=("progress_done", "progress_total"))]
    error_code: str | None
    error_text: str | None
    findings: Annotated[
        dict[str, object] | None, Computed(lambda _, data: data.get("findings"), needs=("data",)), AdminOnly()
    ]
    queue: Annotated[str, AdminOnly()]
    owner: Annotated[str | None, AdminOnly()]
    created_at: datetime.datetime
    updated_at: datetime.datetime
    finished_at: datetime.datetime | None


class FindingView(View):
    """One thing that an operation found, of those that need saying: what kind, of which share, and why.

    What is `unknown` is of no share: the back end has the instance, and nobody here knows it.
    """

    id: str
    kind: Literal["updated", "repaired", "skipped", "failed", "unknown"]
    share_id: str
    share_instance_id: str
    why: str
    created_at: datetime.datetime


class FindingFilters(Filters, unknown="refuse"):
    """What the list may be asked for."""

    kind: Annotated[str, among(("updated", "repaired", "skipped", "failed", "unknown"))]
    share_id: Text


class OperationFilters(Filters, unknown="refuse"):
    """What the list may be asked for; `live` leaves out what has ended."""

    resource_id: Text
    resource_type: Annotated[str, among(RESOURCE_TYPES)]
    kind: Annotated[str, among(OPERATIONS)]
    queue: Text
    state: Annotated[str, among((*operations.LIVE, *operations.ENDED))]
    parent_id: Text
    id: Text
    id_prefix: IdPrefix
    live: Flag


@RESOURCE.get(
    policy=reader("operation:get_all", "List operations."),
    view=Many("operations", OperationView, links="operations_links", counted=COUNTED),
    filters=OperationFilters,
)
def index(call: Call, filters: dict[str, object]) -> Listed:
    """Operations, the newest first."""
    asked = {**filters, **call.project_filter(LIST_ALL_PROJECTS)}
    if asked.pop("live", False):
        asked["states"] = operations.LIVE
    with call.db.read() as tx:
        if "parent_id" in asked:
            asked["parent_id"] = naming.id_of(call, tx, OPERATION, str(asked["parent_id"]))
        if "resource_id" in asked:
            said, kind = str(asked["resource_id"]), asked.get("resource_type")
            asked["resource_id"] = resources.resource_id_of(call, tx, said, kind)
        rows = operations.OPERATIONS.rows(tx, call.columns, asked, call.page)
        return Listed(rows, call.count(lambda most: operations.OPERATIONS.count(tx, asked, most)))


@RESOURCE.get("/{id}", policy=reader("operation:get", "See an operation."), view=One("operation", OperationView))
def show(call: Call, id: str) -> Row:
    """One operation."""
    with call.db.read() as tx:
        id = naming.id_of(call, tx, OPERATION, id)
        row = operations.OPERATIONS.one(tx, call.columns, {"id": id})
        call.notes["ahead"] = keys.ahead_of(tx, id)
    if row is None:
        raise errors.NotFound(resource="Operation", id=id)
    call.visible(row.project_id or "", "Operation", id)
    return row


@RESOURCE.get(
    "/{id}/findings",
    policy=GET_FINDINGS,
    view=Many("findings", FindingView, links="findings_links", counted=COUNTED),
    filters=FindingFilters,
)
def index_findings(call: Call, id: str, filters: dict[str, object]) -> Listed:
    """What an operation found, one by one: shares that were skipped, that failed, what is unknown, what would change.

    At most ten thousand are kept; the counts in the operation's own `findings` are of all.
    """
    with call.db.read() as tx:
        id = naming.id_of(call, tx, OPERATION, id)
        if operations.show(tx, id) is None:
            raise errors.NotFound(resource="Operation", id=id)
        asked = {**filters, "operation_id": id}
        if "share_id" in filters:
            asked["share_id"] = resources.resource_id_of(call, tx, str(filters["share_id"]), "share")
        rows = FINDINGS.rows(tx, call.columns, asked, call.page)
        return Listed(rows, call.count(lambda most: FINDINGS.count(tx, asked, most)))


def _steered(call: Call, id: str, verb: steering.Verb) -> Row | None:
    with call.db.write() as tx:
        id = naming.id_of(call, tx, OPERATION, id)
        steering.steer(tx, id, verb, OPERATIONS)
        return operations.OPERATIONS.one(tx, call.columns, {"id": id})


@RESOURCE.post("/{id}/cancel", policy=STEER["cancel"], view=One("operation", OperationView), status=202)
def cancel(call: Call, id: str) -> Row | None:
    """Ask it to stop at its next step and to undo what it did; past its point of no return it goes on to its end."""
    return _steered(call, id, "cancel")


@RESOURCE.post("/{id}/pause", policy=STEER["pause"], view=One("operation", OperationView), status=202)
def pause(call: Call, id: str) -> Row | None:
    """Ask it to pause after the part under way. It then holds nothing, and waits for as long as it takes."""
    return _steered(call, id, "pause")


@RESOURCE.post("/{id}/resume", policy=STEER["resume"], view=One("operation", OperationView), status=202)
def resume(call: Call, id: str) -> Row | None:
    """Let it go on where it paused."""
    return _steered(call, id, "resume")


@RESOURCE.post("/{id}/retry", policy=STEER["retry"], view=One("operation", OperationView), status=202)
def retry(call: Call, id: str) -> Row | None:
    """Let an operation that waits for its next try run at once."""
    return _steered(call, id, "retry")
