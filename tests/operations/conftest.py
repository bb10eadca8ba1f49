# SPDX-License-Identifier: Apache-2.0
"""The journal's bench on both databases."""

import pytest

from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.operations.bench import Bench


@pytest.fixture
def bench(database):  # noqa: F811
    made = Bench(database)
    yield made
    made.stop()


def pytest_terminal_summary(terminalreporter):
    from tests.operations import test_faults

    tally = test_faults.TALLY
    if tally.cases:
        size = f"{len(test_faults.OPERATIONS)} operations x {len(tally.points)} steps x {len(tally.faults)} faults"
        found = f"{tally.cases} cases, {tally.stuck} stuck, {tally.leaked} leaked"
        terminalreporter.write_line(f"faults: {size} = {found}")
