# SPDX-License-Identifier: Apache-2.0
"""What tests of the benchmarks share."""

from tests.databases import database, postgres  # noqa: F401 (fixtures)
