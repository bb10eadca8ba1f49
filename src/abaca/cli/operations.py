# SPDX-License-Identifier: Apache-2.0
"""`abaca operation`: what is going on, at which step, since when, why it waits; and how to stop it or let it go on."""

from __future__ import annotations

import contextlib
import datetime
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from abaca import app, errors
from abaca.cli import shown
from abaca.cli.options import Given, configured

if TYPE_CHECKING:
    from abaca.db.engine.database import Database, Tx
    from abaca.journal.steering import Verb

COLUMNS = ("id", "kind", "resource_id", "state", "step", "attempt", "age", "problem")
WIDE = ("id", "kind", "resource_id", "queue", "state", "step", "attempt", "next_try", "age", "problem")


@click.group()
def operation() -> None:
    """See and steer what is going on."""


@operation.command("list")
@configured
@click.option("--all", "with_ended", is_flag=True, help="Also those that have ended.")
@click.option("--kind", help="Only of this kind, e.g. share-create.")
@click.option("--queue", help="Only on this queue, e.g. host@backend.")
@click.option("--resource", "resource_id", help="Only about this resource.")
@click.option("--limit", default=100, show_default=True, help="At most so many, the newest first.")
@shown.listed
def list_operations(given: Given, *, with_ended: bool, limit: int, output: shown.Output, **equal: Any) -> None:
    """List operations that have not ended."""
    from abaca.db.journal import operations as rows

    with open_database(given) as db, db.read() as tx:
        found = rows.find(tx, live=not with_ended, limit=limit, **equal)
        shown.table([_brief(row, tx) for row in found], output, brief=COLUMNS, wide=WIDE)


@operation.command("show")
@configured
@click.argument("operation_id")
@shown.detailed
def show_operation(given: Given, operation_id: str, *, output: shown.Output) -> None:
    """Show everything about one operation, and what it waits for."""
    from abaca.db.journal import operations as rows

    with open_database(given) as db, db.read() as tx:
        row = rows.show(tx, operation_id)
        if row is None:
            raise errors.NotFound(resource="Operation", id=operation_id)
        fields = {**row._mapping, **_times(row, tx), "step": _step(row), "waits": _waits(row, tx)}
        shown.one({name: value for name, value in fields.items() if value is not None}, output)


@operation.command("retry")
@configured
@click.argument("operation_id")
def retry(given: Given, operation_id: str) -> None:
    """Let an operation that waits for its next try run at once."""
    _steer(given, operation_id, "retry")
    click.echo(f"{operation_id} runs as soon as a worker is free.")


@operation.command("cancel")
@configured
@click.argument("operation_id")
def cancel(given: Given, operation_id: str) -> None:
    """Ask an operation to stop at its next step and to undo what it did.

    One that is past its point of no return goes on to its end.
    """
    _steer(given, operation_id, "cancel")
    click.echo(f"{operation_id} stops at its next step if there still is a way back.")


@operation.command("pause")
@configured
@click.argument("operation_id")
def pause(given: Given, operation_id: str) -> None:
    """Ask an operation that goes in parts to pause after the one under way.

    It then holds nothing, survives restarts, and waits for `abaca operation resume` or `cancel`.
    """
    _steer(given, operation_id, "pause")
    click.echo(f"{operation_id} pauses after the part under way.")


@operation.command("resume")
@configured
@click.argument("operation_id")
def resume(given: Given, operation_id: str) -> None:
    """Let an operation that is paused go on."""
    _steer(given, operation_id, "resume")
    click.echo(f"{operation_id} goes on as soon as a worker is free.")


def _steer(given: Given, operation_id: str, verb: Verb) -> None:
    from abaca.journal import steering
    from abaca.operations import registry

    with open_database(given) as db, db.write() as tx:
        steering.steer(tx, operation_id, verb, registry.OPERATIONS)


@contextlib.contextmanager
def open_database(given: Given) -> Iterator[Database]:
    """The database of the configuration, at the right revision. Raises `ConfigError`."""
    from abaca.db.engine import schema

    db = app.open_database(given.load().settings)
    try:
        schema.check(db)
        yield db
    finally:
        db.close()


def _brief(row: Any, tx: Tx) -> dict[str, Any]:
    return {
        **{column: row._mapping.get(column) for column in WIDE},
        **_times(row, tx),
        "step": _step(row),
        "problem": row.error_text,
    }


def _times(row: Any, tx: Tx) -> dict[str, Any]:
    """How long ago it was asked for, and when it is tried again if it waits for that."""
    wait_s = row.not_before - tx.now.replace(tzinfo=datetime.UTC).timestamp() if row.state == "waiting" else 0.0
    next_try = f"in {math.ceil(wait_s)} s" if wait_s > 0 else None
    return {"age": shown.age(row.created_at, tx.now), "next_try": next_try}


def _waits(row: Any, tx: Tx) -> str | None:
    """What an operation that is not under way waits for."""
    from abaca.db.journal import keys

    if row.state == "paused":
        return f"for `abaca operation resume {row.id}`"
    if row.state == "waiting":
        when = _times(row, tx)["next_try"] or "at once"
        return f"for {row.wait['what']}; it looks again {when}" if row.wait else f"for its next try {when}"
    if row.state != "queued":
        return None
    ahead = keys.ahead_of(tx, row.id)
    return f"for the end of {ahead[0].id} ({ahead[0].kind})" if ahead else f"for a worker that serves {row.queue}"


def _step(row: Any) -> str:
    """The step's name, with the way it goes when that is backwards."""
    from abaca.journal import kinds
    from abaca.operations import registry

    name = kinds.waiting_for(row, registry.OPERATIONS)
    return f"undo {name}" if row.direction == "undo" else name
