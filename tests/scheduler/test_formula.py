# SPDX-License-Identifier: Apache-2.0
"""Formulas of back ends mean what they mean in Manila, and can do nothing but give a value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abaca.scheduler import formula

NAMES = {
    "capabilities": {"total_capacity_gb": 100.0, "free_capacity_gb": 40.0, "vendor_name": "Some One", "v:x": "7"},
    "share": {"size": 5},
    "extra": {"tier": "3"},
    "stats": {},
}

VALUES = {
    "1+2*3": 7,
    "(1+2)*3": 9,
    "10-2-3": 5,
    "2^3^2": 512,
    "-share.size + 1": -4,
    "share.size < 10": True,
    "1 <> 2": True,
    "capabilities.free_capacity_gb / capabilities.total_capacity_gb > 0.3 and share.size <= 5": True,
    "share.size > 5 ? 100 : 50": 50,
    "(share.size < 5) ? 100 : (share.size < 10 ? 70 : 50)": 70,
    "not share.size > 5": True,
    "!(share.size == 5)": False,
    "share.size != 4 && 1 < 2": True,
    "1 > 2 || 3 > 2": True,
    "max(1, share.size, 3) + min(1, 2) - abs(-4)": 2,
    "capabilities.vendor_name == 'Some One'": True,
    "extra.tier == 3": True,
    "capabilities.v:x * 2": 14,
    "true and not FALSE": True,
}

BROKEN = [
    "1/0",
    "9^9^9^9^9",
    "share.nope > 1",
    "__import__('os')",
    "share.__class__",
    "1 +",
    "",
    "'a' * 9",
    "share.size < 'a'",
    "max()",
    "[1]",
    "1" * 2000,
    "(" * 900,
]


@pytest.mark.parametrize(("text", "value"), VALUES.items(), ids=VALUES)
def test_a_formula_has_its_value(text, value):
    assert formula.evaluate(text, NAMES) == value


@pytest.mark.parametrize("text", BROKEN, ids=[text[:20] or "empty" for text in BROKEN])
def test_what_is_no_formula_is_refused_with_a_reason(text):
    with pytest.raises(formula.Broken, match=r"."):
        formula.evaluate(text, NAMES)


@given(st.text(alphabet="0123456789.+-*/^()<>=!&|?: 'shareize,max", max_size=60))
def test_whatever_is_written_gives_a_value_or_a_reason(text):
    try:
        value = formula.evaluate(text, NAMES)
    except formula.Broken:
        return
    assert isinstance(value, bool | int | float | str)
