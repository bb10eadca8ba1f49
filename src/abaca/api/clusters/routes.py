# SPDX-License-Identifier: Apache-2.0
"""The resources of clusters, all of Abaca's own. A new one is one line here."""

from __future__ import annotations

from abaca.api.clusters import clusters, mount_instructions, nodes, urls

OWN = (clusters.RESOURCE, mount_instructions.RESOURCE, nodes.RESOURCE, urls.RESOURCE)
