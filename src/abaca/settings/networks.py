# SPDX-License-Identifier: Apache-2.0
"""Options of the networks of share servers: whom to ask for addresses, and the subnets that an operator declares."""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from abaca import errors
from abaca.settings.options import Name, Names, Section, said

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Cidr = ipaddress.IPv4Network | ipaddress.IPv6Network
Mtu = Annotated[int, Meta(ge=68, le=65535)]
# First and last address, both included, as numbers.
Span = tuple[int, int]

# The numbers that segments of a type may have; those of other types have none.
_SEGMENTS = {"vlan": (1, 4094), "vxlan": (1, 2**24 - 1), "gre": (1, 2**32 - 1), "geneve": (1, 2**24 - 1)}
_LEAST_MTU = {4: 68, 6: 1280}


class Networks(Section, frozen=True):
    """Where share servers get their addresses."""

    plugin: Annotated[
        Literal["standalone", "neutron"],
        said("`standalone`: of the subnets that are declared here. `neutron`: ports of a Neutron."),
    ] = "standalone"
    ip_versions: Annotated[
        tuple[Literal[4, 6], ...],
        said("Address families that share servers may have; subnets of others are refused.", min_length=1),
    ] = (4, 6)
    subnets: Annotated[Names, said("Declared subnets, for `standalone`; each is a section `[subnet_<name>]`.")] = ()
    neutron_clouds_file: Annotated[
        Path, said("The clouds.yaml that says how Neutron is reached as an administrator.")
    ] = Path("/etc/abaca/clouds.yaml")
    neutron_cloud: Annotated[str, said("The name of its cloud there.")] = "neutron"
    neutron_timeout_s: Annotated[float, said("Seconds after which a Neutron that is silent counts as away.", gt=0)] = 10
    neutron_deployment: Annotated[
        Name | None,
        said("Name of this Abaca, as no other that uses the same Neutron has it: ports with it are Abaca's to delete."),
    ] = None
    neutron_physical_network: Annotated[
        str | None, said("Which segment of networks with several is used: the one on that physical network.")
    ] = None
    neutron_host_id: Annotated[
        str | None, said("Host that ports are bound to, as Neutron's agents name it. Unset: they are bound to none.")
    ] = None
    neutron_vnic_type: Annotated[
        Literal["normal", "direct", "macvtap", "baremetal", "direct-physical", "virtio-forwarder", "smart-nic"] | None,
        said("The `binding:vnic_type` of ports. Unset: Neutron's own default."),
    ] = None


class DeclaredSubnet(Section, frozen=True):
    """One section for each name in `[networks] subnets`."""

    name: Annotated[str, said("", extra={"internal": True})]
    cidr: Annotated[str, said("Addresses of the subnet, such as `10.20.0.0/16` or `fd20::/64`.")]
    network_id: Annotated[
        Name | None,
        said("What users give as `neutron_net_id` for it. Unset: it is only had by default."),
    ] = None
    subnet_id: Annotated[Name | None, said("What they give as `neutron_subnet_id`.")] = None
    projects: Annotated[Names, said("Ids of the projects that may have it. Unset: all.")] = ()
    ranges: Annotated[
        Names,
        said("Addresses that share servers may have, such as `10.20.0.10-10.20.0.250`. Unset: all of the subnet's."),
    ] = ()
    gateway: Annotated[str | None, said("Router of the subnet; no share server has its address.")] = None
    mtu: Annotated[Mtu | None, said("Largest packet, in bytes. Unset: the back end's own.")] = None
    network_type: Annotated[
        Literal["flat", "vlan", "vxlan", "gre", "geneve", "local"], said("Kind of the segment that the subnet is on.")
    ] = "flat"
    segmentation_id: Annotated[int | None, said("Number of that segment, where its kind has numbers.")] = None
    availability_zone: Annotated[str | None, said("Zone whose share servers may have it. Unset: those of all.")] = None
    is_default: Annotated[
        bool, said("Whether share networks without ids get it, in its zone; one for all zones where that has none.")
    ] = False

    @property
    def ip_version(self) -> Literal[4, 6]:
        """4 or 6."""
        return self.network.version

    @property
    def network(self) -> Cidr:
        """The cidr. Raises ValueError for none."""
        return ipaddress.ip_network(self.cidr)

    @property
    def key(self) -> str:
        """Where its addresses are unique: its network, or else itself."""
        return self.network_id or f"subnet_{self.name}"

    @property
    def spans(self) -> Sequence[Span]:
        """What may be given out, in order: the ranges without the network's own addresses and the router's."""
        reserved = {number for number in (*_own_addresses(self.network), self._gateway_number) if number is not None}
        return [part for first, last in sorted(self._ranges()) for part in _without(first, last, sorted(reserved))]

    @property
    def _gateway_number(self) -> int | None:
        return None if self.gateway is None else int(ipaddress.ip_address(self.gateway))

    def _ranges(self) -> Iterator[Span]:
        """Raises ValueError for what is no range of the subnet's."""
        if not self.ranges:
            yield int(self.network[0]), int(self.network[-1])
        for text in self.ranges:
            first, dash, last = (part.strip() for part in text.partition("-"))
            ends = [ipaddress.ip_address(part) for part in (first, last if dash else first)]
            if any(end not in self.network for end in ends):
                raise ValueError(f"{text} is not within {self.cidr}")
            if int(ends[0]) > int(ends[1]):
                raise ValueError(f"{text} ends before it begins")
            yield int(ends[0]), int(ends[1])

    def check(self) -> None:
        """Raises ConfigError for options that contradict each other."""
        self._check_addresses()
        bounds = _SEGMENTS.get(self.network_type)
        number = self.segmentation_id
        if bounds is None and number is not None:
            raise self._wrong(
                f"segmentation_id = {number} is of no use with network_type = {self.network_type}", "Take it out"
            )
        if bounds is not None and (number is None or not bounds[0] <= number <= bounds[1]):
            raise self._wrong(
                f"segmentation_id = {number} is none of network_type = {self.network_type}",
                f"Set it to a number from {bounds[0]} to {bounds[1]}",
            )
        if (self.network_id is None) != (self.subnet_id is None):
            raise self._wrong("it has one of network_id and subnet_id without the other", "Set both, or neither")
        if self.network_id is None and not self.is_default:
            raise self._wrong("nobody could ask for it", "Set network_id and subnet_id, or is_default = true")

    def _check_addresses(self) -> None:
        try:
            network = self.network
        except ValueError as error:
            raise self._wrong(f"its cidr is none: {error}", "Write one such as 10.20.0.0/16") from None
        if self.mtu is not None and self.mtu < _LEAST_MTU[network.version]:
            raise self._wrong(f"IPv6 does not work with mtu = {self.mtu}", f"Set it to {_LEAST_MTU[6]} or more")
        try:
            gateway = None if self.gateway is None else ipaddress.ip_address(self.gateway)
        except ValueError as error:
            raise self._wrong(f"its gateway is none: {error}", "Write an address") from None
        if gateway is not None and (gateway not in network or int(gateway) in _own_addresses(network)):
            raise self._wrong(f"gateway = {gateway} is no address of a host in {network}", "Write one, or take it out")
        try:
            ranges = sorted(self._ranges())
        except ValueError as error:
            raise self._wrong(
                f"its ranges are wrong: {error}", "Write them as FIRST-LAST, separated by commas"
            ) from None
        if any(after[0] <= before[1] for before, after in itertools.pairwise(ranges)):
            raise self._wrong("two of its ranges overlap", "Write each address once")
        if not self.spans:
            raise self._wrong("it has no address to give out", "Widen ranges or cidr")

    def _wrong(self, problem: str, mend: str) -> errors.ConfigError:
        return errors.ConfigError(problem=f"[subnet_{self.name}]: {problem}", mend=mend)


def check(networks: Networks, declared: Sequence[DeclaredSubnet]) -> None:
    """Raises ConfigError for declared subnets that are wrong, each or together, and for a Neutron without a name."""
    for one in declared:
        one.check()
        if networks.plugin == "standalone" and one.ip_version not in networks.ip_versions:
            raise errors.ConfigError(
                problem=f"[subnet_{one.name}] has addresses of IPv{one.ip_version}, which ip_versions leaves out",
                mend=f"Add {one.ip_version} to ip_versions in [networks], or take the subnet out of subnets there",
            )
    for one, other in itertools.combinations(declared, 2):
        _check_pair(one, other)
    if networks.plugin == "neutron" and networks.neutron_deployment is None:
        raise errors.ConfigError(
            problem="[networks] plugin = neutron needs neutron_deployment",
            mend="Set it to a name that no other Abaca of the same Neutron has; ports are known by it",
        )


def _check_pair(one: DeclaredSubnet, other: DeclaredSubnet) -> None:
    names = f"[subnet_{one.name}] and [subnet_{other.name}]"
    same_projects = not (one.projects and other.projects) or bool(set(one.projects) & set(other.projects))
    if one.is_default and other.is_default and same_projects and one.availability_zone == other.availability_zone:
        zone = f"zone {one.availability_zone}" if one.availability_zone else "all zones"
        raise errors.ConfigError(
            problem=f"{names} are both the default of {zone}",
            mend="Take is_default from one; users get that by its network_id and subnet_id",
        )
    if one.subnet_id is not None and (one.network_id, one.subnet_id) == (other.network_id, other.subnet_id):
        raise errors.ConfigError(problem=f"{names} have the same network_id and subnet_id", mend="Rename one")
    same_place = one.key == other.key or (one.network_type, one.segmentation_id) == (
        other.network_type,
        other.segmentation_id,
    )
    if same_place and one.ip_version == other.ip_version and one.network.overlaps(other.network):
        raise errors.ConfigError(
            problem=f"{names} have overlapping addresses on the same segment",
            mend="Change cidr of one, or its network_type and segmentation_id together with network_id",
        )


def _own_addresses(network: Cidr) -> tuple[int, ...]:
    """What names the network itself: its first address, and of IPv4 its last; of the smallest networks none."""
    if network.num_addresses <= 2:  # point to point: both ends are hosts
        return ()
    if network.version == 4:
        return int(network[0]), int(network[-1])
    return (int(network[0]),)  # the routers' anycast address


def _without(first: int, last: int, reserved: Sequence[int]) -> Iterator[Span]:
    for number in reserved:
        if first <= number <= last:
            if first < number:
                yield first, number - 1
            first = number + 1
    if first <= last:
        yield first, last
