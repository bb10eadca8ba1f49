# SPDX-License-Identifier: Apache-2.0
"""Every table, by area. Portable types only: one chain of migrations builds SQLite, PostgreSQL and, later, MariaDB.

Rows are deleted for real when the thing is gone: history is in `operations`. Times are naive UTC with microseconds.
"""

from __future__ import annotations

from abaca.db.tables import administration, attachments, catalog, clusters, columns, journal, networks, shares

AREAS = (administration, attachments, catalog, clusters, journal, networks, shares)
metadata = columns.metadata
columns.expect_large_projects()
columns.order_indexes()
