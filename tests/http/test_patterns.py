# SPDX-License-Identifier: Apache-2.0
"""Regular expressions of strangers mean what they mean elsewhere, and never take long."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abaca import errors
from abaca.domain.patterns import Pattern

PIECES = ["a", "b", "c", ".", "[ab]", "[^a]", "[a-c]", "(a|bc)", "(?:ab)", "\\w", "\\d", "\\.", "^", "$", "-", "|"]
ENDS = ["", "*", "+", "?", "{2}", "{1,2}", "{,2}", "{1,}"]


@st.composite
def patterns(draw):
    pieces = draw(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(ENDS)), max_size=6))
    return "".join(piece + (end if piece not in "^$|" else "") for piece, end in pieces)


@given(patterns(), st.text("abcABC.-1", max_size=8))
def test_a_pattern_finds_what_pythons_own_finds(pattern, text):
    assert Pattern(pattern).finds(text) == bool(re.search(pattern, text, re.IGNORECASE))


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", ".*.*.*.*.*.*.*.*b", "((a*)*)*c", "(a{50}){50}", "(.*)+x"])
def test_no_pattern_takes_long(pattern):
    found = Pattern(pattern)
    begun = time.process_time()
    found.finds("a" * 255)
    assert time.process_time() - begun < 0.5


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "a)",
        "[",
        "[a",
        "*",
        "a**",
        "a{",
        "a{1",
        "a{2,1}",
        "a{999}",
        "{1}",
        "\\",
        "\\b",
        "\\1",
        "((((a))))",
        "a" * 256,
    ],
)
def test_what_is_none_is_refused(pattern):
    with pytest.raises(errors.Invalid):
        Pattern(pattern)
