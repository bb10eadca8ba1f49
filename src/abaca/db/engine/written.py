# SPDX-License-Identifier: Apache-2.0
"""Which columns of which tables a statement writes, read from its text.

It reads INSERT, REPLACE, UPDATE and ON CONFLICT DO UPDATE, wherever they stand in the text, in the spellings of SQLite
and PostgreSQL. What hides its work (a function, a trigger, MERGE, COPY) counts as writing all columns of each table
that it names. It never executes anything and knows no schema.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

# Of a table that is written in a way that does not say which columns.
ALL = "*"

_TOKEN = re.compile(
    r"""(?P<skip> \s+ | --[^\n]* | /\*.*?\*/ )
      | (?P<text> [eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | \$(?P<tag>[A-Za-z_]\w*|)\$.*?\$(?P=tag)\$ )
      | (?P<name> "(?:[^"]|"")*" | `[^`]*` | \[[A-Za-z_]\w*\] )
      | (?P<word> [^\W\d][\w$]* )
      | (?P<sign> . )""",
    re.VERBOSE | re.DOTALL,
)
_WRITES = re.compile(r"\b(?:update|into|merge|copy|do|call|create)\b", re.IGNORECASE)
# Statements whose work is not in their own words.
_OPAQUE = {"do", "call", "merge", "copy"}
_OPAQUE_MADE = {"function", "procedure", "trigger", "rule", "view"}
# Before UPDATE, these make it a lock or a foreign key's word.
_NO_WRITE = {"for", "key", "on", "."}


class _Token(NamedTuple):
    text: str
    is_name: bool
    is_word: bool
    depth: int


def written(sql: str, tables: Collection[str]) -> dict[str, set[str]]:
    """By table, of these `tables` (in small letters), the columns that it writes; `ALL` among them means any."""
    folded = sql.casefold()
    if not _WRITES.search(folded) or (folded.startswith("explain query plan") and ";" not in folded):
        return {}
    if 'u&"' in folded:  # a name that is spelt in numbers
        return {table: {ALL} for table in tables}
    named = [table for table in tables if table in folded]
    if not named:
        return {}
    found: dict[str, set[str]] = {}
    for table, columns in _Reader(folded).writes():
        for one in named if table == ALL else [table] if table in named else []:
            found.setdefault(one, set()).update(columns)
    return found


class _Reader:
    """Goes through the tokens of one text."""

    def __init__(self, folded: str) -> None:
        self.tokens = list(_tokens(folded))
        # by depth of parentheses: the table of the last INSERT
        self.inserting: dict[int, str] = {}

    def writes(self) -> Iterator[tuple[str, set[str]]]:
        """Each table that is written, with the columns; `ALL` for what cannot be told."""
        starts = True
        for at, token in enumerate(self.tokens):
            if token.is_word and token.text == "update" and self._text(at - 1) not in _NO_WRITE:
                yield self._update(at)
            elif token.is_word and token.text == "into" and self._is_insert(at):
                yield self._insert(at)
            elif starts and (token.text in _OPAQUE or self._makes_opaque(at)):
                yield ALL, {ALL}
            starts = token.text == ";"

    def _update(self, at: int) -> tuple[str, set[str]]:
        depth = self.tokens[at].depth
        if self._text(at - 1) == "do":
            table, after = self.inserting.get(depth, ALL), at + 1
        else:
            after = at + 1
            if self._text(after) == "or":
                after += 2
            if self._text(after) == "only":
                after += 1
            table, after = self._name(after)
            while self._text(after) != "set" and after < min(at + 12, len(self.tokens)):  # an alias, an index
                after += 1
        if self._text(after) != "set":
            return table, {ALL}
        return table, set(self._assigned(after + 1, depth))

    def _assigned(self, at: int, depth: int) -> Iterator[str]:
        """The columns to which a SET clause assigns, from behind the word SET."""
        is_target = True
        while at < len(self.tokens):
            token = self.tokens[at]
            if (
                token.depth < depth
                or (token.depth == depth and token.is_word and token.text in ("where", "returning"))
                or token.text == ";"
            ):
                return
            if is_target:
                yield from self._target(at, is_first=self._text(at - 1) == "set")
            is_target = token.text == "," and token.depth == depth
            at += 1

    def _target(self, at: int, *, is_first: bool) -> list[str]:
        token = self.tokens[at]
        if token.text == "(" and not token.is_name:
            return self._listed(at)
        if (token.is_name or token.is_word) and self._text(at + 1) in ("=", "[", "."):
            return [token.text]
        # behind a comma it may be another table of the FROM clause; SQLite takes a string for a name
        return [ALL] if is_first or (token.text == "'" and self._text(at + 1) == "=") else []

    def _is_insert(self, at: int) -> bool:
        before = [self._text(at - back) for back in (1, 3)]
        return before[0] in ("insert", "replace") or (before[1] == "insert" and self._text(at - 2) == "or")

    def _insert(self, at: int) -> tuple[str, set[str]]:
        table, after = self._name(at + 1)
        self.inserting[self.tokens[at].depth] = table
        if self._text(after) == "as":
            after += 2
        if self._text(after) == "default":
            return table, set()
        if self._text(after) != "(":
            return table, {ALL}
        return table, set(self._listed(after))

    def _listed(self, at: int) -> list[str]:
        """The names in the parentheses that open there."""
        depth = self.tokens[at].depth
        found: list[str] = []
        if self._text(at + 1) in ("select", "values", "with", "("):
            return [ALL]
        for token in self.tokens[at + 1 :]:
            if token.depth <= depth:
                return found
            if token.text != ",":
                found.append(token.text if token.is_name or token.is_word else ALL)
        return [ALL]

    def _name(self, at: int) -> tuple[str, int]:
        """The table that is named there, without its schema, and where the text goes on."""
        if at >= len(self.tokens) or not (self.tokens[at].is_name or self.tokens[at].is_word):
            return ALL, at
        while self._text(at + 1) == "." and at + 2 < len(self.tokens):
            at += 2
        return self.tokens[at].text, at + 1

    def _makes_opaque(self, at: int) -> bool:
        if self._text(at) != "create":
            return False
        return any(token.is_word and token.text in _OPAQUE_MADE for token in self.tokens[at + 1 : at + 6])

    def _text(self, at: int) -> str:
        """The word or sign there; nothing for a quoted name, which is neither."""
        if not 0 <= at < len(self.tokens):
            return ""
        return "" if self.tokens[at].is_name else self.tokens[at].text


def _tokens(folded: str) -> Iterator[_Token]:
    depth = 0
    for match in _TOKEN.finditer(folded):
        kind, text = match.lastgroup, match.group()
        if match.group("skip") is not None:
            continue
        if match.group("name") is not None:
            yield _Token(text[1:-1], is_name=True, is_word=False, depth=depth)
        elif match.group("text") is not None:
            yield _Token("'", is_name=False, is_word=False, depth=depth)
        else:
            if text == ")":
                depth -= 1
            yield _Token(text, is_name=False, is_word=kind == "word", depth=depth)
            if text == "(":
                depth += 1
