# SPDX-License-Identifier: Apache-2.0
"""Hostlists, as schedulers of clusters write them: `node[001-128,200]` stands for 129 names.

The kept library for this looks up groups of hosts by running programs, and makes all names before it can be told how
many are too many. What callers send shall do neither.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from abaca import errors

# A server's name has no more.
MOST_CHARACTERS = 255

_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def expand(said: Iterable[str], most: int) -> list[str]:
    """All names that hostlists stand for, each once, in their order; what has no brackets stands for itself.

    Raises `Invalid` for what cannot be understood, and for more than `most` names or longer ones than a server can
    have, before these are made.
    """
    found: dict[str, None] = {}
    left = most
    for one in said:
        texts, ranges = _parts(one)
        parts: list[list[str]] = []
        number = 1
        for numbers in ranges:
            parts.append(_numbers(numbers, one, left))
            number *= len(parts[-1])
            _refuse_more(number, left, one)
        left -= number
        _refuse_more(number, number + left, one)
        if parts:
            _refuse_long(texts, parts, one)
        for chosen in itertools.product(*parts):
            found["".join(itertools.chain(*zip(texts[:-1], chosen, strict=True), texts[-1:]))] = None
    return list(found)


def _parts(said: str) -> tuple[list[str], list[str]]:
    """What stands between the brackets, and what in them."""
    texts, ranges = _BRACKETS.split(said)[::2], _BRACKETS.findall(said)
    if any("[" in text or "]" in text for text in texts):
        raise errors.Invalid(f"{said[:64]!r} is no hostlist: its brackets do not match. Write node[001-128,200].")
    return texts, ranges


def _numbers(ranges: str, said: str, most: int) -> list[str]:
    """The numbers of `001-128,200`, as wide as the first of each range is written."""
    found: list[str] = []
    for part in ranges.split(","):
        matched = _RANGE.fullmatch(part.strip())
        if matched is None:
            raise errors.Invalid(f"{said[:64]!r} is no hostlist: {part[:32]!r} is no number or range such as 001-128.")
        first, last = matched[1], matched[2] or matched[1]
        number = int(last) - int(first) + 1
        if number < 1:
            raise errors.Invalid(f"{said[:64]!r} is no hostlist: the range {part[:32]} ends before it begins.")
        _refuse_more(len(found) + number, most, said)
        found += [str(at).zfill(len(first)) for at in range(int(first), int(last) + 1)]
    return found


def _refuse_more(number: int, most: int, said: str) -> None:
    if number > most:
        raise errors.Invalid(f"Too many servers are named at once, at {said[:64]!r}: say some of them later.")


def _refuse_long(texts: Iterable[str], parts: Iterable[Iterable[str]], said: str) -> None:
    longest = sum(map(len, texts)) + sum(max(map(len, numbers)) for numbers in parts)
    if longest > MOST_CHARACTERS:
        raise errors.Invalid(
            f"{said[:64]!r} stands for names of {longest} characters; a server's has at most {MOST_CHARACTERS}."
        )
