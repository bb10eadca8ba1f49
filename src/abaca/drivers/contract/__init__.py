# SPDX-License-Identifier: Apache-2.0
"""What a storage driver promises, and what it may count on: `from abaca.drivers import contract`.

Arguments and results are frozen values. A driver never sees the database. Every call is idempotent and may be repeated
after a crash at any point inside it: "already so" is success, absent on delete is success. A call works on one thing at
a time; calls for different instances run at the same time in different threads. A driver raises only the five errors
below; `Busy` and `Unreachable` are retried by the caller with growing delays, the others end the operation.

What a class inherits from the capability classes is what the scheduler and the API announce; a class that claims a
capability without implementing it cannot be constructed.

Each area of the contract has a file, and all that it defines in public is found here as well; `promises.py` tells which
of the promises a class makes.
"""

from abaca.drivers.contract.access_rules import (
    AccessLevel,
    AccessOutcome,
    AccessRule,
    AccessType,
)
from abaca.drivers.contract.backends import (
    Backend,
    Driver,
    PoolStats,
)
from abaca.drivers.contract.backups import (
    BacksUp,
    Backup,
)
from abaca.drivers.contract.ensuring import (
    EnsureOutcome,
    Ensures,
    EnsuresEach,
    Inspects,
)
from abaca.drivers.contract.errors import (
    Busy,
    Full,
    Gone,
    Refused,
    Unreachable,
)
from abaca.drivers.contract.groups import (
    Groups,
    GroupSnapshot,
    ShareGroup,
    SnapshotsGroups,
)
from abaca.drivers.contract.migrations import (
    Migrates,
    MigrationFit,
    MigrationResult,
)
from abaca.drivers.contract.replicas import (
    Replica,
    ReplicaOutcome,
    ReplicaState,
    Replicates,
    SnapshotsReplicas,
)
from abaca.drivers.contract.share_servers import (
    Allocation,
    ManagesServers,
    MigratesServers,
    RunsServers,
    SecurityService,
    ServerNetworkOutcome,
    ServerSetup,
    Subnet,
    UpdatesSecurityServices,
    UpdatesServerNetworks,
    UpdatesSubnetMetadata,
)
from abaca.drivers.contract.shares import (
    AcceptsTransfers,
    Export,
    Managed,
    Manages,
    MeasuresUsage,
    Resizes,
    ShareInstance,
    ShareServer,
    UpdatesMetadata,
    Usage,
)
from abaca.drivers.contract.snapshots import (
    ClonesSnapshots,
    ManagesSnapshots,
    MountsSnapshots,
    Reverts,
    Snapshot,
    Snapshots,
)
from abaca.drivers.contract.values import (
    Positive,
    Value,
)

__all__ = [
    "AcceptsTransfers",
    "AccessLevel",
    "AccessOutcome",
    "AccessRule",
    "AccessType",
    "Allocation",
    "Backend",
    "BacksUp",
    "Backup",
    "Busy",
    "ClonesSnapshots",
    "Driver",
    "EnsureOutcome",
    "Ensures",
    "EnsuresEach",
    "Export",
    "Full",
    "Gone",
    "GroupSnapshot",
    "Groups",
    "Inspects",
    "Managed",
    "Manages",
    "ManagesServers",
    "ManagesSnapshots",
    "MeasuresUsage",
    "Migrates",
    "MigratesServers",
    "MigrationFit",
    "MigrationResult",
    "MountsSnapshots",
    "PoolStats",
    "Positive",
    "Refused",
    "Replica",
    "ReplicaOutcome",
    "ReplicaState",
    "Replicates",
    "Resizes",
    "Reverts",
    "RunsServers",
    "SecurityService",
    "ServerNetworkOutcome",
    "ServerSetup",
    "ShareGroup",
    "ShareInstance",
    "ShareServer",
    "Snapshot",
    "Snapshots",
    "SnapshotsGroups",
    "SnapshotsReplicas",
    "Subnet",
    "Unreachable",
    "UpdatesMetadata",
    "UpdatesSecurityServices",
    "UpdatesServerNetworks",
    "UpdatesSubnetMetadata",
    "Usage",
    "Value",
]
