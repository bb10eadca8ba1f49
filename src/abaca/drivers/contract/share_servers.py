# SPDX-License-Identifier: Apache-2.0
"""Share servers: what serves shares at addresses in users' networks."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Literal

import msgspec

from abaca import errors
from abaca.drivers.contract.long_calls import Progress
from abaca.drivers.contract.migrations import MigrationFit
from abaca.drivers.contract.shares import Export, ShareInstance, ShareServer
from abaca.drivers.contract.values import Value


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
    security_services: Sequence[SecurityService] = ()
    # Which key of the key manager the data of its shares is encrypted with; None for none of the user's.
    encryption_key_ref: str | None = None
    # As that of a `ShareServer`.
    generation: int | None = None


class ServerMigration(Value, frozen=True, kw_only=True):
    """A move of the server `source`, with all its `instances`, to a server made as `destination` says."""

    source: ShareServer
    destination: ServerSetup
    instances: Sequence[ShareInstance] = ()


class RunsServers(abc.ABC):
    """Share servers with addresses in users' networks (`driver_handles_share_servers`)."""

    allocations_per_subnet: ClassVar[int] = 1
    share_server_multiple_subnet_support: ClassVar[bool] = False

    @abc.abstractmethod
    def set_up_server(self, setup: ServerSetup) -> dict[str, str]:
        """Make the server with exactly these subnets; what is returned comes back as `ShareServer.details`.

        One that is there is made so again, and its shares stay: after a reboot of its host, or to have other subnets.
        Raises `Full`, `Refused`, `Unreachable`.
        """

    @abc.abstractmethod
    def tear_down_server(self, server: ShareServer) -> None:
        """Remove it. Absent is success. Raises `Refused` while it has shares."""

    def choose_server(self, servers: Sequence[ShareServer], instance: ShareInstance) -> ShareServer | None:
        """Which of the servers on the right network should serve the instance; None asks for a new one."""
        return servers[0] if servers else None


class ManagesServers(abc.ABC):
    """Share servers that exist on the back end can be taken over and given up."""

    @abc.abstractmethod
    def find_server_addresses(self, identifier: str, options: Mapping[str, str]) -> Sequence[str]:
        """The addresses at which answers what the back end calls `identifier`, such as 10.0.0.5; changes nothing.

        `options` are the administrator's own words. Raises `Gone`, `Refused` where it is somebody's.
        """

    @abc.abstractmethod
    def manage_server(self, setup: ServerSetup, identifier: str, options: Mapping[str, str]) -> dict[str, str]:
        """Take over what the back end calls `identifier`; its details, with `identifier` among them.

        `setup` says what it is from then on, with exactly the addresses that `find_server_addresses` has told;
        it goes on serving at them. Raises `Gone`, `Refused` where it has others, or is somebody's.
        """

    @abc.abstractmethod
    def unmanage_server(self, server: ShareServer) -> None:
        """Forget whose it is; it stays on the back end, and goes on serving what it exports. Absent is success."""


class ServerNetworkOutcome(Value, frozen=True, kw_only=True):
    """What a server became by a change of its subnets: its details, and where each instance is mounted from now."""

    details: Mapping[str, str]
    exports: Mapping[str, Sequence[Export]]


class ServerNetworkChange(Value, frozen=True, kw_only=True):
    """A server that serves on `current`, with all its `instances`, and is to serve on `new` as well."""

    server: ShareServer
    current: Sequence[Subnet]
    new: Subnet
    instances: Sequence[ShareInstance]


# So many servers are changed side by side where a driver has no way for many at once.
_AT_ONCE = 8


class UpdatesServerNetworks(abc.ABC):
    """Subnets come and go under running share servers (`network_allocation_update_support`)."""

    @abc.abstractmethod
    def check_server_network(self, server: ShareServer, current: Sequence[Subnet], new: Subnet) -> bool:
        """Whether `new`, which has no addresses yet, could be added; changes nothing."""

    @abc.abstractmethod
    def update_server_network(
        self, server: ShareServer, current: Sequence[Subnet], new: Subnet, instances: Sequence[ShareInstance]
    ) -> ServerNetworkOutcome:
        """Serve on the addresses of `new` as well; when that fails, all is as before.

        Raises `Gone`, `Refused`, `Unreachable`.
        """

    def update_server_networks(self, changes: Sequence[ServerNetworkChange]) -> Mapping[str, ServerNetworkOutcome]:
        """The same for several servers, by their ids: for drivers to which that is less work than one after another.

        One that is left out of the answer is as before. It is asked for alone then, and that says what is wrong.
        """
        found: dict[str, ServerNetworkOutcome] = {}

        def update(one: ServerNetworkChange) -> None:
            with contextlib.suppress(errors.AbacaError):
                found[one.server.id] = self.update_server_network(one.server, one.current, one.new, one.instances)

        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="server-networks") as threads:
            list(threads.map(update, changes))
        return found

    @abc.abstractmethod
    def remove_server_network(
        self, server: ShareServer, old: Subnet, instances: Sequence[ShareInstance]
    ) -> ServerNetworkOutcome:
        """Serve on the addresses of `old` no more; that it has none is success.

        Raises `Gone`, `Refused` when no other would be left, `Unreachable`.
        """


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
    def check_server_migration(self, migration: ServerMigration) -> MigrationFit:
        """Whether it could; changes nothing."""

    @abc.abstractmethod
    def start_server_migration(self, migration: ServerMigration) -> None:
        """Begin copying. Raises `Full`, `Gone`, `Refused`."""

    @abc.abstractmethod
    def look_at_server_migration(self, migration: ServerMigration) -> Progress:
        """How much is copied; 100 when only the cut-over is left. Raises `Gone`, `Refused`, `Unreachable`."""

    @abc.abstractmethod
    def end_server_migration(self, migration: ServerMigration) -> ServerNetworkOutcome:
        """Cut over: the destination serves, the source is gone. Raises `Busy` before."""

    @abc.abstractmethod
    def cancel_server_migration(self, migration: ServerMigration) -> None:
        """Nothing of the destination is left; the source never stopped."""
