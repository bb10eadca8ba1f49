# SPDX-License-Identifier: Apache-2.0
"""How commands show what they found: a table for people, JSON with --json."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

if TYPE_CHECKING:
    from rich.console import RenderableType

as_json = click.option("--json", "is_json", is_flag=True, help="Print JSON.")


def table(columns: Sequence[str], rows: Sequence[Mapping[str, object]], *, is_json: bool) -> None:
    """Rows with these columns, in this order."""
    if is_json:
        _print_json([{column: row.get(column) for column in columns} for row in rows])
        return
    from rich import box
    from rich import table as rich_table

    shown = rich_table.Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        shown.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        shown.add_row(*(_text(row.get(column)) for column in columns))
    _print(shown)


def one(fields: Mapping[str, object], *, is_json: bool) -> None:
    """One thing, a line a field."""
    if is_json:
        _print_json(fields)
        return
    from rich import table as rich_table

    shown = rich_table.Table(box=None, show_header=False, pad_edge=False)
    shown.add_column(style="bold")
    shown.add_column(overflow="fold")
    for name, value in fields.items():
        shown.add_row(name.replace("_", " "), _text(value))
    _print(shown)


def age(then: datetime.datetime | None, now: datetime.datetime) -> str:
    """How long ago, in the largest unit that says enough."""
    if then is None:
        return ""
    seconds = max(0, int((now - then).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _print(shown: RenderableType) -> None:
    from rich import console

    screen = console.Console()
    if not screen.is_terminal:
        # a pipe is as wide as need be
        screen = console.Console(width=1000)
    screen.print(shown)


def _print_json(value: object) -> None:
    default: Callable[[object], str] = str
    click.echo(msgspec.json.format(msgspec.json.encode(value, enc_hook=default)).decode())


def _text(value: object) -> str:
    from rich import markup

    if value is None:
        return ""
    if isinstance(value, (dict, list)):
        return markup.escape(msgspec.json.encode(value, enc_hook=str).decode())
    return markup.escape(str(value))
