# SPDX-License-Identifier: Apache-2.0
"""The capabilities that only some back ends have; those of every day are in contract.py, and its rules hold here too.

Each class is one promise. Long work is cut into a start, a look that says how far it is, and an end, so that a worker
may die between any two of them.
"""

from __future__ import annotations

import abc
import datetime
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import msgspec

from abaca.drivers.contract.shares import AccessRule, Export, ShareInstance, ShareServer, Snapshot, Value

ReplicaState = Literal["active", "in_sync", "out_of_sync", "error"]


class Replica(Value, frozen=True, kw_only=True):
    """One copy among the replicas of a share, with its state as last seen."""

    instance: ShareInstance
    state: ReplicaState | None = None


class ReplicaOutcome(Value, frozen=True, kw_only=True):
    """What became of a replica; `exports` None means unchanged."""

    state: ReplicaState
    exports: Sequence[Export] | None = None


class Replicates(abc.ABC):
    """Copies of a share that follow it (`replication_type`)."""

    replication_type: ClassVar[Literal["writable", "readable", "dr"]] = "dr"

    @abc.abstractmethod
    def create_replica(
        self, replica: ShareInstance, replicas: Sequence[Replica], rules: Sequence[AccessRule]
    ) -> ReplicaOutcome:
        """Make one more copy beside `replicas`; it may still be out_of_sync. Raises `Full`, `Gone`."""

    @abc.abstractmethod
    def delete_replica(self, replica: ShareInstance, replicas: Sequence[Replica]) -> None:
        """Remove this copy; the others stay. Absent is success."""

    @abc.abstractmethod
    def promote_replica(
        self, replica: ShareInstance, replicas: Sequence[Replica], rules: Sequence[AccessRule]
    ) -> dict[str, ReplicaOutcome]:
        """Make this copy the active one; the answer holds every replica whose state or exports changed."""

    @abc.abstractmethod
    def replica_state(self, replica: ShareInstance, replicas: Sequence[Replica]) -> ReplicaState | None:
        """How far this copy is, None when that is not known. Raises `Gone`, `Unreachable`."""


class SnapshotsReplicas(abc.ABC):
    """A snapshot taken on all replicas of a share at once; the first of `snapshots` is on the active one."""

    @abc.abstractmethod
    def create_replicated_snapshot(self, snapshots: Sequence[Snapshot]) -> dict[str, str | None]:
        """Take it; provider locations by snapshot id. Raises `Full`, `Gone`."""

    @abc.abstractmethod
    def delete_replicated_snapshot(self, snapshots: Sequence[Snapshot]) -> None:
        """Remove it everywhere. Absent is success."""

    @abc.abstractmethod
    def revert_replicated_snapshot(self, snapshots: Sequence[Snapshot], rules: Sequence[AccessRule]) -> None:
        """Bring the active replica back to it; the others follow by themselves. Raises `Gone`, `Busy`."""


class ShareGroup(Value, frozen=True, kw_only=True):
    """Shares of one back end that are kept together."""

    id: str
    project_id: str
    instances: Sequence[ShareInstance] = ()
    server: ShareServer | None = None


class GroupSnapshot(Value, frozen=True, kw_only=True):
    """Snapshots of all shares of a group, of one moment."""

    id: str
    group_id: str
    snapshots: Sequence[Snapshot] = ()


class Groups(abc.ABC):
    """Shares can be kept together in groups."""

    @abc.abstractmethod
    def create_group(self, group: ShareGroup) -> None:
        """Make the group, without shares in it."""

    @abc.abstractmethod
    def delete_group(self, group: ShareGroup) -> None:
        """Remove the group. Absent is success. Raises `Refused` while it holds shares."""


class SnapshotsGroups(abc.ABC):
    """All shares of a group in one snapshot (`consistent_snapshot_support`)."""

    consistent_snapshot_support: ClassVar[Literal["pool", "host"]] = "host"

    @abc.abstractmethod
    def create_group_snapshot(self, group_snapshot: GroupSnapshot) -> dict[str, str | None]:
        """Take all of its snapshots at one moment; provider locations by snapshot id. Raises `Full`, `Gone`."""

    @abc.abstractmethod
    def delete_group_snapshot(self, group_snapshot: GroupSnapshot) -> None:
        """Remove all of them. Absent is success."""

    @abc.abstractmethod
    def create_group_from_snapshot(
        self, group: ShareGroup, group_snapshot: GroupSnapshot, sources: Mapping[str, str]
    ) -> dict[str, list[Export]]:
        """Make the group with its instances; `sources` maps an instance's id to its snapshot's.

        Raises `Gone`, `Full`.
        """


class Managed(Value, frozen=True, kw_only=True):
    """What was found where a share is taken over."""

    size_gib: int
    exports: Sequence[Export] = ()


class Manages(abc.ABC):
    """A share that exists on the back end can be taken over, and given up again without harm."""

    @abc.abstractmethod
    def manage(self, instance: ShareInstance, options: Mapping[str, str]) -> Managed:
        """Take over what `instance.exports` names.

        Raises `Gone` when nothing is there, `Refused` when it does not fit.
        """

    @abc.abstractmethod
    def unmanage(self, instance: ShareInstance) -> None:
        """Forget it; its data and its export stay."""


class ManagesSnapshots(abc.ABC):
    """Snapshots that exist on the back end can be taken over and given up."""

    @abc.abstractmethod
    def manage_snapshot(self, snapshot: Snapshot, options: Mapping[str, str]) -> int:
        """Take over `snapshot.provider_location`; its size in GiB. Raises `Gone`, `Refused`."""

    @abc.abstractmethod
    def unmanage_snapshot(self, snapshot: Snapshot) -> None:
        """Forget it; it stays on the back end."""


class MigrationFit(Value, frozen=True, kw_only=True):
    """Whether a move is possible, and what users keep while it runs."""

    compatible: bool = False
    writable: bool = False
    preserve_metadata: bool = False
    preserve_snapshots: bool = False
    nondisruptive: bool = False


class MigrationResult(Value, frozen=True, kw_only=True):
    """Where things are after a move; provider locations by snapshot id."""

    exports: Sequence[Export]
    snapshots: Mapping[str, str | None] = msgspec.field(default_factory=dict)


class Migrates(abc.ABC):
    """The back end moves a share to another pool or back end by itself. Called on the source's driver."""

    @abc.abstractmethod
    def check_migration(self, source: ShareInstance, destination: ShareInstance, destination_host: str) -> MigrationFit:
        """Whether it could; changes nothing."""

    @abc.abstractmethod
    def start_migration(self, source: ShareInstance, destination: ShareInstance) -> None:
        """Begin copying. Raises `Full`, `Refused`."""

    @abc.abstractmethod
    def continue_migration(self, source: ShareInstance, destination: ShareInstance) -> int:
        """Percent copied; 100 means that only the cut-over is left."""

    @abc.abstractmethod
    def complete_migration(
        self, source: ShareInstance, destination: ShareInstance, rules: Sequence[AccessRule]
    ) -> MigrationResult:
        """Cut over: the destination serves, the source is gone."""

    @abc.abstractmethod
    def cancel_migration(self, source: ShareInstance, destination: ShareInstance) -> None:
        """Undo the copy; the source never stopped. Nothing to cancel is success."""


class Allocation(Value, frozen=True, kw_only=True):
    """One address that a share server gets."""

    id: str
    ip_address: str
    cidr: str
    ip_version: Literal[4, 6] = 4
    gateway: str | None = None
    mac_address: str | None = None


class Subnet(Value, frozen=True, kw_only=True):
    """A share network's subnet as a server sees it, with the server's own addresses on it."""

    id: str
    cidr: str | None = None
    gateway: str | None = None
    mtu: int | None = None
    network_type: str | None = None
    segmentation_id: int | None = None
    neutron_net_id: str | None = None
    neutron_subnet_id: str | None = None
    allocations: Sequence[Allocation] = ()
    metadata: Mapping[str, str] = msgspec.field(default_factory=dict)


class SecurityService(Value, frozen=True, kw_only=True):
    """A directory or authentication service of the user's network."""

    id: str
    type: Literal["active_directory", "kerberos", "ldap"]
    dns_ip: str | None = None
    server: str | None = None
    domain: str | None = None
    user: str | None = None
    password: str | None = None
    ou: str | None = None


class ServerSetup(Value, frozen=True, kw_only=True):
    """All that a share server is made of."""

    id: str
    share_network_id: str
    subnets: Sequence[Subnet]
    admin_allocations: Sequence[Allocation] = ()
    security_services: Sequence[SecurityService] = ()


class RunsServers(abc.ABC):
    """Share servers with addresses in users' networks (`driver_handles_share_servers`)."""

    allocations_per_subnet: ClassVar[int] = 1
    share_server_multiple_subnet_support: ClassVar[bool] = False

    @abc.abstractmethod
    def set_up_server(self, setup: ServerSetup) -> dict[str, str]:
        """Make the server; what is returned comes back as `ShareServer.details`. Raises `Full`, `Unreachable`."""

    @abc.abstractmethod
    def tear_down_server(self, server: ShareServer) -> None:
        """Remove it. Absent is success. Raises `Refused` while it has shares."""

    def choose_server(self, servers: Sequence[ShareServer], instance: ShareInstance) -> ShareServer | None:
        """Which of the servers on the right network should serve the instance; None asks for a new one."""
        return servers[0] if servers else None


class ManagesServers(abc.ABC):
    """Share servers that exist on the back end can be taken over and given up."""

    @abc.abstractmethod
    def manage_server(self, server_id: str, identifier: str, options: Mapping[str, str]) -> dict[str, str]:
        """Take over what the back end calls `identifier`; its details. Raises `Gone`."""

    @abc.abstractmethod
    def unmanage_server(self, server: ShareServer) -> None:
        """Forget it; it stays on the back end."""


class ServerNetworkOutcome(Value, frozen=True, kw_only=True):
    """What a server became by a new subnet: its details, and where each of its instances is mounted from now."""

    details: Mapping[str, str]
    exports: Mapping[str, Sequence[Export]]


class UpdatesServerNetworks(abc.ABC):
    """Subnets are added under running share servers (`network_allocation_update_support`)."""

    @abc.abstractmethod
    def check_server_network(self, server: ShareServer, current: Sequence[Subnet], new: Subnet) -> bool:
        """Whether `new`, which has no addresses yet, could be added; changes nothing."""

    @abc.abstractmethod
    def update_server_network(
        self, server: ShareServer, current: Sequence[Subnet], new: Subnet, instances: Sequence[ShareInstance]
    ) -> ServerNetworkOutcome:
        """Serve on the addresses of `new` as well. Raises `Refused`, `Unreachable`."""


class UpdatesSubnetMetadata(abc.ABC):
    """Metadata of a subnet reaches the servers on it."""

    @abc.abstractmethod
    def update_subnet_metadata(self, server: ShareServer, subnet: Subnet) -> None:
        """Make `subnet.metadata` true on the server. Raises `Refused`."""


class UpdatesSecurityServices(abc.ABC):
    """A running share server's security service can be added or replaced (`security_service_update_support`)."""

    @abc.abstractmethod
    def check_security_service(
        self, server: ShareServer, new: SecurityService, current: SecurityService | None
    ) -> bool:
        """Whether it could; changes nothing."""

    @abc.abstractmethod
    def update_security_service(
        self, server: ShareServer, new: SecurityService, current: SecurityService | None
    ) -> dict[str, str]:
        """Use `new` in the place of `current`; the server's details. Raises `Refused`."""


class MigratesServers(abc.ABC):
    """A share server moves with all its shares. Called on the destination's driver."""

    @abc.abstractmethod
    def check_server_migration(self, source: ShareServer, instances: Sequence[ShareInstance]) -> MigrationFit:
        """Whether it could; changes nothing."""

    @abc.abstractmethod
    def start_server_migration(
        self, source: ShareServer, destination: ServerSetup, instances: Sequence[ShareInstance]
    ) -> None:
        """Begin copying. Raises `Full`, `Refused`."""

    @abc.abstractmethod
    def continue_server_migration(self, source: ShareServer, destination: ServerSetup) -> int:
        """Percent copied; 100 means that only the cut-over is left."""

    @abc.abstractmethod
    def complete_server_migration(
        self, source: ShareServer, destination: ServerSetup, instances: Sequence[ShareInstance]
    ) -> ServerNetworkOutcome:
        """Cut over: the destination serves, the source is gone."""

    @abc.abstractmethod
    def cancel_server_migration(self, source: ShareServer, destination: ServerSetup) -> None:
        """Undo the copy; the source never stopped. Nothing to cancel is success."""


class Backup(Value, frozen=True, kw_only=True):
    """A copy of a share's content outside of its pool."""

    id: str
    share_id: str
    size_gib: int
    options: Mapping[str, str] = msgspec.field(default_factory=dict)


class BacksUp(abc.ABC):
    """The back end keeps and restores backups by itself."""

    @abc.abstractmethod
    def create_backup(self, instance: ShareInstance, backup: Backup) -> None:
        """Begin. Raises `Full`, `Gone`."""

    @abc.abstractmethod
    def continue_backup(self, instance: ShareInstance, backup: Backup) -> int:
        """Percent done. Raises `Gone`, `Unreachable`."""

    @abc.abstractmethod
    def delete_backup(self, backup: Backup) -> None:
        """Remove it. Absent is success."""

    @abc.abstractmethod
    def restore_backup(self, instance: ShareInstance, backup: Backup) -> None:
        """Begin to make the share's content the backup's. Raises `Gone`, `Full`."""

    @abc.abstractmethod
    def continue_restore(self, instance: ShareInstance, backup: Backup) -> int:
        """Percent done. Raises `Gone`, `Unreachable`."""


class Usage(Value, frozen=True, kw_only=True):
    """What a share really takes, in GiB, and when that was seen."""

    used_gib: float
    gathered_at: datetime.datetime


class MeasuresUsage(abc.ABC):
    """The back end knows how much of a share is used."""

    @abc.abstractmethod
    def measure_usage(self, instances: Sequence[ShareInstance]) -> dict[str, Usage]:
        """By instance id; one that is not known is left out. Raises `Unreachable`."""


class AcceptsTransfers(abc.ABC):
    """The back end must know when a share passes to another project."""

    @abc.abstractmethod
    def accept_transfer(self, instance: ShareInstance, project_id: str) -> None:
        """The instance belongs to `project_id` from now on. Raises `Refused`."""


class UpdatesMetadata(abc.ABC):
    """Metadata of a share reaches the back end."""

    @abc.abstractmethod
    def update_metadata(self, instance: ShareInstance, metadata: Mapping[str, str]) -> None:
        """Make `metadata`, the whole set of keys meant for the driver, true. Raises `Refused`."""
