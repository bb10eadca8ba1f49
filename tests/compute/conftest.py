# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server, for the inventory; a real Nova and its Keystone, for the plug-in."""

import pytest

from tests.compute import real
from tests.databases import postgres  # noqa: F401 (a fixture)


@pytest.fixture(scope="package")
def real_cloud():
    """A Keystone, and a Nova without servers."""
    with real.cloud() as made:
        yield made
