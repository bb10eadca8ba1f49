# SPDX-License-Identifier: Apache-2.0
"""Every resource of the shared file system API. A new resource is one line here."""

from __future__ import annotations

from abaca.api import availability_zones, extensions, share_types

RESOURCES = (
    availability_zones.RESOURCE,
    extensions.RESOURCE,
    share_types.RESOURCE,
)
