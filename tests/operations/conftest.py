# SPDX-License-Identifier: Apache-2.0
"""The journal's bench on both databases."""

import pytest

from tests.conftest import told
from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.operations.bench import Bench


@pytest.fixture
def bench(database):  # noqa: F811
    made = Bench(database)
    yield made
    made.stop()


def pytest_terminal_summary(terminalreporter):
    from tests.operations import test_faults

    cases = [test_faults.Concluded(*said) for said in told(terminalreporter, "concluded")]
    if cases:
        steps, faults = ({getattr(one, what) for one in cases} for what in ("step", "fault"))
        size = f"{len(test_faults.OPERATIONS)} operations x {len(steps)} steps x {len(faults)} faults"
        stuck, leaked = (sum(getattr(one, what) for one in cases) for what in ("stuck", "leaked"))
        terminalreporter.write_line(f"faults: {size} = {len(cases)} cases, {stuck} stuck, {leaked} leaked")
