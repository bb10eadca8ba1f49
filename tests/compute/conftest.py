# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server, for the inventory."""

from tests.databases import postgres  # noqa: F401 (a fixture)
