# SPDX-License-Identifier: Apache-2.0
"""Every resource of the shared file system API. A new resource is one line here."""

from __future__ import annotations

from abaca.api import (
    access_rules,
    attachments,
    availability_zones,
    connecting,
    documents,
    ensure_shares,
    export_locations,
    extensions,
    limits,
    messages,
    operations,
    pools,
    quotas,
    resource_locks,
    servers,
    services,
    share_actions,
    share_instances,
    share_metadata,
    share_types,
    shares,
)
from abaca.api.compute import server_shares
from abaca.api.compute import servers as compute_servers

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
    connecting.RESOURCE,
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
