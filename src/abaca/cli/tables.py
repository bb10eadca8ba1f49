# SPDX-License-Identifier: Apache-2.0
"""Tables for people, row after row: the first rows decide how wide the columns are, later ones widen them at most."""

from __future__ import annotations

import itertools
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence

import click
import msgspec
from rich import cells

# The first characters of an id are the milliseconds in which its row was made: they tell most rows apart.
SHORTEST_ID = 13
ID_LENGTH = 36
# A column of so many characters is not cut to make a table fit.
NARROW = 16
GAP = "  "
# What does not go to a terminal is as wide as need be.
ENDLESS = 1000
# No column is narrower than this, however narrow the terminal.
LEAST = 4


def show(columns: Sequence[str], rows: Iterable[Mapping[str, object]], *, at_once: int, is_short: bool) -> None:
    """Show rows under the names of the columns, so many at once.

    Where `is_short` each is one line, ids are cut to where those at once differ, and what is too long ends in "…".
    """
    room = _room()
    names = [column.replace("_", " ") for column in columns]
    are_ids = [_is_id(column) for column in columns]
    widths = [cells.cell_len(name) for name in names]
    left = iter(rows)
    batch = list(itertools.islice(left, at_once))
    is_first = True
    while batch or is_first:
        told = [_texts_of(column, batch, is_short=is_short) for column in columns]
        natural = [max([width, *map(cells.cell_len, texts)]) for width, texts in zip(widths, told, strict=True)]
        widths = _fitting(natural, are_ids, room)
        if is_first:
            _print_line(names, widths)
            click.echo(GAP.join("─" * width for width in widths))
            is_first = False
        for line in zip(*told, strict=True):
            (_print_line if is_short else _print_folded)(line, widths)
        batch = list(itertools.islice(left, at_once))


def fields(pairs: Sequence[tuple[str, object]]) -> None:
    """Show the fields of one thing, a line or more each."""
    width = max((cells.cell_len(name) for name, _ in pairs), default=0)
    room = max(_room() - width - len(GAP), LEAST)
    for name, value in pairs:
        _print_folded([name, _printable(_text(value))], [width, room])


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


def _room() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else ENDLESS


def _is_id(column: str) -> bool:
    return column == "id" or column.endswith("_id")


def _texts_of(column: str, rows: Sequence[Mapping[str, object]], *, is_short: bool) -> list[str]:
    texts = [_printable(_text(row.get(column))) for row in rows]
    if not is_short or not _is_id(column):
        return texts
    short = short_ids([one for one in texts if len(one) == ID_LENGTH])
    return [short.get(one, one) for one in texts]


def _printable(text: str) -> str:
    """Names may hold what a terminal takes for an order."""
    return text if text.isprintable() else "".join(one if one.isprintable() else " " for one in text)


def _fitting(natural: Sequence[int], are_ids: Sequence[bool], room: int) -> list[int]:
    """The widths that fit: the widest columns give way, those that are narrow or hold ids last."""
    widths = list(natural)
    for least in (NARROW, LEAST):
        may = [at for at, is_id in enumerate(are_ids) if least == LEAST or not is_id]
        while sum(widths) + len(GAP) * (len(widths) - 1) > room:
            widest = max(may, key=lambda at: widths[at], default=None)
            if widest is None or widths[widest] <= least:
                break
            widths[widest] -= 1
    return widths


def _print_line(texts: Sequence[str], widths: Sequence[int]) -> None:
    click.echo(GAP.join(map(_cut, texts, widths)).rstrip())


def _print_folded(texts: Sequence[str], widths: Sequence[int]) -> None:
    folded = [cells.chop_cells(text, width) or [""] for text, width in zip(texts, widths, strict=True)]
    for line in itertools.zip_longest(*folded, fillvalue=""):
        _print_line(line, widths)


def _cut(text: str, width: int) -> str:
    if cells.cell_len(text) > width:
        text = cells.set_cell_size(text, width - 1).rstrip() + "…"
    return cells.set_cell_size(text, width)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, (dict, list)):
        return msgspec.json.encode(value, enc_hook=str).decode()
    return str(value)
