# SPDX-License-Identifier: Apache-2.0
"""The same bench and stage as for kinds of operations."""

from tests.databases import database, postgres  # noqa: F401 (fixtures)
from tests.operations.conftest import bench, theatre  # noqa: F401 (fixtures)
