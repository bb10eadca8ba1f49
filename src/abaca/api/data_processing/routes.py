# SPDX-License-Identifier: Apache-2.0
"""The resources of the data processing door. A new one is one line here."""

from __future__ import annotations

from abaca.api.data_processing import clusters, images, plugins, templates

RESOURCES = (clusters.RESOURCE, templates.CLUSTERS, templates.NODE_GROUPS, plugins.PLUGINS, images.IMAGES)
