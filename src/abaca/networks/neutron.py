# SPDX-License-Identifier: Apache-2.0
"""The networks of a Neutron, whose ports are the addresses of share servers, asked through openstacksdk.

A port says whose it is from its first moment: `device_id` is the share server, and the description names this Abaca
and the subnet of the share network. So a call that is repeated finds what an interrupted one has made. The rows of the
database, which have the ids of their ports, say which ports count; what is beside them is taken back.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from abaca import clouds, errors
from abaca.db.networks import allocations, share_networks
from abaca.domain.networks.allocations import Address, Allocation, Network
from abaca.networks.contract import (
    AddressNotUsable,
    Guard,
    Held,
    NetworkPlugin,
    NetworkUnknown,
    NetworkUnreachable,
    NoAddress,
    answering,
    anybody,
)

if TYPE_CHECKING:
    from openstack.exceptions import HttpException
    from openstack.network.v2._proxy import Proxy
    from openstack.network.v2.network import Network as NeutronNetwork
    from openstack.network.v2.port import Port

    from abaca.db.engine.database import Database, Tx
    from abaca.domain.networks.share_networks import Subnet
    from abaca.settings import Networks

# By which Neutron and its users know ports of share servers.
DEVICE_OWNER = "manila:share"
T = TypeVar("T")
_UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")


class Neutron(NetworkPlugin):
    """Asks as an administrator of its cloud; nothing before the first call."""

    def __init__(self, db: Database, options: Networks) -> None:
        """Raises ImportError without openstacksdk."""
        self._db = db
        self._options = options
        self._mark = f"abaca {options.neutron_deployment} "
        self._cloud = clouds.Cloud(
            options.neutron_clouds_file,
            options.neutron_cloud,
            options.neutron_timeout_s,
            lambda reason: NetworkUnreachable(reason=reason),
        )

    def look(self, subnet: Subnet, zone: str) -> Network:
        """The subnet and the network of Neutron that it names, if its project may use them."""
        network_id, subnet_id = subnet.neutron_net_id, subnet.neutron_subnet_id
        if network_id is None or subnet_id is None:
            reason = "networks come from a Neutron; give neutron_net_id and neutron_subnet_id"
            raise NetworkUnknown(id=subnet.id, reason=reason)
        project_id = _project_of(self._db, subnet)
        with self._asking() as neutron:
            network = _found(neutron.get_network, network_id)
            beneath = _found(neutron.get_subnet, subnet_id)
            if network is None or not _may_use(neutron, network, project_id):
                raise NetworkUnknown(id=subnet.id, reason=f"Neutron has no network {network_id} for its project")
        if beneath is None or beneath.network_id != network.id:
            raise NetworkUnknown(id=subnet.id, reason=f"network {network_id} has no subnet {subnet_id} in Neutron")
        if beneath.ip_version not in self._options.ip_versions:
            reason = f"share servers have no addresses of IPv{beneath.ip_version} here"
            raise NetworkUnknown(id=subnet.id, reason=reason)
        network_type, segmentation_id = _segment(subnet, network, self._options.neutron_physical_network)
        return Network(
            key=network.id,
            cidr=beneath.cidr,
            ip_version=beneath.ip_version,
            gateway=beneath.gateway_ip,
            mtu=network.mtu,
            network_type=network_type,
            segmentation_id=segmentation_id,
        )

    def allocate(
        self, server_id: str, subnet: Subnet, network: Network, number: int, guard: Guard = anybody
    ) -> Sequence[Allocation]:
        """Ports with one fixed address each; those that an interrupted call has made come first."""
        has = self._has(server_id, subnet.id)
        if len(has) >= number:
            return has
        project_id = _project_of(self._db, subnet)
        made: list[Port] = []
        with self._asking() as neutron:
            ports = [one for one in self._ports(neutron, server_id) if one.description == self._mark + subnet.id]
            try:
                while len(ports) + len(made) < number:
                    made.append(self._make(neutron, server_id, subnet, project_id))
            except (NoAddress, NetworkUnknown):
                _delete(neutron, [one.id for one in made])
                raise
            try:
                has, surplus = self._write_down((server_id, subnet, network), [*ports, *made], number, guard)
            except Exception:
                _delete(neutron, self._unneeded((server_id, subnet.id), made, number))
                raise
            _delete(neutron, surplus)
        if not has:
            raise errors.NotFound(resource="Share server", id=server_id)
        if len(has) < number:
            reason = (
                "Neutron gives out an address that another share server has: somebody has deleted a port of Abaca's"
            )
            raise NoAddress(id=subnet.id, reason=reason)
        return has

    def free(self, server_id: str, subnet_id: str | None = None, guard: Guard = anybody) -> None:
        """The ports go, those without a row too, and then the rows."""
        with self._db.write() as tx:
            guard(tx)
            rows = [one for one in allocations.of_server(tx, server_id) if subnet_id in (None, _subnet_of(one))]
        with self._asking() as neutron:
            ports = [one.id for one in self._ports(neutron, server_id) if self._is_on(one, subnet_id)]
            _delete(neutron, {*ports, *(one.id for one in rows)})
        with self._db.write() as tx:
            guard(tx)
            allocations.give_back(tx, server_id, subnet_id)

    def adopt(
        self, server_id: str, subnet: Subnet, network: Network, addresses: Sequence[str], guard: Guard = anybody
    ) -> Sequence[Allocation]:
        """The ports that have them, if they are of share servers, and new ones where there are none."""
        wanted = answering(subnet, network, addresses)
        project_id = _project_of(self._db, subnet)
        made: list[str] = []
        with self._asking() as neutron:
            found = {one: _port_at(neutron, subnet, one) for one in wanted}
            ports = {one: port for one, port in found.items() if port is not None}
            try:
                for address in found.keys() - ports.keys():
                    ports[address] = self._make(neutron, server_id, subnet, project_id, address)
                    made.append(ports[address].id)
                with self._db.write() as tx:
                    guard(tx)
                    has = _adopt(tx, (server_id, subnet, network), ports)
            except NoAddress as error:
                _delete(neutron, made)
                raise AddressNotUsable(address=address, id=subnet.id, reason=error.message) from None
            except (AddressNotUsable, NetworkUnknown, errors.NotFound):
                _delete(neutron, made)
                raise
            for port in ports.values():
                # a port of another service keeps the name of its owner, which may want it back
                owner = server_id if self._is_on(port, None) else port.device_id
                neutron.update_port(port.id, description=self._mark + subnet.id, device_id=owner)
        return has

    def disown(self, server_id: str, guard: Guard = anybody) -> None:
        """The ports that were made for it go, and those stay that were there; of another service they are its own."""
        with self._asking() as neutron:
            made = [one.id for one in self._ports(neutron, server_id) if one.name == _name(server_id)]
            with self._db.write() as tx:
                guard(tx)
                rows = allocations.of_server(tx, server_id)
            _unname(neutron, [one.id for one in rows if one.left_identifier is None and one.id not in made])
            with self._db.write() as tx:
                guard(tx)
                allocations.disown(tx, server_id)
                written = allocations.among(tx, made) if made else frozenset()
            _delete(neutron, [one for one in made if one not in written])

    def leave(self, server_id: str, guard: Guard = anybody) -> None:
        """Its ports stay as they are, and their rows."""
        with self._db.write() as tx:
            guard(tx)
            allocations.leave(tx, server_id)

    def let_go(self, allocation_id: str) -> bool:
        """The row goes, then the port."""
        with self._db.write() as tx:
            is_left = allocations.let_go(tx, allocation_id)
        if is_left:
            with self._asking() as neutron:
                _delete(neutron, [allocation_id])
        return is_left

    def held(self) -> Sequence[Held]:
        """All ports with the name of this Abaca."""
        with self._asking() as neutron:
            found = [one for one in neutron.ports(device_owner=DEVICE_OWNER) if self._is_on(one, None)]
        return [Held(one.id, one.device_id, ", ".join(_addresses(one))) for one in found]

    def release(self, held: Held) -> None:
        """Delete the port, unless it is another server's by now."""
        with self._asking() as neutron:
            port = _found(neutron.get_port, held.id)
            if port is not None and port.device_id == held.server_id and self._is_on(port, None):
                _delete(neutron, [held.id])

    def close(self) -> None:
        """Give the connections back."""
        self._cloud.close()

    def _is_on(self, port: Port, subnet_id: str | None) -> bool:
        said = port.description or ""
        return bool(said.startswith(self._mark) if subnet_id is None else said == self._mark + subnet_id)

    def _ports(self, neutron: Proxy, server_id: str) -> list[Port]:
        found = neutron.ports(device_id=server_id, device_owner=DEVICE_OWNER)
        return sorted((one for one in found if self._is_on(one, None)), key=lambda one: (one.created_at, one.id))

    def _make(
        self, neutron: Proxy, server_id: str, subnet: Subnet, project_id: str, address: str | None = None
    ) -> Port:
        """A new port, with that address or with whichever is free. Raises `NoAddress`, `NetworkUnknown`."""
        from openstack import exceptions

        fixed = {"subnet_id": subnet.neutron_subnet_id} | ({"ip_address": address} if address else {})
        bound = {
            "binding_host_id": self._options.neutron_host_id,
            "binding_vnic_type": self._options.neutron_vnic_type,
        }
        try:
            port = neutron.create_port(
                network_id=subnet.neutron_net_id,
                fixed_ips=[fixed],
                device_owner=DEVICE_OWNER,
                device_id=server_id,
                name=_name(server_id),
                description=self._mark + subnet.id,
                project_id=project_id,
                is_admin_state_up=True,
                **{name: value for name, value in bound.items() if value is not None},
            )
        except exceptions.ConflictException as error:
            raise NoAddress(id=subnet.id, reason=_said(error)) from None
        except (exceptions.NotFoundException, exceptions.BadRequestException) as error:
            raise NetworkUnknown(id=subnet.id, reason=_said(error)) from None
        if port.binding_vif_type == "binding_failed":
            _delete(neutron, [port.id])
            reason = (
                f"Neutron cannot bind a port to host {self._options.neutron_host_id} (neutron_host_id in [networks])"
            )
            raise NetworkUnknown(id=subnet.id, reason=reason)
        return port

    def _write_down(
        self, of: tuple[str, Subnet, Network], ports: Sequence[Port], number: int, guard: Guard
    ) -> tuple[Sequence[Allocation], Sequence[str]]:
        """What a server has on a subnet now, and the ports that are too many: of a server that is gone, all."""
        server_id, subnet, network = of
        with self._db.write() as tx:
            guard(tx)
            if not allocations.hold_server(tx, server_id):
                return [], [one.id for one in ports]
            has = {one.id for one in allocations.of_server(tx, server_id) if one.share_network_subnet_id == subnet.id}
            surplus = []
            for port in ports:
                if port.id in has:
                    continue
                ip = next(_addresses(port, subnet.neutron_subnet_id), None)
                address = Address(ip, port.mac_address, port.id) if ip is not None else None
                if address and len(has) < number and allocations.take(tx, server_id, subnet.id, network, address):
                    has.add(port.id)
                else:
                    surplus.append(port.id)
            rows = [one for one in allocations.of_server(tx, server_id) if one.id in has]
        return rows, surplus

    def _unneeded(self, of: tuple[str, str], made: Sequence[Port], number: int) -> Sequence[str]:
        """Those of the ports that nobody will write down: whoever goes on, and has fewer, takes what is there."""
        server_id, subnet_id = of
        with self._db.read() as tx:
            has = {one.id for one in allocations.of_server(tx, server_id) if one.share_network_subnet_id == subnet_id}
            is_there = server_id in allocations.servers(tx, [server_id])
        return [one.id for one in made if one.id not in has] if len(has) >= number or not is_there else []

    def _has(self, server_id: str, subnet_id: str) -> Sequence[Allocation]:
        with self._db.read() as tx:
            return [one for one in allocations.of_server(tx, server_id) if one.share_network_subnet_id == subnet_id]

    @contextlib.contextmanager
    def _asking(self) -> Iterator[Proxy]:
        """The library's way to Neutron. Raises `NetworkUnreachable` for what goes wrong on it."""
        with self._cloud.asking() as connection:
            yield connection.network


def check(options: Networks) -> None:
    """Raises ConfigError for a clouds.yaml that cannot be read, or does not know the cloud."""
    clouds.check("networks", "neutron", options.neutron_clouds_file, options.neutron_cloud)


def _project_of(db: Database, subnet: Subnet) -> str:
    with db.read() as tx:
        found = share_networks.show(tx, subnet.share_network_id)
    if found is None:
        raise NetworkUnknown(id=subnet.id, reason="its share network is gone")
    return found.project_id


def _segment(subnet: Subnet, network: NeutronNetwork, wanted: str | None) -> tuple[str | None, int | None]:
    """Type and number; of several segments those of the one on the `wanted` physical network."""
    if not network.segments:
        return network.provider_network_type, network.provider_segmentation_id
    for one in network.segments:
        if wanted is not None and one.get("provider:physical_network") == wanted:
            return one.get("provider:network_type"), one.get("provider:segmentation_id")
    which = f"none is on {wanted}" if wanted else "none is chosen"
    reason = f"network {network.id} has several segments, and {which} (neutron_physical_network in [networks])"
    raise NetworkUnknown(id=subnet.id, reason=reason)


def _adopt(tx: Tx, of: tuple[str, Subnet, Network], ports: Mapping[str, Port]) -> Sequence[Allocation]:
    """Write the ports down by their addresses; nobody else's row is touched."""
    server_id, subnet, network = of
    if not allocations.hold_server(tx, server_id):
        raise errors.NotFound(resource="Share server", id=server_id)
    for address, port in ports.items():
        its = Address(address, port.mac_address, port.id)
        if not allocations.adopt(tx, server_id, subnet.id, network, its):
            raise AddressNotUsable(address=address, id=subnet.id, reason="another share server has it")
    return [one for one in allocations.of_server(tx, server_id) if one.share_network_subnet_id == subnet.id]


def _subnet_of(allocation: Allocation) -> str | None:
    return allocation.share_network_subnet_id


def _found(show: Callable[[str], T], found_id: str) -> T | None:
    """What Neutron shows by an id, or None."""
    from openstack import exceptions

    if not _UUID.fullmatch(found_id):
        return None
    try:
        return show(found_id)
    except exceptions.NotFoundException:
        return None


def _may_use(neutron: Proxy, network: NeutronNetwork, project_id: str) -> bool:
    """Whether a project may have ports there: of its own networks, of those of all, and of those shared with it."""
    if network.project_id == project_id or network.is_shared:
        return True
    shared = neutron.rbac_policies(object_type="network", object_id=network.id, action="access_as_shared")
    return any(one.target_project_id in (project_id, "*") for one in shared)


def _name(server_id: str) -> str:
    """What the ports are called that are made for a share server."""
    return f"share-server-{server_id}"


def _port_at(neutron: Proxy, subnet: Subnet, address: str) -> Port | None:
    """The port that has an address; None for none. Raises `AddressNotUsable` where it is of no share server."""
    for one in neutron.ports(network_id=subnet.neutron_net_id, fixed_ips=f"ip_address={address}"):
        if address not in _addresses(one, subnet.neutron_subnet_id):
            continue
        if one.device_owner != DEVICE_OWNER:
            reason = f"port {one.id} in Neutron has it, for {one.device_owner or 'nobody'} and not for {DEVICE_OWNER}"
            raise AddressNotUsable(address=address, id=subnet.id, reason=reason)
        return one
    return None


def _unname(neutron: Proxy, port_ids: Iterable[str]) -> None:
    """Those of them that are there are ours no more."""
    for port_id in port_ids:
        if _found(neutron.get_port, port_id) is not None:
            neutron.update_port(port_id, description="")


def _delete(neutron: Proxy, port_ids: Iterable[str]) -> None:
    for port_id in port_ids:
        neutron.delete_port(port_id, ignore_missing=True)


def _addresses(port: Port, subnet_id: str | None = None) -> Iterator[str]:
    """The fixed addresses of a port, on one subnet or on all, in their shortest form."""
    for one in port.fixed_ips or ():
        if subnet_id in (None, one["subnet_id"]):
            yield str(ipaddress.ip_address(one["ip_address"]))


def _said(error: HttpException) -> str:
    """Neutron's own sentence."""
    return str(error.details or error).strip().rstrip(".")[:300]
