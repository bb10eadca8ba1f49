# SPDX-License-Identifier: Apache-2.0
"""The resources of shares. A new one is one line here."""

from __future__ import annotations

from abaca.api.shares import (
    access_rules,
    brief_shares,
    export_locations,
    managing,
    share_actions,
    share_instances,
    share_metadata,
    share_transfers,
    shares,
    snapshot_access,
    snapshot_instances,
    snapshot_managing,
    snapshot_metadata,
    snapshots,
)

RESOURCES = (
    access_rules.RESOURCE,
    access_rules.ACTIONS,
    export_locations.OF_SHARE,
    export_locations.OF_INSTANCE,
    managing.RESOURCE,
    managing.FORMERLY,
    share_actions.RESOURCE,
    share_instances.RESOURCE,
    share_instances.OF_SHARE,
    share_metadata.RESOURCE,
    share_transfers.RESOURCE,
    shares.RESOURCE,
    snapshot_access.ACCESS,
    snapshot_access.LOCATIONS,
    snapshot_access.OF_INSTANCE,
    snapshot_instances.RESOURCE,
    snapshot_managing.RESOURCE,
    snapshot_metadata.RESOURCE,
    snapshots.RESOURCE,
)
OWN = (brief_shares.RESOURCE, export_locations.HISTORY)
