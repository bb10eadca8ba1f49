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
            known = records.get(SERVER, setup.id)
            identifier = f"dummy-{setup.id}" if known is None else known["identifier"]
            record = {"identifier": identifier, **made_of(setup)}
            records.put(SERVER, setup.id, record)
        return details(record)

    @with_faults
    def tear_down_server(self, server: contract.ShareServer) -> None:
        with self.state_file.change() as records:
            if any(record["server"] == server.id for record in records.all(INSTANCE).values()):
                raise contract.Refused(reason=f"share server {server.id} still has shares")
            records.drop(SERVER, server.id)

    @with_faults
    def find_server_addresses(self, identifier: str, options: Mapping[str, str]) -> Sequence[str]:
        with self.state_file.change() as records:
            return list(given_up(records, identifier, options)["addresses"])

    @with_faults
    def manage_server(self, setup: contract.ServerSetup, identifier: str, options: Mapping[str, str]) -> dict[str, str]:
        with self.state_file.change() as records:
            record = records.get(SERVER, setup.id)
            if record is None:
                found = given_up(records, identifier, options)
                record = {"identifier": identifier, **made_of(setup)}
                if set(record["addresses"]) != set(found["addresses"]):
                    raise contract.Refused(reason=f"share server {identifier} has {', '.join(found['addresses'])}")
                records.drop(UNMANAGED_SERVER, identifier)
                records.put(SERVER, setup.id, record)
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


def made_of(setup: contract.ServerSetup) -> Record:
    """What a server is made of, as held."""
    return {
        "share_network_id": setup.share_network_id,
        "encryption_key_ref": setup.encryption_key_ref,
        "security_services": {service.type: service.id for service in setup.security_services},
        "addresses": addresses(setup.subnets),
        "subnets": {subnet.id: dict(subnet.metadata) for subnet in setup.subnets},
    }


def given_up(records: Records, identifier: str, options: Mapping[str, str]) -> Record:
    """The record of a server that is nobody's; with the option `addresses` one is made up. Raises `Gone`, `Refused`."""
    owner = next((id for id, one in records.all(SERVER).items() if one["identifier"] == identifier), None)
    if owner is not None:
        raise contract.Refused(reason=f"{identifier} is share server {owner}; release that share server first")
    known = records.get(UNMANAGED_SERVER, identifier)
    said = [one.strip() for one in options.get("addresses", "").split(",") if one.strip()]
    if known is None and not said:
        raise contract.Gone(
            reason=f"there is no share server {identifier}, and the option addresses does not say where one answers"
        )
    return known or {"addresses": said}


def addresses(subnets: Iterable[contract.Subnet]) -> list[str]:
    """All addresses of a server, in the order of its subnets."""
    return [allocation.ip_address for subnet in subnets for allocation in subnet.allocations]


def details(record: Record) -> dict[str, str]:
    """What the service keeps of a server."""
    return {"identifier": record["identifier"], "addresses": ",".join(record["addresses"])}
