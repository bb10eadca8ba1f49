# SPDX-License-Identifier: Apache-2.0
"""The resources of what operators run. A new one is one line here."""

from __future__ import annotations

from abaca.api.administration import ensure_shares, messages, operations, pools, resource_locks, services

RESOURCES = (
    messages.RESOURCE,
    pools.RESOURCE,
    resource_locks.RESOURCE,
    services.RESOURCE,
)
OWN = (
    ensure_shares.RESOURCE,
    operations.RESOURCE,
)
