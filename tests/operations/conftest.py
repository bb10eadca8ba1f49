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
