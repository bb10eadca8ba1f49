# SPDX-License-Identifier: Apache-2.0
"""Every resource, by the door that it is behind. A new area is one line for each of its doors."""

from __future__ import annotations

from abaca.api.administration import routes as administration
from abaca.api.attachments import routes as attachments
from abaca.api.catalog import routes as catalog
from abaca.api.clusters import routes as clusters
from abaca.api.compute import routes as compute
from abaca.api.data_processing import routes as data_processing
from abaca.api.networks import routes as networks
from abaca.api.shares import routes as shares

# /v2, shared file systems
RESOURCES = (*administration.RESOURCES, *catalog.RESOURCES, *networks.RESOURCES, *shares.RESOURCES)

# /abaca/v1, Abaca's own
OWN = (*administration.OWN, *attachments.OWN, *clusters.OWN, *networks.OWN, *shares.OWN)

# /compute/v2.1
COMPUTE = compute.RESOURCES

# /data-processing/v1.1 and /data-processing/v2
DATA_PROCESSING = data_processing.RESOURCES
