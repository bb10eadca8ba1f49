# SPDX-License-Identifier: Apache-2.0
"""What a storage driver promises, and what it may count on: `from abaca.drivers import contract`.

Arguments and results are frozen values. A driver never sees the database. Every call is idempotent and may be repeated
after a crash at any point inside it: "already so" is success, absent on delete is success. A call works on one thing at
a time; calls for different instances run at the same time in different threads. A driver raises only the six errors of
`errors.py`; `Busy`, `Superseded` and `Unreachable` are tried again by the caller with growing delays, the others end
the operation. A call that has begun what takes a while, or has to wait its turn, raises `UnderWay`: it holds no thread,
and is repeated until it returns. What may take long is called as `long_calls.py` says. Sizes are in GiB, times in
seconds.

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
    DEVICES,
    Backend,
    DeviceStats,
    Driver,
    PoolStats,
)
from abaca.drivers.contract.backups import (
    BacksUp,
    Backup,
    BackupCreation,
    Restore,
)
from abaca.drivers.contract.certificates import (
    CERTIFICATES_END_AT,
    Certificate,
    IssuesCertificates,
)
from abaca.drivers.contract.copying import (
    AllowsCopying,
    CopyMount,
)
from abaca.drivers.contract.ensuring import (
    EnsureOutcome,
    Ensures,
    EnsuresEach,
    Enumerates,
    Inspects,
)
from abaca.drivers.contract.errors import (
    Busy,
    Full,
    Gone,
    Refused,
    Superseded,
    UnderWay,
    Unreachable,
)
from abaca.drivers.contract.fencing import (
    Fences,
    generations,
)
from abaca.drivers.contract.groups import (
    Groups,
    GroupSnapshot,
    ShareGroup,
    SnapshotsGroups,
)
from abaca.drivers.contract.long_calls import (
    DONE,
    VERBS,
    LongCall,
    Progress,
    long_call,
    long_call_names,
)
from abaca.drivers.contract.migrations import (
    Migrates,
    Migration,
    MigrationFit,
    MigrationResult,
)
from abaca.drivers.contract.replicas import (
    Promotion,
    Replica,
    ReplicaCreation,
    ReplicaOutcome,
    ReplicaState,
    Replicates,
    ReplicationType,
    SnapshotsReplicas,
)
from abaca.drivers.contract.share_servers import (
    Allocation,
    ManagesServers,
    MigratesServers,
    RunsServers,
    SecurityService,
    ServerMigration,
    ServerNetworkChange,
    ServerNetworkOutcome,
    ServerSetup,
    Subnet,
    UpdatesSecurityServices,
    UpdatesServerNetworks,
    UpdatesSubnetMetadata,
)
from abaca.drivers.contract.shares import (
    AcceptsTransfers,
    Created,
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
    Clone,
    ClonesSnapshots,
    ClonesSnapshotsAtOnce,
    ManagedSnapshot,
    ManagesSnapshots,
    MountsSnapshots,
    Revert,
    Reverts,
    RevertsAtOnce,
    Snapshot,
    SnapshotOutcome,
    Snapshots,
)
from abaca.drivers.contract.values import (
    DriverData,
    Positive,
    Value,
)

__all__ = [
    "CERTIFICATES_END_AT",
    "DEVICES",
    "DONE",
    "VERBS",
    "AcceptsTransfers",
    "AccessLevel",
    "AccessOutcome",
    "AccessRule",
    "AccessType",
    "Allocation",
    "AllowsCopying",
    "Backend",
    "BacksUp",
    "Backup",
    "BackupCreation",
    "Busy",
    "Certificate",
    "Clone",
    "ClonesSnapshots",
    "ClonesSnapshotsAtOnce",
    "CopyMount",
    "Created",
    "DeviceStats",
    "Driver",
    "DriverData",
    "EnsureOutcome",
    "Ensures",
    "EnsuresEach",
    "Enumerates",
    "Export",
    "Fences",
    "Full",
    "Gone",
    "GroupSnapshot",
    "Groups",
    "Inspects",
    "IssuesCertificates",
    "LongCall",
    "Managed",
    "ManagedSnapshot",
    "Manages",
    "ManagesServers",
    "ManagesSnapshots",
    "MeasuresUsage",
    "Migrates",
    "MigratesServers",
    "Migration",
    "MigrationFit",
    "MigrationResult",
    "MountsSnapshots",
    "PoolStats",
    "Positive",
    "Progress",
    "Promotion",
    "Refused",
    "Replica",
    "ReplicaCreation",
    "ReplicaOutcome",
    "ReplicaState",
    "Replicates",
    "ReplicationType",
    "Resizes",
    "Restore",
    "Revert",
    "Reverts",
    "RevertsAtOnce",
    "RunsServers",
    "SecurityService",
    "ServerMigration",
    "ServerNetworkChange",
    "ServerNetworkOutcome",
    "ServerSetup",
    "ShareGroup",
    "ShareInstance",
    "ShareServer",
    "Snapshot",
    "SnapshotOutcome",
    "Snapshots",
    "SnapshotsGroups",
    "SnapshotsReplicas",
    "Subnet",
    "Superseded",
    "UnderWay",
    "Unreachable",
    "UpdatesMetadata",
    "UpdatesSecurityServices",
    "UpdatesServerNetworks",
    "UpdatesSubnetMetadata",
    "Usage",
    "Value",
    "generations",
    "long_call",
    "long_call_names",
]
