# SPDX-License-Identifier: Apache-2.0
"""The dummy driver's share servers: addresses without anything that listens on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from abaca.drivers import contract
from abaca.drivers.dummy.state_file import Books, Entry
from abaca.drivers.dummy.storage import INSTANCE, Stage, rehearsed

SERVER, UNMANAGED_SERVER, SERVER_MIGRATION = "server", "unmanaged_server", "server_migration"


class Servers(
    Stage,
    contract.RunsServers,
    contract.ManagesServers,
    contract.UpdatesServerNetworks,
    contract.UpdatesSubnetMetadata,
    contract.UpdatesSecurityServices,
    contract.MigratesServers,
):
    """Share servers on any number of subnets."""

    share_server_multiple_subnet_support: ClassVar[bool] = True

    @rehearsed
    def set_up_server(self, setup: contract.ServerSetup) -> dict[str, str]:
        with self.ledger.change() as books:
            entry = books.get(SERVER, setup.id) or {
                "share_network_id": setup.share_network_id,
                "identifier": f"dummy-{setup.id}",
                "addresses": addresses(setup.subnets),
                "subnets": {subnet.id: dict(subnet.metadata) for subnet in setup.subnets},
                "security_services": {service.type: service.id for service in setup.security_services},
            }
            books.put(SERVER, setup.id, entry)
        return details(entry)

    @rehearsed
    def tear_down_server(self, server: contract.ShareServer) -> None:
        with self.ledger.change() as books:
            if any(entry["server"] == server.id for entry in books.all(INSTANCE).values()):
                raise contract.Refused(reason=f"share server {server.id} still has shares")
            books.drop(SERVER, server.id)

    @rehearsed
    def manage_server(self, server_id: str, identifier: str, options: Mapping[str, str]) -> dict[str, str]:
        with self.ledger.change() as books:
            entry = books.get(SERVER, server_id)
            if entry is None:
                entry = books.need(UNMANAGED_SERVER, identifier)
                books.drop(UNMANAGED_SERVER, identifier)
                books.put(SERVER, server_id, entry)
        return details(entry)

    @rehearsed
    def unmanage_server(self, server: contract.ShareServer) -> None:
        with self.ledger.change() as books:
            entry = books.get(SERVER, server.id)
            if entry is not None:
                books.drop(SERVER, server.id)
                books.put(UNMANAGED_SERVER, entry["identifier"], entry)

    @rehearsed
    def check_server_network(
        self, server: contract.ShareServer, current: Sequence[contract.Subnet], new: contract.Subnet
    ) -> bool:
        with self.ledger.change() as books:
            return books.get(SERVER, server.id) is not None

    @rehearsed
    def update_server_network(
        self,
        server: contract.ShareServer,
        current: Sequence[contract.Subnet],
        new: contract.Subnet,
        instances: Sequence[contract.ShareInstance],
    ) -> contract.ServerNetworkOutcome:
        with self.ledger.change() as books:
            entry = books.need(SERVER, server.id)
            entry["addresses"] += [a for a in addresses([new]) if a not in entry["addresses"]]
            entry["subnets"][new.id] = dict(new.metadata)
            books.put(SERVER, server.id, entry)
            return self._outcome(books, server.id, entry, instances)

    def _outcome(
        self, books: Books, server_id: str, entry: Entry, instances: Sequence[contract.ShareInstance]
    ) -> contract.ServerNetworkOutcome:
        seen = contract.ShareServer(id=server_id, details=details(entry))
        exports = {instance.id: self.exports(books.need(INSTANCE, instance.id), seen) for instance in instances}
        return contract.ServerNetworkOutcome(details=details(entry), exports=exports)

    @rehearsed
    def update_subnet_metadata(self, server: contract.ShareServer, subnet: contract.Subnet) -> None:
        with self.ledger.change() as books:
            entry = books.need(SERVER, server.id)
            entry["subnets"][subnet.id] = dict(subnet.metadata)
            books.put(SERVER, server.id, entry)

    @rehearsed
    def check_security_service(
        self,
        server: contract.ShareServer,
        new: contract.SecurityService,
        current: contract.SecurityService | None,
    ) -> bool:
        return current is None or current.type == new.type

    @rehearsed
    def update_security_service(
        self,
        server: contract.ShareServer,
        new: contract.SecurityService,
        current: contract.SecurityService | None,
    ) -> dict[str, str]:
        with self.ledger.change() as books:
            entry = books.need(SERVER, server.id)
            entry["security_services"][new.type] = new.id
            books.put(SERVER, server.id, entry)
        return details(entry)

    @rehearsed
    def check_server_migration(
        self, source: contract.ShareServer, instances: Sequence[contract.ShareInstance]
    ) -> contract.MigrationFit:
        return contract.MigrationFit(
            compatible=True, writable=True, preserve_metadata=True, preserve_snapshots=True, nondisruptive=False
        )

    @rehearsed
    def start_server_migration(
        self,
        source: contract.ShareServer,
        destination: contract.ServerSetup,
        instances: Sequence[contract.ShareInstance],
    ) -> None:
        with self.ledger.change() as books:
            entry = books.need(SERVER, source.id)
            if books.get(SERVER_MIGRATION, source.id) is None:
                books.put(SERVER_MIGRATION, source.id, {"destination": destination.id, "percent": 0})
                moved = entry | {"identifier": f"dummy-{destination.id}", "addresses": addresses(destination.subnets)}
                books.put(SERVER, destination.id, moved)

    @rehearsed
    def continue_server_migration(self, source: contract.ShareServer, destination: contract.ServerSetup) -> int:
        with self.ledger.change() as books:
            entry = books.need(SERVER_MIGRATION, source.id)
            entry["percent"] = min(100, entry["percent"] + self.options.progress_percent)
            books.put(SERVER_MIGRATION, source.id, entry)
        return int(entry["percent"])

    @rehearsed
    def complete_server_migration(
        self,
        source: contract.ShareServer,
        destination: contract.ServerSetup,
        instances: Sequence[contract.ShareInstance],
    ) -> contract.ServerNetworkOutcome:
        with self.ledger.change() as books:
            entry = books.need(SERVER, destination.id)
            for instance in instances:
                books.put(INSTANCE, instance.id, books.need(INSTANCE, instance.id) | {"server": destination.id})
            books.drop(SERVER, source.id)
            books.drop(SERVER_MIGRATION, source.id)
            return self._outcome(books, destination.id, entry, instances)

    @rehearsed
    def cancel_server_migration(self, source: contract.ShareServer, destination: contract.ServerSetup) -> None:
        with self.ledger.change() as books:
            if books.get(SERVER_MIGRATION, source.id) is not None:
                books.drop(SERVER, destination.id)
                books.drop(SERVER_MIGRATION, source.id)


def addresses(subnets: Iterable[contract.Subnet]) -> list[str]:
    """All addresses of a server, in the order of its subnets."""
    return [allocation.ip_address for subnet in subnets for allocation in subnet.allocations]


def details(entry: Entry) -> dict[str, str]:
    """What the service keeps of a server."""
    return {"identifier": entry["identifier"], "addresses": ",".join(entry["addresses"])}
