# SPDX-License-Identifier: Apache-2.0
"""The dummy driver's share servers: addresses without anything that listens on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from abaca.drivers import contract
from abaca.drivers.dummy.state_file import Record, Records
from abaca.drivers.dummy.storage import INSTANCE, Storage, with_faults

SERVER, UNMANAGED_SERVER, SERVER_MIGRATION = "server", "unmanaged_server", "server_migration"


class ShareServers(
    Storage,
    contract.RunsServers,
    contract.ManagesServers,
    contract.UpdatesServerNetworks,
    contract.UpdatesSubnetMetadata,
    contract.UpdatesSecurityServices,
    contract.MigratesServers,
):
    """Share servers on any number of subnets."""

    share_server_multiple_subnet_support: ClassVar[bool] = True

    @with_faults
    def set_up_server(self, setup: contract.ServerSetup) -> dict[str, str]:
        with self.state_file.change() as records:
            record = records.get(SERVER, setup.id) or {
                "share_network_id": setup.share_network_id,
                "identifier": f"dummy-{setup.id}",
            }
            record["security_services"] = {service.type: service.id for service in setup.security_services}
            record["addresses"] = addresses(setup.subnets)
            record["subnets"] = {subnet.id: dict(subnet.metadata) for subnet in setup.subnets}
            records.put(SERVER, setup.id, record)
        return details(record)

    @with_faults
    def tear_down_server(self, server: contract.ShareServer) -> None:
        with self.state_file.change() as records:
            if any(record["server"] == server.id for record in records.all(INSTANCE).values()):
                raise contract.Refused(reason=f"share server {server.id} still has shares")
            records.drop(SERVER, server.id)

    @with_faults
    def manage_server(self, server_id: str, identifier: str, options: Mapping[str, str]) -> dict[str, str]:
        with self.state_file.change() as records:
            record = records.get(SERVER, server_id)
            if record is None:
                record = records.need(UNMANAGED_SERVER, identifier)
                records.drop(UNMANAGED_SERVER, identifier)
                records.put(SERVER, server_id, record)
        return details(record)

    @with_faults
    def unmanage_server(self, server: contract.ShareServer) -> None:
        with self.state_file.change() as records:
            record = records.get(SERVER, server.id)
            if record is not None:
                records.drop(SERVER, server.id)
                records.put(UNMANAGED_SERVER, record["identifier"], record)

    @with_faults
    def check_server_network(
        self, server: contract.ShareServer, current: Sequence[contract.Subnet], new: contract.Subnet
    ) -> bool:
        with self.state_file.change() as records:
            return records.get(SERVER, server.id) is not None

    @with_faults
    def update_server_network(
        self,
        server: contract.ShareServer,
        current: Sequence[contract.Subnet],
        new: contract.Subnet,
        instances: Sequence[contract.ShareInstance],
    ) -> contract.ServerNetworkOutcome:
        with self.state_file.change() as records:
            record = records.need(SERVER, server.id)
            record["addresses"] += [a for a in addresses([new]) if a not in record["addresses"]]
            record["subnets"][new.id] = dict(new.metadata)
            records.put(SERVER, server.id, record)
            return self._outcome(records, server.id, record, instances)

    @with_faults
    def remove_server_network(
        self, server: contract.ShareServer, old: contract.Subnet, instances: Sequence[contract.ShareInstance]
    ) -> contract.ServerNetworkOutcome:
        with self.state_file.change() as records:
            record = records.need(SERVER, server.id)
            if set(record["subnets"]) == {old.id}:
                raise contract.Refused(reason=f"share server {server.id} has no other subnet")
            leaving = addresses([old])
            record["addresses"] = [address for address in record["addresses"] if address not in leaving]
            record["subnets"].pop(old.id, None)
            records.put(SERVER, server.id, record)
            return self._outcome(records, server.id, record, instances)

    def _outcome(
        self, records: Records, server_id: str, record: Record, instances: Sequence[contract.ShareInstance]
    ) -> contract.ServerNetworkOutcome:
        seen = contract.ShareServer(id=server_id, details=details(record))
        exports = {instance.id: self.exports(records.need(INSTANCE, instance.id), seen) for instance in instances}
        return contract.ServerNetworkOutcome(details=details(record), exports=exports)

    @with_faults
    def update_subnet_metadata(self, server: contract.ShareServer, subnet: contract.Subnet) -> None:
        with self.state_file.change() as records:
            record = records.need(SERVER, server.id)
            record["subnets"][subnet.id] = dict(subnet.metadata)
            records.put(SERVER, server.id, record)

    @with_faults
    def check_security_service(
        self,
        server: contract.ShareServer,
        new: contract.SecurityService,
        current: contract.SecurityService | None,
    ) -> bool:
        return current is None or current.type == new.type

    @with_faults
    def update_security_service(
        self,
        server: contract.ShareServer,
        new: contract.SecurityService,
        current: contract.SecurityService | None,
    ) -> dict[str, str]:
        with self.state_file.change() as records:
            record = records.need(SERVER, server.id)
            record["security_services"][new.type] = new.id
            records.put(SERVER, server.id, record)
        return details(record)

    @with_faults
    def check_server_migration(self, migration: contract.ServerMigration) -> contract.MigrationFit:
        with self.state_file.change() as records:
            fits = records.get(SERVER, migration.source.id) is not None
        return contract.MigrationFit(
            compatible=fits, writable=fits, preserve_metadata=fits, preserve_snapshots=fits, nondisruptive=False
        )

    @with_faults
    def start_server_migration(self, migration: contract.ServerMigration) -> None:
        source, destination = migration.source, migration.destination
        with self.state_file.change() as records:
            record = records.need(SERVER, source.id)
            if records.get(SERVER_MIGRATION, source.id) is None:
                self.begin(records, SERVER_MIGRATION, source.id, destination=destination.id)
                moved = record | {"identifier": f"dummy-{destination.id}", "addresses": addresses(destination.subnets)}
                records.put(SERVER, destination.id, moved)

    @with_faults
    def look_at_server_migration(self, migration: contract.ServerMigration) -> contract.Progress:
        with self.state_file.change() as records:
            return self.advance(records, SERVER_MIGRATION, migration.source.id)

    @with_faults
    def end_server_migration(self, migration: contract.ServerMigration) -> contract.ServerNetworkOutcome:
        destination = migration.destination
        with self.state_file.change() as records:
            record = records.need(SERVER, destination.id)
            if self.finish(records, SERVER_MIGRATION, migration.source.id) is not None:
                for instance in migration.instances:
                    held = records.need(INSTANCE, instance.id)
                    records.put(INSTANCE, instance.id, held | {"server": destination.id})
                records.drop(SERVER, migration.source.id)
            return self._outcome(records, destination.id, record, migration.instances)

    @with_faults
    def cancel_server_migration(self, migration: contract.ServerMigration) -> None:
        with self.state_file.change() as records:
            if records.get(SERVER_MIGRATION, migration.source.id) is not None:
                records.drop(SERVER, migration.destination.id)
                records.drop(SERVER_MIGRATION, migration.source.id)


def addresses(subnets: Iterable[contract.Subnet]) -> list[str]:
    """All addresses of a server, in the order of its subnets."""
    return [allocation.ip_address for subnet in subnets for allocation in subnet.allocations]


def details(record: Record) -> dict[str, str]:
    """What the service keeps of a server."""
    return {"identifier": record["identifier"], "addresses": ",".join(record["addresses"])}
