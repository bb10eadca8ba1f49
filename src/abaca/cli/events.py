# SPDX-License-Identifier: Apache-2.0
"""`abaca event`: what was told, to whom, and which target is stuck."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from abaca.cli import lookups, shown
from abaca.cli.options import Api, asking

if TYPE_CHECKING:
    from abaca.cli.client import Answer

EVENTS = ("id", "event_type", "resource_type", "resource_id", "project_id", "created_at", "undelivered")
BRIEF = ("name", "undelivered", "oldest", "refused", "delivered", "dropped", "next_try", "failing_for", "problem")
WIDE = (
    *("name", "undelivered", "oldest_at", "refused", "delivered", "delivered_at", "dropped", "attempts"),
    *("next_try_at", "failing_since", "problem", "worker"),
)


@click.group()
def event() -> None:
    """See what is told, and who does not get it."""


@event.command("list")
@asking
@click.option("--type", "event_type", help="Only of this type, e.g. share.create.end.")
@click.option("--resource", help="Only about this share, attachment or server, by name or id; others by id.")
@shown.listed
def list_events(api: Api, *, resource: str | None, output: shown.Output, **equal: str | None) -> None:
    """List events, the newest first, and how many targets do not have each yet."""
    with api.open() as client:
        equal["resource_id"] = lookups.resource_id(client, resource) if resource else None
        shown.table(client.each("/events", output.most, **equal), output, brief=EVENTS)


@event.command("targets")
@asking
@shown.listed
def list_targets(api: Api, *, output: shown.Output) -> None:
    """List who is told, what each still has to get, since when, and why it does not."""
    with api.open() as client:
        found = client.each("/event-targets", output.most)
        shown.table(map(_brief, found), output, brief=BRIEF, wide=WIDE)


@event.command("retry")
@asking
@click.argument("target")
def retry(api: Api, target: str) -> None:
    """Try at once what waits for its next try at TARGET."""
    with api.open() as client:
        client.post(f"/event-targets/{quote(target, safe='')}/retry")
    click.echo(f"Events for {target} are tried now.")


def _brief(target: Answer) -> dict[str, object]:
    return {
        **target,
        "oldest": shown.age_of(target["oldest_at"]),
        "failing_for": shown.age_of(target["failing_since"]),
        "next_try": shown.wait_until(target["next_try_at"]),
    }
