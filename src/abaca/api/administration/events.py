# SPDX-License-Identifier: Apache-2.0
"""Events, and the targets that are told of them: what was told, and who does not get it."""

from __future__ import annotations

import datetime
from typing import Annotated

from abaca import errors, policy
from abaca.api.administration import resources
from abaca.db.administration import events as db
from abaca.domain.administration.events import EventTarget, Undelivered
from abaca.http.bodies import Filters, IdPrefix, Text, among
from abaca.http.paging import Listed
from abaca.http.pipeline import Call
from abaca.http.routing import Resource
from abaca.http.wire import COUNTED, Many, View
from abaca.operations.registry import EVENT_TYPES, RESOURCE_TYPES

INDEX = policy.admin("event:get_all", "List events.")
TARGETS = policy.admin("event_target:get_all", "List the targets of events.")
RETRY = policy.admin("event_target:retry", "Have what waits for its next try at a target tried at once.")

RESOURCE = Resource("events", "/events")
TARGET = Resource("targets of events", "/event-targets")

# Whoever serves a target has renewed its lease long before an event is so old.
LATE_S = 60


class EventView(View):
    """Something that happened to a resource; `undelivered` is how many targets do not have the event yet."""

    id: str
    event_type: str
    resource_type: str
    resource_id: str
    project_id: str | None
    user_id: str | None
    request_id: str | None
    created_at: datetime.datetime
    undelivered: int


class EventFilters(Filters, unknown="refuse"):
    """What the list may be asked for."""

    event_type: Annotated[str, among(EVENT_TYPES)]
    resource_type: Annotated[str, among(RESOURCE_TYPES)]
    resource_id: Text
    project_id: Text
    id: Text
    id_prefix: IdPrefix


class TargetView(View):
    """A target: what it still has to get and since when, what it refused, and why it does not get more now."""

    name: str
    undelivered: int
    oldest_at: datetime.datetime | None
    refused: int
    delivered: int
    delivered_at: datetime.datetime | None
    dropped: int
    attempts: int
    next_try_at: datetime.datetime | None
    failing_since: datetime.datetime | None
    problem: str | None
    worker: str | None


@RESOURCE.get(policy=INDEX, view=Many("events", EventView, links="events_links", counted=COUNTED), filters=EventFilters)
def index(call: Call, filters: dict[str, object]) -> Listed:
    """Events, the newest first, as they were committed."""
    with call.db.read() as tx:
        if "resource_id" in filters:
            said, kind = str(filters["resource_id"]), filters.get("resource_type")
            filters = {**filters, "resource_id": resources.resource_id_of(call, tx, said, kind)}
        rows = db.EVENTS.rows(tx, call.columns, filters, call.page._replace(sort_key="seq"))
        return Listed(rows, call.count(lambda most: db.EVENTS.count(tx, filters, most)))


@TARGET.get(policy=TARGETS, view=Many("event_targets", TargetView, links="event_targets_links", counted=COUNTED))
def index_targets(call: Call) -> Listed:
    """The targets that were ever served or have events waiting, by name; the `marker` is a name."""
    page = call.page
    with call.db.read() as tx:
        every = db.targets(tx)
        known = [one for one in every if page.marker is None or one[0].name > page.marker]
        found = known[: page.limit]
        rows = [_shown(target, waiting, tx.now) for target, waiting in found]
    goes_on = found and len(known) > len(found)
    return Listed(
        [[row[name] for name in call.columns] for row in rows],
        call.count(lambda _: len(every)),
        is_marked=True,
        next_marker=found[-1][0].name if goes_on else None,
    )


@TARGET.post("/{name}/retry", policy=RETRY, status=202)
def retry(call: Call, name: str) -> None:
    """Try at once what waits for its next try."""
    with call.db.write() as tx:
        if not db.retry_now(tx, name):
            raise errors.NotFound(resource="Target of events", id=name)


def _shown(target: EventTarget, waiting: Undelivered, now: datetime.datetime) -> dict[str, object]:
    now_s = now.replace(tzinfo=datetime.UTC).timestamp()
    problem = target.error or waiting.refusal
    is_late = waiting.oldest is not None and (now - waiting.oldest).total_seconds() > LATE_S
    if problem is None and is_late and target.lease_until_s < now_s:
        problem = "no worker serves it: is it in the workers' configuration?"
    return {
        "name": target.name,
        "undelivered": waiting.undelivered,
        "oldest_at": waiting.oldest,
        "refused": waiting.refused,
        "delivered": target.delivered,
        "delivered_at": target.delivered_at,
        "dropped": target.dropped,
        "attempts": target.attempts,
        "next_try_at": _time(target.not_before_s) if target.not_before_s > now_s else None,
        "failing_since": target.failing_since,
        "problem": problem,
        "worker": (target.owner or "").partition("#")[0] or None,
    }


def _time(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).replace(tzinfo=None)
