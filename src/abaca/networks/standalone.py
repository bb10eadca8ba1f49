# SPDX-License-Identifier: Apache-2.0
"""Networks that the operator declares, whose addresses are kept in the database.

An address is a row that is unique in its network: it is given once, whoever gives it at the same moment, and what was
not committed was not given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from abaca import errors
from abaca.db.networks import allocations, share_networks
from abaca.domain.networks.address_choice import Choice
from abaca.domain.networks.allocations import Address, Allocation, Network
from abaca.networks.contract import (
    AddressNotUsable,
    Guard,
    Held,
    NetworkPlugin,
    NetworkUnknown,
    NoAddress,
    answering,
    anybody,
)

if TYPE_CHECKING:
    from abaca.db.engine.database import Database, Tx
    from abaca.domain.networks.share_networks import Subnet
    from abaca.settings import DeclaredSubnet, Networks


class Standalone(NetworkPlugin):
    """The declared subnets; users name one by its two ids, or take the default of the zone."""

    def __init__(self, db: Database, options: Networks, declared: Sequence[DeclaredSubnet]) -> None:
        self._db = db
        self._ip_versions = options.ip_versions
        self._declared = declared

    def look(self, subnet: Subnet, zone: str) -> Network:
        """The declared subnet as a network."""
        found = self._find(subnet, zone)
        if found.ip_version not in self._ip_versions:
            raise NetworkUnknown(id=subnet.id, reason=f"share servers have no addresses of IPv{found.ip_version} here")
        return Network(
            key=found.key,
            cidr=str(found.network),
            ip_version=found.ip_version,
            gateway=found.gateway,
            mtu=found.mtu,
            network_type=found.network_type,
            segmentation_id=found.segmentation_id,
        )

    def allocate(
        self, server_id: str, subnet: Subnet, network: Network, number: int, guard: Guard = anybody
    ) -> Sequence[Allocation]:
        """Addresses as `Choice` has them, all in one transaction."""
        declared = self._beneath(subnet, network)
        with self._db.write() as tx:
            guard(tx)
            if not allocations.hold_server(tx, server_id):
                raise errors.NotFound(resource="Share server", id=server_id)
            has = _on(tx, server_id, subnet.id)
            while len(has) < number:
                choice = _choice(declared, network, (server_id, subnet.id), len(has))
                if not _take_one(tx, (server_id, subnet.id), network, choice):
                    reason = f"all {choice.size} addresses that {declared.name} gives to share servers are taken"
                    raise NoAddress(id=subnet.id, reason=reason)
                has = _on(tx, server_id, subnet.id)
            return has

    def allocate_many(
        self, server_ids: Sequence[str], subnet: Subnet, network: Network, number: int, guard: Guard = anybody
    ) -> Collection[str]:
        """All in one transaction; who has a part of them there is left out."""
        declared, done = self._beneath(subnet, network), []
        with self._db.write() as tx:
            guard(tx)
            # of two who take many addresses each, one waits before it has taken any
            tx.lock_names([f"addresses:{network.key}"])
            held = sorted(allocations.hold_servers(tx, server_ids))
            all_of = allocations.whole_of_servers(tx, held)
            for server_id in held:
                has = sum(one.share_network_subnet_id == subnet.id for one in all_of[server_id])
                if has >= number or (has == 0 and _take_all(tx, (server_id, subnet.id), network, declared, number)):
                    done.append(server_id)
        return done

    def free(self, server_id: str, subnet_id: str | None = None, guard: Guard = anybody) -> None:
        """The rows go."""
        with self._db.write() as tx:
            guard(tx)
            allocations.give_back(tx, server_id, subnet_id)

    def adopt(
        self, server_id: str, subnet: Subnet, network: Network, addresses: Sequence[str], guard: Guard = anybody
    ) -> Sequence[Allocation]:
        """Rows, all in one transaction; they may lie beside the ranges that share servers are given addresses from."""
        self._beneath(subnet, network)
        wanted = answering(subnet, network, addresses)
        with self._db.write() as tx:
            guard(tx)
            if not allocations.hold_server(tx, server_id):
                raise errors.NotFound(resource="Share server", id=server_id)
            for one in wanted:
                if not allocations.adopt(tx, server_id, subnet.id, network, Address(one)):
                    raise AddressNotUsable(address=one, id=subnet.id, reason="another share server has it")
            return _on(tx, server_id, subnet.id)

    def disown(self, server_id: str, guard: Guard = anybody) -> None:
        """The rows that were made for it go."""
        with self._db.write() as tx:
            guard(tx)
            allocations.disown(tx, server_id)

    def leave(self, server_id: str, guard: Guard = anybody) -> None:
        """The rows stay, for what its back end calls it."""
        with self._db.write() as tx:
            guard(tx)
            allocations.leave(tx, server_id)

    def let_go(self, allocation_id: str) -> bool:
        """The row goes."""
        with self._db.write() as tx:
            return allocations.let_go(tx, allocation_id)

    def held(self) -> None:
        """Nothing is kept anywhere but in the rows, and none of these is without its server."""

    def release(self, held: Held) -> None:
        """Nothing to do."""

    def _find(self, subnet: Subnet, zone: str) -> DeclaredSubnet:
        with self._db.read() as tx:
            network = share_networks.show(tx, subnet.share_network_id)
        if network is None:
            raise NetworkUnknown(id=subnet.id, reason="its share network is gone")
        may_have = [one for one in self._declared if not one.projects or network.project_id in one.projects]
        if subnet.neutron_subnet_id is None:
            return _default(subnet, zone, may_have)
        ids = subnet.neutron_net_id, subnet.neutron_subnet_id
        found = next((one for one in may_have if (one.network_id, one.subnet_id) == ids), None)
        if found is None:
            reason = f"the operator has declared no subnet {ids[1]} of a network {ids[0]} for this project"
            raise NetworkUnknown(id=subnet.id, reason=reason)
        if found.availability_zone not in (None, zone):
            reason = f"{ids[1]} is of zone {found.availability_zone}, and the share server is in {zone}"
            raise NetworkUnknown(id=subnet.id, reason=reason)
        return found

    def _beneath(self, subnet: Subnet, network: Network) -> DeclaredSubnet:
        for one in self._declared:
            if (one.key, str(one.network)) == (network.key, network.cidr):
                return one
        raise NetworkUnknown(id=subnet.id, reason=f"the operator does not declare {network.cidr} any more")


def _default(subnet: Subnet, zone: str, declared: Sequence[DeclaredSubnet]) -> DeclaredSubnet:
    usual = {one.availability_zone: one for one in declared if one.is_default}
    found = usual.get(zone) or usual.get(None)
    if found is None:
        reason = f"zone {zone} has no default subnet for this project; give neutron_net_id and neutron_subnet_id"
        raise NetworkUnknown(id=subnet.id, reason=reason)
    return found


def _on(tx: Tx, server_id: str, subnet_id: str) -> list[Allocation]:
    return [one for one in allocations.of_server(tx, server_id) if one.share_network_subnet_id == subnet_id]


def _choice(declared: DeclaredSubnet, network: Network, of: tuple[str, str], place: int) -> Choice:
    server_id, subnet_id = of
    return Choice(declared.spans, network.ip_version, f"{server_id} {subnet_id} {place}")


def _take_all(tx: Tx, of: tuple[str, str], network: Network, declared: DeclaredSubnet, number: int) -> bool:
    """Whether there were so many for one that has none there; otherwise it has none."""
    if all(_take_one(tx, of, network, _choice(declared, network, of, place)) for place in range(number)):
        return True
    allocations.give_back(tx, *of)
    return False


def _take_one(tx: Tx, of: tuple[str, str], network: Network, choice: Choice) -> bool:
    """Whether there was one. All that are taken are read only where nearly all are; who commits first has it."""
    server_id, subnet_id = of

    def take(addresses: Iterable[str]) -> bool:
        return any(allocations.take(tx, server_id, subnet_id, network, Address(one)) for one in addresses)

    return take(choice.tries()) or take(choice.free(allocations.taken(tx, network.key)))
