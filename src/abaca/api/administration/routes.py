# SPDX-License-Identifier: Apache-2.0
"""The resources of what operators run. A new one is one line here."""

from __future__ import annotations

from abaca.api.administration import (
    addresses,
    backends,
    ensure_shares,
    events,
    messages,
    operations,
    own_services,
    pools,
    reconcile,
    resource_locks,
    services,
)

RESOURCES = (
    messages.RESOURCE,
    pools.RESOURCE,
    resource_locks.RESOURCE,
    services.RESOURCE,
)
OWN = (
    addresses.RESOURCE,
    backends.RESOURCE,
    ensure_shares.RESOURCE,
    events.RESOURCE,
    events.TARGET,
    operations.RESOURCE,
    reconcile.RESOURCE,
    own_services.RESOURCE,
)
