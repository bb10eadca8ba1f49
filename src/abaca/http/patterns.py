# SPDX-License-Identifier: Apache-2.0
"""Regular expressions that callers send, matched by RE2: in time that grows with text and expression alone.

Both are bounded here: how long an expression is, how much it is compiled to, and how much work it may make in all.
"""

from __future__ import annotations

import re2

from abaca import errors

LONGEST = 255
# What an expression is compiled to: one for each character, set or choice, as often as it is repeated.
MOST_INSTRUCTIONS = 2000
# Characters looked at, times instructions, for all texts that one expression is tried on: at worst 0.2 s of CPU.
MOST_WORK = 20_000_000
# Bytes that RE2 may take for an expression.
_MEMORY = 2 * 1024 * 1024


class Pattern:
    """A regular expression in RE2's syntax, for one request. Raises Invalid, also when it has made too much work."""

    def __init__(self, text: str, *, ignores_case: bool = True) -> None:
        if len(text) > LONGEST:
            raise errors.Invalid(f"The regular expression is longer than {LONGEST} characters.")
        options = re2.Options()
        options.case_sensitive = not ignores_case
        options.log_errors = False
        options.max_mem = _MEMORY
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as refusal:
            raise errors.Invalid(
                f"{text!r} is no regular expression that is understood here: {_said(refusal)}."
            ) from None
        if self._compiled.programsize > MOST_INSTRUCTIONS:
            raise errors.Invalid(
                f"The regular expression {text!r} is too large: it stands for more than {MOST_INSTRUCTIONS} steps. "
                "Repeat less, or shorter parts."
            )
        self._text = text
        self._work_left = MOST_WORK

    def finds(self, text: str) -> bool:
        """Whether it is somewhere in the text."""
        self._pay(text)
        return self._compiled.search(text) is not None

    def begins(self, text: str) -> bool:
        """Whether the text begins with it."""
        self._pay(text)
        return self._compiled.match(text) is not None

    def _pay(self, text: str) -> None:
        self._work_left -= (len(text) + 1) * self._compiled.programsize
        if self._work_left < 0:
            raise errors.Invalid(
                f"The regular expression {self._text!r} makes too much work here. Write it shorter, or ask for less."
            )


def _said(refusal: re2.error) -> str:
    """RE2's own words."""
    said = refusal.args[0] if refusal.args else "it is not"
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
