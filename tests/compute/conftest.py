# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server, for the inventory; a real Nova and its Keystone, for the plug-in."""

import pytest

from tests.compute import real
from tests.databases import postgres  # noqa: F401 (a fixture)


@pytest.fixture(scope="package")
def real_cloud():
    """A Keystone, and a Nova without servers that tells two of them at a time."""
    with real.cloud(most=2) as made:
        yield made
