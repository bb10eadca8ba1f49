# SPDX-License-Identifier: Apache-2.0
"""How commands show what they found: a table that fits the terminal, all of it, JSON or YAML."""

from __future__ import annotations

import datetime
import functools
import itertools
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence

import click
import msgspec

from abaca import errors

FORMS = ("table", "wide", "json", "yaml")
# So many rows are shown at once: what a list needs of memory does not grow with it.
AT_ONCE = 500


class Output(msgspec.Struct, frozen=True):
    """What a command line asks of the output: its form, which fields, and how many rows at most.

    Without fields it is those of the form.
    """

    form: str = "table"
    columns: tuple[str, ...] = ()
    limit: int = 1000

    @property
    def most(self) -> int:
        """How many rows to get: one more than are shown tells that there are more."""
        return self.limit + 1

    @property
    def is_for_people(self) -> bool:
        """Whether people read the output, and no program."""
        return self.form in ("table", "wide")


def listed(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command that lists the options, and its function an `Output` as `output`."""

    @click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="At most so many.")
    @click.option("--columns", metavar="NAME,NAME", help="Only these fields, in this order.")
    @_formed
    @functools.wraps(command)
    def with_columns(output: Output, columns: str | None, limit: int, **rest: object) -> object:
        named = tuple(name.strip() for name in (columns or "").split(",") if name.strip())
        return command(output=msgspec.structs.replace(output, columns=named, limit=limit), **rest)

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
    rows: Iterable[Mapping[str, object]], output: Output, *, brief: Sequence[str], wide: Sequence[str] | None = None
) -> None:
    """Rows as they come, with the `brief` fields in a table and the `wide` ones in all other forms.

    A table has a line a row: ids are cut to where they differ, and what is too long ends in "…". Rows beyond the limit
    are not shown; that there are some is said on standard error. Raises Invalid for columns that there are not.
    """
    every = wide or brief
    columns = output.columns or (brief if output.form == "table" else every)
    known = dict.fromkeys([*every, *brief])
    for name in columns:
        if name not in known:
            raise errors.Invalid(f"There is no column {name}; there are: {', '.join(known)}.")
    left = iter(rows)
    fields = ({column: row.get(column) for column in columns} for row in itertools.islice(left, output.limit))
    if output.is_for_people:
        from abaca.cli import tables

        tables.show(columns, fields, at_once=AT_ONCE, is_short=output.form == "table")
    else:
        _print_list(fields, output.form)
    if next(left, None) is not None:
        click.echo(f"abaca: there are more than these {output.limit}; --limit {10 * output.limit} shows more", err=True)


def one(fields: Mapping[str, object], output: Output) -> None:
    """One thing, a line a field; those without a value are left out for people."""
    if not output.is_for_people:
        _print_data(fields, output.form)
        return
    from abaca.cli import tables

    tables.fields([(name.replace("_", " "), value) for name, value in fields.items() if value is not None])


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


def _print_list(rows: Iterable[Mapping[str, object]], form: str) -> None:
    """The same as `_print_data` of all rows, one by one."""
    number = 0
    for number, row in enumerate(rows, 1):
        if form == "yaml":
            _print_data([row], form)
        else:
            encoded = msgspec.json.format(msgspec.json.encode(row, enc_hook=str)).decode()
            click.echo(("[\n" if number == 1 else ",\n") + textwrap.indent(encoded, "  "), nl=False)
    if not number:
        click.echo("[]")
    elif form == "json":
        click.echo("\n]")


def _print_data(value: object, form: str) -> None:
    encoded = msgspec.json.encode(value, enc_hook=str)
    if form == "json":
        click.echo(msgspec.json.format(encoded).decode())
        return
    import yaml

    click.echo(yaml.safe_dump(msgspec.json.decode(encoded), sort_keys=False, allow_unicode=True), nl=False)
