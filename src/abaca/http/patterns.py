# SPDX-License-Identifier: Apache-2.0
r"""Regular expressions that strangers send: matched in bounded time, whatever they are.

All positions of a text at which a match could stand are carried along together, so nothing is ever tried twice. Known
are . [] [^] | () (?:) * + ? {m,n} ^ $ and \d \w \s; capitals do not count.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Callable, Iterable
from typing import NoReturn

from abaca import errors

LONGEST = 255
DEEPEST = 3
MOST_REPEATS = 100

# From the positions before to those after.
Step = Callable[[str, frozenset[int]], frozenset[int]]
_SETS: dict[str, Callable[[str], bool]] = {
    "d": str.isdecimal,
    "w": lambda char: char.isalnum() or char == "_",
    "s": str.isspace,
    "D": lambda char: not char.isdecimal(),
    "W": lambda char: not (char.isalnum() or char == "_"),
    "S": lambda char: not char.isspace(),
}


class Pattern:
    """A regular expression; `finds(text)` says whether some part of a text is as it says. Raises Invalid."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise errors.Invalid(f"The regular expression is longer than {LONGEST} characters.")
        self._text = text
        self._at = 0
        self._depth = 0
        self._whole = self._either()
        if self._at < len(text):
            self._refuse("a ) that closes nothing")

    def finds(self, text: str) -> bool:
        """Whether it is in the text."""
        text = text.lower()
        return bool(self._whole(text, frozenset(range(len(text) + 1))))

    def _refuse(self, what: str) -> NoReturn:
        raise errors.Invalid(f"{self._text!r} is no regular expression that is understood here: {what}.")

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        char = self._peek()
        if not char:
            self._refuse("it ends too early")
        self._at += 1
        return char

    def _either(self) -> Step:
        choices = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            choices.append(self._sequence())
        return choices[0] if len(choices) == 1 else lambda text, at: _union(step(text, at) for step in choices)

    def _sequence(self) -> Step:
        steps: list[Step] = []
        while self._peek() not in ("", "|", ")"):
            steps.append(self._repeated(self._atom()))
        return lambda text, at: functools.reduce(lambda now, step: step(text, now), steps, at)

    def _repeated(self, step: Step) -> Step:
        char = self._peek()
        if not char or char not in "*+?{":
            return step
        self._at += 1
        if char == "{":
            least, most = self._bounds()
        else:
            least, most = (1 if char == "+" else 0), (1 if char == "?" else None)
        if self._peek() == "?":
            self._at += 1  # how greedy it is does not change whether it is found
        if self._peek() in ("*", "+", "{"):
            self._refuse("a repetition of a repetition")
        return _repeat(step, least, most)

    def _bounds(self) -> tuple[int, int | None]:
        said, closed, _ = self._text[self._at :].partition("}")
        self._at += len(said) + 1
        low, comma, high = said.partition(",")
        if not closed or not all(
            part.isascii() and (part.isdigit() or not part) and len(part) < 4 for part in (low, high)
        ):
            self._refuse("a { that is no repetition; write \\{")
        least = int(low or 0)
        most = least if not comma else int(high) if high else None
        if not (low or high) or max(least, most or 0) > MOST_REPEATS or (most is not None and most < least):
            self._refuse(f"a repetition that is not between 0 and {MOST_REPEATS}")
        return least, most

    def _atom(self) -> Step:
        char = self._next()
        if char == "(":
            return self._group()
        if char == "[":
            return _one(self._class())
        if char == ".":
            return _one(lambda _char: True)
        if char == "^":
            return lambda _text, at: at & {0}
        if char == "$":
            return lambda text, at: at & {len(text)}
        if char in "*+?{":
            self._refuse(f"{char} with nothing before it")
        return _one(self._escaped() if char == "\\" else _is(char))

    def _group(self) -> Step:
        if self._text[self._at : self._at + 2] == "?:":
            self._at += 2
        self._depth += 1
        if self._depth > DEEPEST:
            self._refuse("too many brackets in brackets")
        step = self._either()
        self._depth -= 1
        if self._next() != ")":
            self._refuse("a ( that is not closed")
        return step

    def _escaped(self) -> Callable[[str], bool]:
        char = self._next()
        if char in _SETS:
            return _SETS[char]
        if char in string.ascii_letters + string.digits:
            self._refuse(f"\\{char}")
        return _is(char)

    def _class(self) -> Callable[[str], bool]:
        is_not = self._peek() == "^"
        self._at += is_not
        among: list[Callable[[str], bool]] = []
        while self._peek() != "]" or not among:
            char = self._next()
            if char == "\\":
                among.append(self._escaped())
            elif self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                among.append(_between(char, self._next()))
            else:
                among.append(_is(char))
        self._at += 1
        return lambda char: any(is_so(char) for is_so in among) != is_not


def _is(char: str) -> Callable[[str], bool]:
    return char.lower().__eq__


def _between(first: str, last: str) -> Callable[[str], bool]:
    return lambda char: first.lower() <= char <= last.lower()


def _one(is_so: Callable[[str], bool]) -> Step:
    return lambda text, at: frozenset(place + 1 for place in at if place < len(text) and is_so(text[place]))


def _repeat(step: Step, least: int, most: int | None) -> Step:
    def repeat(text: str, at: frozenset[int]) -> frozenset[int]:
        for _ in range(least):
            at = step(text, at)
        found, new, left = at, at, (len(text) + 1 if most is None else most - least)
        while new and left > 0:
            # a place that was reached before has had more repetitions left then
            new = step(text, new) - found
            found |= new
            left -= 1
        return found

    return repeat


def _union(parts: Iterable[frozenset[int]]) -> frozenset[int]:
    return frozenset().union(*parts)
