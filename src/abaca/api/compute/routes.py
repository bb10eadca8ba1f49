# SPDX-License-Identifier: Apache-2.0
"""The resources of the compute door. A new one is one line here."""

from __future__ import annotations

from abaca.api.compute import flavors, server_shares, servers

RESOURCES = (
    flavors.RESOURCE,
    flavors.ZONES,
    servers.RESOURCE,
    server_shares.RESOURCE,
    server_shares.ACTIONS,
)
