# SPDX-License-Identifier: Apache-2.0
"""The resources of the compute door. A new one is one line here."""

from __future__ import annotations

from abaca.api.compute import server_shares, servers

RESOURCES = (
    servers.RESOURCE,
    server_shares.RESOURCE,
    server_shares.ACTIONS,
)
