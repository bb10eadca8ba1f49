# SPDX-License-Identifier: Apache-2.0
"""The reference pages say what the code does; `make docs` writes them."""

import pytest

from lab import reference


@pytest.mark.parametrize("page", reference.PAGES)
def test_the_reference_page_says_what_the_code_does(page, golden):
    golden(page, reference.PAGES[page]())
