# SPDX-License-Identifier: Apache-2.0
"""Regular expressions of strangers mean what they mean elsewhere, and never take long."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abaca import errors
from abaca.http import patterns as http
from abaca.http.patterns import Pattern

PIECES = ["a", "b", "c", ".", "[ab]", "[^a]", "[a-c]", "(a|bc)", "(?:ab)", "\\w", "\\d", "\\.", "^", "$", "-", "|"]
ENDS = ["", "*", "+", "?", "{2}", "{1,2}", "{0,2}", "{1,}"]


@st.composite
def patterns(draw):
    pieces = draw(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(ENDS)), max_size=6))
    return "".join(piece + (end if piece not in "^$|" else "") for piece, end in pieces)


@given(patterns(), st.text("abcABC.-1", max_size=8))
def test_a_pattern_finds_what_pythons_own_finds(pattern, text):
    assert Pattern(pattern).finds(text) == bool(re.search(pattern, text, re.IGNORECASE))
    assert Pattern(pattern, ignores_case=False).begins(text) == bool(re.match(pattern, text))


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", ".*.*.*.*.*.*.*.*b", "((a*)*)*c", "(a{20}){20}", "(.*)+x"])
def test_no_pattern_takes_long(pattern):
    texts = ["a" * 255] * 20
    assert cpu_s(Pattern(pattern), texts) < 100 * cpu_s(Pattern("plain"), texts) + 0.05


def cpu_s(pattern, texts):
    begun = time.thread_time()
    for text in texts:
        pattern.finds(text)
    return time.thread_time() - begun


@pytest.mark.parametrize("pattern", ["(.{40}){20}.{999}", "((a?){100}){100}b", "(\\pL{10}){100}", "(a|b|c|[d-z]){500}"])
def test_what_would_be_compiled_to_too_much_is_refused(pattern):
    with pytest.raises(errors.Invalid, match=r"too large|repetition"):
        Pattern(pattern)


def test_a_pattern_that_has_made_too_much_work_is_refused():
    pattern = Pattern("(.?){150}x")
    texts = ["a" * 255] * (http.MOST_WORK // 255)
    with pytest.raises(errors.Invalid, match="too much work"):
        cpu_s(pattern, texts)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("(", "missing )"),
        (")", "unexpected )"),
        ("[", "missing ]"),
        ("*", "repetition"),
        ("a**", "repetition"),
        ("a{2,1}", "repetition"),
        ("a{1001}", "repetition"),
        ("\\", "\\"),
        ("\\1", "escape"),
        ("(?<=a)b", "operator"),
        ("a" * 256, "255"),
    ],
)
def test_what_is_none_is_refused(pattern, says):
    with pytest.raises(errors.Invalid) as refusal:
        Pattern(pattern)
    assert says in refusal.value.message
