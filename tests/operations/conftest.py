# SPDX-License-Identifier: Apache-2.0
"""The journal's bench, and a stage, on both databases."""

import contextlib

import pytest

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
