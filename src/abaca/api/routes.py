# SPDX-License-Identifier: Apache-2.0
"""Every resource of the shared file system API. A new resource is one line here."""

from __future__ import annotations

from abaca.api import documents
from abaca.api.administration import ensure_shares, messages, operations, pools, resource_locks, services
from abaca.api.attachments import attachments, mount_instructions, servers
from abaca.api.catalog import availability_zones, extensions, limits, quotas, share_types
from abaca.api.compute import server_shares
from abaca.api.compute import servers as compute_servers
from abaca.api.shares import access_rules, export_locations, share_actions, share_instances, share_metadata, shares

RESOURCES = (
    access_rules.RESOURCE,
    access_rules.ACTIONS,
    availability_zones.RESOURCE,
    export_locations.OF_SHARE,
    export_locations.OF_INSTANCE,
    extensions.RESOURCE,
    limits.RESOURCE,
    messages.RESOURCE,
    pools.RESOURCE,
    quotas.RESOURCE,
    quotas.CLASSES,
    resource_locks.RESOURCE,
    services.RESOURCE,
    share_actions.RESOURCE,
    share_instances.RESOURCE,
    share_instances.OF_SHARE,
    share_metadata.RESOURCE,
    share_types.RESOURCE,
    shares.RESOURCE,
)

# Behind the door of Abaca's own, /abaca/v1.
OWN = (
    attachments.RESOURCE,
    mount_instructions.RESOURCE,
    documents.RESOURCE,
    ensure_shares.RESOURCE,
    export_locations.HISTORY,
    operations.RESOURCE,
    servers.RESOURCE,
)

# Behind the door of compute, /compute/v2.1.
COMPUTE = (
    compute_servers.RESOURCE,
    server_shares.RESOURCE,
    server_shares.ACTIONS,
)
