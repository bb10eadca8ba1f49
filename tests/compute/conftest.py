# SPDX-License-Identifier: Apache-2.0
"""Both databases, for the inventory."""

from tests.databases import database, postgres  # noqa: F401 (fixtures)
