# SPDX-License-Identifier: Apache-2.0
"""A receiver, and an installation that tells it, on both databases."""

import contextlib

import pytest

from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.events.house import House
from tests.events.receiver import Receiver


@pytest.fixture
def receiver():
    made = Receiver().open()
    yield made
    made.close()


@pytest.fixture
def house(database, receiver):  # noqa: F811
    with contextlib.ExitStack() as stack:
        yield House(database, receiver, stack)
