# SPDX-License-Identifier: Apache-2.0
"""The reference pages say what the code does; `make docs` writes them."""

from pathlib import Path

import pytest

from lab import compatibility, reference

README = Path(__file__).resolve().parent.parent / "README.md"


@pytest.mark.parametrize("page", reference.PAGES)
def test_the_reference_page_says_what_the_code_does(page, golden):
    golden(page, reference.PAGES[page]())


def test_readme_says_what_is_not_served_yet():
    text = " ".join(README.read_text().split())
    assert compatibility.not_yet() in text
    assert ("Not served yet" in text) == bool(compatibility.not_yet())
