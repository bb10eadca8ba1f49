# SPDX-License-Identifier: Apache-2.0
"""`abaca event`: what was told, to whom, and which target is stuck."""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING

import click
import msgspec

from abaca import errors
from abaca.cli import shown
from abaca.cli.operations import open_database
from abaca.cli.options import Given, configured

if TYPE_CHECKING:
    from abaca.db.engine.database import Tx
    from abaca.domain.administration.events import EventTarget, Undelivered

# Whoever serves a target has renewed its lease long before an event is so old.
LATE_S = 60
EVENTS = ("id", "event_type", "resource_type", "resource_id", "project_id", "created_at", "undelivered")
TARGETS = (
    "name",
    "undelivered",
    "oldest",
    "refused",
    "delivered",
    "dropped",
    "attempts",
    "next_try",
    "failing_for",
    "problem",
    "worker",
)


@click.group()
def event() -> None:
    """See what is told, and who does not get it."""


@event.command("list")
@configured
@click.option("--type", "event_type", help="Only of this type, e.g. share.create.end.")
@click.option("--resource", "resource_id", help="Only about this resource.")
@click.option("--limit", default=100, show_default=True, help="At most so many, the newest first.")
@shown.listed
def list_events(given: Given, *, limit: int, output: shown.Output, **equal: str | None) -> None:
    """List events, and how many targets do not have each yet."""
    from abaca.db.administration import events as rows

    with open_database(given) as db, db.read() as tx:
        found = rows.find(tx, limit=limit, **equal)
        shown.table([msgspec.structs.asdict(one) for one in found], output, brief=EVENTS)


@event.command("targets")
@configured
@shown.listed
def list_targets(given: Given, *, output: shown.Output) -> None:
    """List who is told, what each still has to get, since when, and why it does not."""
    from abaca.db.administration import events as rows

    with open_database(given) as db, db.read() as tx:
        shown.table([_brief(target, waiting, tx) for target, waiting in rows.targets(tx)], output, brief=TARGETS)


@event.command("retry")
@configured
@click.argument("target")
def retry(given: Given, target: str) -> None:
    """Try at once what waits for its next try at TARGET."""
    from abaca.db.administration import events as rows

    with open_database(given) as db, db.write() as tx:
        if not rows.retry_now(tx, target):
            raise errors.NotFound(resource="Target of events", id=target)
    click.echo(f"Events for {target} are tried now.")


def _brief(target: EventTarget, waiting: Undelivered, tx: Tx) -> dict[str, object]:
    now_s = tx.now.replace(tzinfo=datetime.UTC).timestamp()
    wait_s = target.not_before_s - now_s
    problem = target.error or waiting.refusal
    is_late = waiting.oldest is not None and (tx.now - waiting.oldest).total_seconds() > LATE_S
    if problem is None and is_late and target.lease_until_s < now_s:
        problem = "no worker serves it: is it in the workers' configuration?"
    return {
        **msgspec.structs.asdict(target),
        **msgspec.structs.asdict(waiting),
        "oldest": shown.age(waiting.oldest, tx.now),
        "next_try": f"in {math.ceil(wait_s)} s" if wait_s > 0 else None,
        "failing_for": shown.age(target.failing_since, tx.now),
        "problem": problem,
        "worker": (target.owner or "").partition("#")[0] or None,
    }
