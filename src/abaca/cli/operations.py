# SPDX-License-Identifier: Apache-2.0
"""`abaca operation`: what is going on, at which step, since when, why it waits; and how to stop it or let it go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from abaca.cli import lookups, shown
from abaca.cli.options import Api, asking

if TYPE_CHECKING:
    from abaca.cli.client import Answer, Client

PATH = "/operations"
BRIEF = ("id", "kind", "resource_id", "state", "step", "attempt", "age", "problem")
WIDE = (
    *("id", "kind", "resource_type", "resource_id", "queue", "state", "step", "direction", "attempt", "progress"),
    *("waits_for", "next_try_at", "overdue_since", "error_code", "error_text", "owner", "created_at", "finished_at"),
)


@click.group()
def operation() -> None:
    """See and steer what is going on."""


@operation.command("list")
@asking
@click.option("--all", "with_ended", is_flag=True, help="Also those that have ended.")
@click.option("--kind", help="Only of this kind, e.g. share-create.")
@click.option("--queue", help="Only on this queue, e.g. host@backend.")
@click.option("--resource", help="Only about this share, attachment or server, by name or id; others by id.")
@shown.listed
def list_operations(
    api: Api, *, with_ended: bool, resource: str | None, output: shown.Output, **equal: str | None
) -> None:
    """List operations that have not ended, the newest first."""
    with api.open() as client:
        equal["resource_id"] = lookups.resource_id(client, resource) if resource else None
        found = client.each(PATH, output.most, live=None if with_ended else True, **equal)
        shown.table(map(_brief, found), output, brief=BRIEF, wide=WIDE)


@operation.command("show")
@asking
@click.argument("operation_id")
@shown.detailed
def show_operation(api: Api, operation_id: str, *, output: shown.Output) -> None:
    """Show everything about one operation, and what it waits for."""
    with api.open() as client:
        shown.one(_show(client, operation_id), output)


@operation.command("retry")
@asking
@click.argument("operation_id")
def retry(api: Api, operation_id: str) -> None:
    """Let an operation that waits for its next try run at once."""
    click.echo(f"{_steer(api, operation_id, 'retry')} runs as soon as a worker is free.")


@operation.command("cancel")
@asking
@click.argument("operation_id")
def cancel(api: Api, operation_id: str) -> None:
    """Ask an operation to stop at its next step and to undo what it did.

    One that is past its point of no return goes on to its end.
    """
    click.echo(f"{_steer(api, operation_id, 'cancel')} stops at its next step if there still is a way back.")


@operation.command("pause")
@asking
@click.argument("operation_id")
def pause(api: Api, operation_id: str) -> None:
    """Ask an operation that goes in parts to pause after the one under way.

    It then holds nothing, survives restarts, and waits for `abaca operation resume` or `cancel`.
    """
    click.echo(f"{_steer(api, operation_id, 'pause')} pauses after the part under way.")


@operation.command("resume")
@asking
@click.argument("operation_id")
def resume(api: Api, operation_id: str) -> None:
    """Let an operation that is paused go on."""
    click.echo(f"{_steer(api, operation_id, 'resume')} goes on as soon as a worker is free.")


def _steer(api: Api, said: str, verb: str) -> str:
    """Ask for it; the operation's id."""
    with api.open() as client:
        operation_id = _id_of(client, said)
        client.post(f"{PATH}/{operation_id}/{verb}")
    return operation_id


def _show(client: Client, said: str) -> Answer:
    found: Answer = client.get(f"{PATH}/{_id_of(client, said)}")["operation"]
    return found


def _id_of(client: Client, said: str) -> str:
    return client.id_of(PATH, "Operation", said, named=False)


def _brief(row: Answer) -> dict[str, object]:
    """The row, with what people see in a table."""
    step = f"undo {row['step']}" if row["direction"] == "undo" else row["step"]
    wait = shown.wait_until(row["next_try_at"])
    problem = "; ".join(text for text in (row["error_text"], f"next try {wait}" if wait else None) if text)
    return {**row, "step": step, "age": shown.age_of(row["created_at"]), "problem": problem}
