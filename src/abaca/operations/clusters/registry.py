# SPDX-License-Identifier: Apache-2.0
"""The kinds of operations on clusters. A new one is one line here."""

from __future__ import annotations

from abaca.operations.clusters import cluster_change, cluster_delete

OPERATIONS = (cluster_change.OPERATION, cluster_delete.OPERATION)
