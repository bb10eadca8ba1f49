# SPDX-License-Identifier: Apache-2.0
"""The resources of clusters, all of Abaca's own. A new one is one line here."""

from __future__ import annotations

from abaca.api.clusters import clusters, connecting, nodes, urls

OWN = (clusters.RESOURCE, connecting.RESOURCE, nodes.RESOURCE, urls.RESOURCE)
