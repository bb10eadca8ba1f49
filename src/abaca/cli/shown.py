# SPDX-License-Identifier: Apache-2.0
"""How commands show what they found: a table that fits the terminal, all of it, JSON or YAML."""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import click
import msgspec

from abaca import errors

if TYPE_CHECKING:
    from rich.console import RenderableType

FORMS = ("table", "wide", "json", "yaml")
# The first characters of an id are the milliseconds in which its row was made: they tell most rows apart.
SHORTEST_ID = 13
ID_LENGTH = 36
# A column of so many characters is not cut to make a table fit.
NARROW = 16


class Output(msgspec.Struct, frozen=True):
    """What a command line asks of the output: its form, and which fields; without fields those of the form."""

    form: str = "table"
    columns: tuple[str, ...] = ()

    @property
    def is_for_people(self) -> bool:
        """Whether people read the output, and no program."""
        return self.form in ("table", "wide")


def listed(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command that lists the options, and its function an `Output` as `output`."""

    @click.option("--columns", metavar="NAME,NAME", help="Only these fields, in this order.")
    @_formed
    @functools.wraps(command)
    def with_columns(output: Output, columns: str | None, **rest: object) -> object:
        named = tuple(name.strip() for name in (columns or "").split(",") if name.strip())
        return command(output=msgspec.structs.replace(output, columns=named), **rest)

    return with_columns


def _formed(command: Callable[..., object]) -> Callable[..., object]:
    @click.option(
        "-o", "--output", "form", type=click.Choice(FORMS), help="Without it table; wide abbreviates nothing."
    )
    @click.option("--json", "is_json", is_flag=True, help="The same as -o json.")
    @functools.wraps(command)
    def with_form(form: str | None, *, is_json: bool, **rest: object) -> object:
        return command(output=Output("json" if is_json else form or "table"), **rest)

    return with_form


detailed = _formed


def table(
    rows: Sequence[Mapping[str, object]], output: Output, *, brief: Sequence[str], wide: Sequence[str] | None = None
) -> None:
    """Rows, with the `brief` fields in a table and the `wide` ones in all other forms.

    A table has a line a row: ids are cut to where they differ, and what is too long ends in "…". Raises Invalid for
    columns that there are not.
    """
    every = wide or brief
    columns = output.columns or (brief if output.form == "table" else every)
    known = dict.fromkeys([*every, *brief])
    for name in columns:
        if name not in known:
            raise errors.Invalid(f"There is no column {name}; there are: {', '.join(known)}.")
    fields = [{column: row.get(column) for column in columns} for row in rows]
    if not output.is_for_people:
        _print_data(fields, output.form)
        return
    _print(_table(columns, fields, is_short=output.form == "table"))


def one(fields: Mapping[str, object], output: Output) -> None:
    """One thing, a line a field; those without a value are left out for people."""
    if not output.is_for_people:
        _print_data(fields, output.form)
        return
    from rich import table as rich_table
    from rich import text

    lines = rich_table.Table(box=None, show_header=False, pad_edge=False)
    lines.add_column(style="bold")
    lines.add_column(overflow="fold")
    for name, value in fields.items():
        if value is not None:
            lines.add_row(name.replace("_", " "), text.Text(_text(value)))
    _print(lines)


def age_of(said: str | None) -> str:
    """How long ago a time was that the API wrote, in the largest unit that says enough; nothing for no time."""
    if said is None:
        return ""
    seconds = max(0, int((_now() - datetime.datetime.fromisoformat(said)).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def wait_until(said: str | None) -> str:
    """In how many seconds a time comes that the API wrote; nothing for one that has passed, or for none."""
    if said is None:
        return ""
    wait_s = math.ceil((datetime.datetime.fromisoformat(said) - _now()).total_seconds())
    return f"in {wait_s} s" if wait_s > 0 else ""


def _now() -> datetime.datetime:
    """The time by this machine's clock, as the API writes times: UTC, without saying so."""
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """Each id with as much of its beginning as tells it from the others; at least `SHORTEST_ID` characters."""
    ordered = sorted(set(ids))
    found = {}
    for before, this, after in zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False):
        shared = max(_shared(this, other) for other in (before, after))
        found[this] = this[: max(SHORTEST_ID, shared + 1)].rstrip("-")
    return found


def _shared(this: str, other: str) -> int:
    """How many characters two texts have in common at their beginnings."""
    return next((at for at, (a, b) in enumerate(zip(this, other, strict=False)) if a != b), min(len(this), len(other)))


def _table(columns: Sequence[str], rows: Sequence[Mapping[str, object]], *, is_short: bool) -> RenderableType:
    from rich import box, text
    from rich import table as rich_table

    lines = rich_table.Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    cells: list[list[text.Text]] = []
    for column in columns:
        texts = [_text(row.get(column)) for row in rows]
        is_id = column == "id" or column.endswith("_id")
        if is_short and is_id:
            short = short_ids([one for one in texts if len(one) == ID_LENGTH])
            texts = [short.get(one, one) for one in texts]
        is_narrow = is_id or max(map(len, texts), default=0) <= NARROW
        lines.add_column(column.replace("_", " "), no_wrap=is_narrow)
        how: Literal["ellipsis", "fold"] = "ellipsis" if is_short else "fold"
        cells.append([text.Text(one, no_wrap=is_short or is_narrow, overflow=how) for one in texts])
    for row in zip(*cells, strict=True):
        lines.add_row(*row)
    return lines


def _print(shown: RenderableType) -> None:
    from rich import console

    screen = console.Console()
    if not screen.is_terminal:
        # a pipe is as wide as need be
        screen = console.Console(width=1000)
    screen.print(shown)


def _print_data(value: object, form: str) -> None:
    encoded = msgspec.json.encode(value, enc_hook=str)
    if form == "json":
        click.echo(msgspec.json.format(encoded).decode())
        return
    import yaml

    click.echo(yaml.safe_dump(msgspec.json.decode(encoded), sort_keys=False, allow_unicode=True), nl=False)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, (dict, list)):
        return msgspec.json.encode(value, enc_hook=str).decode()
    return str(value)
