# SPDX-License-Identifier: Apache-2.0
"""The journal's bench, and a stage, on both databases."""

import contextlib

import pytest

from tests.conftest import told
from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.operations.bench import Bench
from tests.operations.theatre import Theatre


@pytest.fixture
def bench(database):  # noqa: F811
    made = Bench(database)
    yield made
    made.stop()


@pytest.fixture
def theatre(database, tmp_path):  # noqa: F811
    """A stage on which nobody plays yet."""
    with contextlib.ExitStack() as stack:
        yield Theatre(database, tmp_path, None, stack)


def pytest_terminal_summary(terminalreporter):
    from tests.operations import test_faults

    cases = [test_faults.Concluded(*said) for said in told(terminalreporter, "concluded")]
    if cases:
        steps, faults = ({getattr(one, what) for one in cases} for what in ("step", "fault"))
        size = f"{len(test_faults.OPERATIONS)} operations x {len(steps)} steps x {len(faults)} faults"
        stuck, leaked = (sum(getattr(one, what) for one in cases) for what in ("stuck", "leaked"))
        terminalreporter.write_line(f"faults: {size} = {len(cases)} cases, {stuck} stuck, {leaked} leaked")
