# SPDX-License-Identifier: Apache-2.0
"""The network of one share server: a namespace, and from each subnet's segment a cable into it.

Whatever is there is compared with what shall be, so making it is mending it, and what is right is not touched. A cable
gets its alias when it is complete: one without was cut short, and is made anew.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import ipaddress
import os
import socket
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from pyroute2.iproute.linux import IPRoute
from pyroute2.netlink import nlmsg
from pyroute2.netlink.exceptions import NetlinkError

from abaca.drivers import contract
from abaca.drivers.clients import namespaces
from abaca.drivers.local import segments
from abaca.drivers.local.segments import Segments

T = TypeVar("T")

_NO_DAD = 0x02  # usable at once: nobody is asked whether somebody else has the address
_ON_LINK = 4  # the gateway is there, whatever the prefix says
_FIRST_TABLE, _FIRST_METRIC, _RULE = 1000, 1000, 1000
# Nothing passes through a server from one subnet to another, and nobody there gives it addresses or routes.
_STILL = {
    "ipv4/ip_forward": "0",
    "ipv6/conf/all/forwarding": "0",
    "ipv6/conf/default/accept_ra": "0",
    "ipv6/conf/all/accept_ra": "0",
}
# It answers for an address on that address's own cable alone, and tells its neighbours when it comes.
_END = {
    "ipv4/conf/{}/arp_ignore": "1",
    "ipv4/conf/{}/arp_announce": "2",
    "ipv4/conf/{}/arp_notify": "1",
    "ipv4/conf/{}/rp_filter": "0",
    "ipv6/conf/{}/disable_ipv6": "0",
    "ipv6/conf/{}/accept_ra": "0",
    "ipv6/conf/{}/accept_dad": "0",
    "ipv6/conf/{}/ndisc_notify": "1",
}
_PORT = {"ipv6/conf/{}/disable_ipv6": "1"}


class Address(NamedTuple):
    """An address on a link, in one form."""

    text: str
    prefix: int

    @property
    def family(self) -> int:
        return socket.AF_INET6 if ":" in self.text else socket.AF_INET

    @property
    def bits(self) -> int:
        return 128 if ":" in self.text else 32


class ServerNetwork:
    """The namespace is at `place`. What the kernel refuses is `contract.Unreachable` with its own words."""

    def __init__(self, server_id: str, place: Path, segments: Segments) -> None:
        self.place = place
        self._server_id = server_id
        self._segments = segments

    def is_there(self, subnets: Sequence[contract.Subnet]) -> bool:
        """Whether the namespace is, and all cables are plugged in at the host; what is inside is not looked at."""
        ends = (self._segments.cable_names(self._server_id, subnet.id)[0] for subnet in subnets)
        return namespaces.exists(self.place) and all(Path("/sys/class/net", end, "master").exists() for end in ends)

    def make(self, subnets: Sequence[contract.Subnet]) -> None:
        """Have exactly these subnets. Raises `contract.Unreachable`, `Refused`."""
        with self._host() as host:
            namespaces.make(self.place)
            self._inside(_settle)
            for subnet in subnets:
                self._connect(host, subnet)
            wanted = {self._segments.cable_names(self._server_id, subnet.id)[1] for subnet in subnets}
            self._inside(lambda inside: _leave_only(inside, wanted))
            self._segments.sweep(host)

    def remove(self) -> None:
        """Nothing of it is left; absent is success."""
        with self._host() as host:
            if namespaces.exists(self.place):
                self._inside(lambda inside: _leave_only(inside, set()))
            for name in self._segments.ours("server", self._server_id):
                segments.remove(host, name)
            namespaces.remove(self.place)
            self._segments.sweep(host)

    @contextlib.contextmanager
    def _host(self) -> Iterator[IPRoute]:
        """The host's own network, in which nobody else of the back end changes links meanwhile."""
        with self._segments.lock, _complaining(), IPRoute() as host:
            yield host

    def _inside(self, work: Callable[[IPRoute], T]) -> T:
        def enter() -> T:
            with IPRoute() as inside:
                return work(inside)

        return namespaces.inside(self.place, enter)

    def _connect(self, host: IPRoute, subnet: contract.Subnet) -> None:
        bridge = self._segments.bridge(host, subnet)
        outer, inner = self._segments.cable_names(self._server_id, subnet.id)
        alias = self._segments.mark("server", self._server_id, subnet.id)
        index = self._cable(host, outer, inner, alias)
        mtu = {"mtu": subnet.mtu} if subnet.mtu else {}
        self._inside(lambda inside: _address(inside, inner, subnet))
        segments.set_kernel(_PORT, outer)
        host.link("set", index=index, master=bridge, state="up", **mtu)
        self._inside(lambda inside: _route(inside, inner, subnet))
        host.link("set", index=index, ifalias=alias)

    def _cable(self, host: IPRoute, outer: str, inner: str, alias: str) -> int:
        """The index of the host's end of the complete cable, or of a new one."""
        index = segments.find(host, outer)
        if index is not None:
            held = segments.alias_of(host, index)
            if held == alias and self._inside(lambda inside: segments.find(inside, inner)) is not None:
                return index
            if held not in {"", alias}:
                raise contract.Refused(reason=f"a link {outer} is there that is not of this back end: rename it")
            host.link("del", index=index)
        with self.place.open("rb") as namespace:
            peer = {"ifname": inner, "net_ns_fd": namespace.fileno()}
            host.link("add", ifname=outer, kind="veth", peer=peer)
        return segments.index_of(host, outer)


@contextlib.contextmanager
def _complaining() -> Iterator[None]:
    try:
        yield
    except (NetlinkError, OSError) as error:
        said = os.strerror(error.code) if isinstance(error, NetlinkError) else str(error)
        if errno.EPERM in (getattr(error, "code", None), getattr(error, "errno", None)):
            raise contract.Refused(
                reason="networks of share servers take CAP_NET_ADMIN: give it to the worker"
            ) from error
        raise contract.Unreachable(reason=f"the network of a share server cannot be made: {said}") from error


def addresses(subnet: contract.Subnet) -> list[Address]:
    """The server's addresses on the subnet, in its order. Raises `contract.Refused` for what is none."""
    try:
        return [_address_of(one) for one in subnet.allocations]
    except ValueError as error:
        raise contract.Refused(reason=f"subnet {subnet.id}: {error}") from error


def _address_of(allocation: contract.Allocation) -> Address:
    if "%" in allocation.ip_address:
        raise ValueError(f"{allocation.ip_address} is only valid on one link")
    network = ipaddress.ip_network(allocation.cidr, strict=False)
    return Address(str(ipaddress.ip_address(allocation.ip_address)), network.prefixlen)


def _settle(inside: IPRoute) -> None:
    segments.set_kernel(_STILL)
    inside.link("set", index=1, state="up")


def _address(inside: IPRoute, name: str, subnet: contract.Subnet) -> None:
    """What the server's end has before it is up, so that its neighbours are told of it all."""
    index = segments.index_of(inside, name)
    link = inside.get_links(index)[0]
    wanted = {"address": _mac(name, subnet)} | ({"mtu": subnet.mtu} if subnet.mtu else {})
    differing = {key: value for key, value in wanted.items() if link.get(key) != value}
    if differing:
        inside.link("set", index=index, **differing)
    segments.set_kernel(_END, name)
    held = [
        Address(str(ipaddress.ip_address(seen.get("address"))), seen["prefixlen"])
        for seen in inside.get_addr(index=index)
        if seen["scope"] == 0
    ]
    for address in held:
        if address not in addresses(subnet):
            inside.addr("del", index=index, address=address.text, prefixlen=address.prefix)
    for address in addresses(subnet):
        if address not in held:
            flags = {"flags": _NO_DAD} if address.family == socket.AF_INET6 else {}
            inside.addr("add", index=index, address=address.text, prefixlen=address.prefix, **flags)
    inside.link("set", index=index, state="up")


def _mac(name: str, subnet: contract.Subnet) -> str:
    """That of the network's own allocation, or one of ours; the same for ever, so that no neighbour is misled."""
    told = next((one.mac_address for one in subnet.allocations if one.mac_address), None)
    digest = hashlib.sha256(name.encode()).digest()
    return (told or ":".join(f"{byte:02x}" for byte in (0x02, *digest[:5]))).lower()


def _route(inside: IPRoute, name: str, subnet: contract.Subnet) -> None:
    """What comes to an address is answered by that address's own cable and gateway, whatever others there are."""
    index = segments.index_of(inside, name)
    table = _FIRST_TABLE + index
    for allocation, address in zip(subnet.allocations, addresses(subnet), strict=True):
        network = ipaddress.ip_network(f"{address.text}/{address.prefix}", strict=False)
        inside.route("replace", family=address.family, dst=str(network), oif=index, table=table)
        gateway = allocation.gateway or subnet.gateway
        if gateway and ipaddress.ip_address(gateway).version == network.version:
            way = {"family": address.family, "gateway": gateway, "oif": index}
            if ipaddress.ip_address(gateway) not in network:
                way["flags"] = _ON_LINK
            default = "::/0" if network.version == 6 else "0.0.0.0/0"
            inside.route("replace", dst=default, table=table, **way)
            inside.route("replace", dst=default, priority=_FIRST_METRIC + index, **way)
        rule = {"family": address.family, "src": address.text, "src_len": address.bits, "table": table}
        if not any((seen.get("src"), seen.get("table")) == (address.text, table) for seen in _rules(inside)):
            inside.rule("add", priority=_RULE, **rule)


def _rules(inside: IPRoute) -> list[nlmsg]:
    """Those that were made here."""
    families = (socket.AF_INET, socket.AF_INET6)
    return [seen for family in families for seen in inside.get_rules(family=family) if seen.get("priority") == _RULE]


def _leave_only(inside: IPRoute, wanted: Collection[str]) -> None:
    """No other cables are plugged in, complete or not, and what was made for them is gone."""
    tables = set()
    for link in inside.get_links():
        if link["index"] == 1 or link.get("ifname") in wanted:
            tables.add(_FIRST_TABLE + link["index"])
        else:
            inside.link("del", index=link["index"])
    for seen in _rules(inside):
        if seen.get("table") not in tables:
            bits = seen["src_len"]
            inside.rule(
                "del", family=seen["family"], src=seen.get("src"), src_len=bits, table=seen.get("table"), priority=_RULE
            )
