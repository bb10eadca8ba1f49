# SPDX-License-Identifier: Apache-2.0
"""Whether everything costs at a million shares what it costs at a thousand.

    make bench ARGS="scale"
    make bench ARGS="scale sizes=1000,100000 seconds=60 keep=/var/tmp/abaca-scale parts=lists,work"

`keep` is a directory in which the filled databases stay, for the next time; `seconds` is how long shares are posted
beside the periodic work; `parts` are what is measured; `each` is how many seconds are spent on each question; `only`
is a pattern of the names of those questions that are asked.
"""

from __future__ import annotations

import pathlib
import re
import time
from collections.abc import Iterator, Sequence

from benchmarks.scale import asking, questions, rows, working
from benchmarks.scale.place import Databases, Place
from benchmarks.scale.questions import Question
from lab import runs

OPTIONS = {
    "sizes": "1000,100000,1000000",
    "seconds": "300",
    "keep": "",
    "parts": "lists,crossed,work",
    "each": "0.5",
    "only": "",
}


def run(words: Sequence[str]) -> int:
    """Print each row as it is known, and the table at the end. Raises ValueError for an option that is not known."""
    options = {**OPTIONS, **dict(word.split("=", 1) for word in words)}
    if unknown := set(options) - set(OPTIONS):
        raise ValueError(f"There is no option {', '.join(sorted(unknown))}; there are: {', '.join(OPTIONS)}.")
    sizes = sorted(map(int, options["sizes"].split(",")))
    kept = pathlib.Path(options["keep"]) if options["keep"] else None
    begun_s, found, seldom = time.monotonic(), [], []
    with runs.Run() as run:
        databases = Databases(run, kept)
        places = {}
        for size in sizes:
            places[size] = Place(run, databases, size)
            print(f"{size:,} shares: {places[size].filled_in_s:.0f} s", flush=True)
        parts = options["parts"].split(",")
        each_s, only = float(options["each"]), re.compile(options["only"])
        if "lists" in parts or "crossed" in parts:
            askers = {size: asking.Asker(place) for size, place in places.items()}
            if "lists" in parts:
                found += _told(asking.measured(askers, lambda shares: _named(only, questions.every(shares)), each_s))
            if "crossed" in parts:
                seldom = _told(
                    asking.measured(askers, lambda _: _named(only, questions.crossed()), each_s / 3), only_missed=True
                )
            for asker in askers.values():
                asker.stop()
        if "work" in parts:
            found += _told(working.measured(places, databases, float(options["seconds"])))
        for place in places.values():
            place.close()
    shown = [*found, *(row for row in seldom if row.has_grown)]
    print(f"\n{rows.table(shown, sizes)}\n\n{rows.summary([*found, *seldom])}")
    print(f"{time.monotonic() - begun_s:.0f} s")
    return 0


def _named(only: re.Pattern[str], asked: Iterator[Question]) -> Iterator[Question]:
    return (one for one in asked if only.search(one.name))


def _told(measured: Iterator[rows.Row], *, only_missed: bool = False) -> list[rows.Row]:
    found = []
    for row in measured:
        found.append(row)
        if row.missed or not only_missed:
            print(row, flush=True)
    return found
