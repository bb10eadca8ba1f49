# SPDX-License-Identifier: Apache-2.0
"""What a run says of itself at its end."""

from tests import closing


def test_a_long_run_says_which_files_took_longest():
    took = [("tests/a.py::one", 100.0), ("tests/a.py::two[x]", 300.0), ("tests/b.yaml::the first", 250.0)]
    assert [line.split() for line in closing.dearest(took)] == [
        ["400", "s", "tests/a.py"],
        ["250", "s", "tests/b.yaml"],
    ]
    assert closing.dearest(took[:2]) == []
