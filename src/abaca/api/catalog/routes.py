# SPDX-License-Identifier: Apache-2.0
"""The resources of what operators offer. A new one is one line here."""

from __future__ import annotations

from abaca.api.catalog import (
    availability_zones,
    extensions,
    limits,
    quotas,
    share_group_types,
    share_types,
    unserved_lists,
)

RESOURCES = (
    availability_zones.RESOURCE,
    extensions.RESOURCE,
    limits.RESOURCE,
    quotas.RESOURCE,
    quotas.CLASSES,
    share_group_types.RESOURCE,
    share_types.RESOURCE,
    *unserved_lists.RESOURCES,
)
