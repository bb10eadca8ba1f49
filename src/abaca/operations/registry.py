# SPDX-License-Identifier: Apache-2.0
"""Every kind of operation. A worker takes only work whose kind stands here; the rest waits for one that knows it."""

from __future__ import annotations

from abaca.journal.kinds import Operation
from abaca.operations.administration import registry as administration
from abaca.operations.attachments import registry as attachments
from abaca.operations.clusters import registry as clusters
from abaca.operations.networks import registry as networks
from abaca.operations.shares import registry as shares

OPERATIONS: dict[str, Operation] = {
    operation.kind: operation
    for operation in (
        *administration.OPERATIONS,
        *attachments.OPERATIONS,
        *clusters.OPERATIONS,
        *networks.OPERATIONS,
        *shares.OPERATIONS,
    )
}
# What operations are about, and the types of the events that they tell.
RESOURCE_TYPES = frozenset(operation.resource for operation in OPERATIONS.values())
EVENT_TYPES = frozenset[str]().union(*(one.notifies.types for one in OPERATIONS.values() if one.notifies is not None))
