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

_UP = 0x1
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


class Cable(NamedTuple):
    """What leads from a subnet's segment into the server: the host's end, the server's, and its addresses there."""

    outer: str
    inner: str
    alias: str
    subnet: contract.Subnet
    addresses: list[Address]


class ServerNetwork:
    """The namespace is at `place`. What the kernel refuses is `contract.Unreachable` with its own words."""

    def __init__(self, server_id: str, place: Path, segments: Segments) -> None:
        self.place = place
        self._server_id = server_id
        self._segments = segments

    def is_there(self, subnets: Sequence[contract.Subnet]) -> bool:
        """Whether the namespace is, and all cables are complete at the host; what is inside is not looked at."""
        ends = (self._segments.cable_names(self._server_id, subnet.id)[0] for subnet in subnets)
        return namespaces.exists(self.place) and all(segments.master_of(end) and segments.alias_of(end) for end in ends)

    def make(self, subnets: Sequence[contract.Subnet]) -> None:
        """Have exactly these subnets. Raises `contract.Unreachable`, `Refused`."""
        cables = [self._cable(subnet) for subnet in subnets]
        with _complaining():
            namespaces.make(self.place)
            with namespaces.visit(self.place) as visit, contextlib.closing(_Inside(visit)) as inside:
                there = inside.do(_names)
                fresh = self._plug_in(cables, there)
                inside.do(lambda links: _arrange(links, cables))
            self._segments.complete(fresh)
            self._segments.sweep()

    def remove(self) -> None:
        """Nothing of it is left; absent is success."""
        with _complaining():
            if namespaces.exists(self.place):
                with namespaces.visit(self.place) as visit, contextlib.closing(_Inside(visit)) as inside:
                    inside.do(lambda links: _leave_only(links, {}))
            self._segments.remove(*self._segments.ours("v", "server", self._server_id))
            namespaces.remove(self.place)
            self._segments.sweep()

    def _cable(self, subnet: contract.Subnet) -> Cable:
        outer, inner = self._segments.cable_names(self._server_id, subnet.id)
        alias = self._segments.mark("server", self._server_id, subnet.id)
        return Cable(outer, inner, alias, subnet, addresses(subnet))

    def _plug_in(self, cables: Sequence[Cable], there: Collection[str]) -> dict[str, str]:
        """Have all cables in their bridges; of those that are not complete yet the host's ends, with their aliases.

        Nobody else of the back end changes links of the host meanwhile, and so takes no bridge away that gets a cable.
        """
        fresh: dict[str, str] = {}
        with self._segments.lock, contextlib.closing(segments.Host()) as host:
            for cable in cables:
                bridge = self._segments.bridge(host, cable.subnet)
                if self._connect(host, cable, is_inside=cable.inner in there):
                    fresh[cable.outer] = cable.alias
                segments.plug_in(host, cable.outer, bridge, cable.subnet.mtu)
        return fresh

    def _connect(self, host: segments.Host, cable: Cable, *, is_inside: bool) -> bool:
        """Have the cable; whether it was made now, there being none, or a part of one."""
        if segments.index_of(cable.outer) is not None:
            held = segments.alias_of(cable.outer)
            if held == cable.alias and is_inside:
                return False
            if held not in {"", cable.alias}:
                raise contract.Refused(reason=f"a link {cable.outer} is there that is not of this back end: rename it")
            host.links.link("del", index=segments.need_index(cable.outer))
        with self.place.open("rb") as namespace:
            peer = {"ifname": cable.inner, "net_ns_fd": namespace.fileno()}
            host.links.link("add", ifname=cable.outer, kind="veth", peer=peer)
        segments.set_kernel(_PORT, cable.outer)
        return True


class _Inside:
    """A stay in the server's namespace, with one connection to the kernel."""

    def __init__(self, visit: namespaces.Visit) -> None:
        self._visit = visit
        self._links = visit.do(IPRoute)

    def do(self, work: Callable[[IPRoute], T]) -> T:
        return self._visit.do(lambda: work(self._links))

    def close(self) -> None:
        self._visit.do(self._links.close)


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


def _names(links: IPRoute) -> set[str]:
    """Of all links there are."""
    return {str(link.get("ifname")) for link in links.get_links()}


class _Seen(NamedTuple):
    """What there is in the namespace: links by name, addresses by link, and the rules that were made here."""

    links: dict[str, nlmsg]
    addresses: dict[int, list[Address]]
    rules: list[nlmsg]


def _look(inside: IPRoute) -> _Seen:
    held: dict[int, list[Address]] = {}
    for seen in inside.get_addr():
        if seen["scope"] == 0:
            one = Address(str(ipaddress.ip_address(seen.get("address"))), seen["prefixlen"])
            held.setdefault(seen["index"], []).append(one)
    rules = [seen for seen in inside.get_rules(family=socket.AF_UNSPEC) if seen.get("priority") == _RULE]
    return _Seen({str(link.get("ifname")): link for link in inside.get_links()}, held, rules)


def _arrange(inside: IPRoute, cables: Sequence[Cable]) -> None:
    """Have the server's ends of these as they shall be, and no others."""
    segments.set_kernel(_STILL)
    seen = _look(inside)
    if not seen.links["lo"]["flags"] & _UP:
        inside.link("set", index=1, state="up")
    for cable in cables:
        _address(inside, seen, cable)
        _route(inside, seen, cable)
    _leave_only(inside, {cable.inner: cable for cable in cables}, seen)


def _address(inside: IPRoute, seen: _Seen, cable: Cable) -> None:
    """What the server's end has before it is up, so that its neighbours are told of it all."""
    link, mtu = seen.links[cable.inner], cable.subnet.mtu
    index = link["index"]
    wanted = {"address": _mac(cable.inner, cable.subnet)} | ({"mtu": mtu} if mtu else {})
    differing = {key: value for key, value in wanted.items() if link.get(key) != value}
    if differing:
        inside.link("set", index=index, **differing)
    segments.set_kernel(_END, cable.inner)
    held = seen.addresses.get(index, [])
    for address in held:
        if address not in cable.addresses:
            inside.addr("del", index=index, address=address.text, prefixlen=address.prefix)
    for address in cable.addresses:
        if address not in held:
            flags = {"flags": _NO_DAD} if address.family == socket.AF_INET6 else {}
            inside.addr("add", index=index, address=address.text, prefixlen=address.prefix, **flags)
    if not link["flags"] & _UP:
        inside.link("set", index=index, state="up")


def _mac(name: str, subnet: contract.Subnet) -> str:
    """That of the network's own allocation, or one of ours; the same for ever, so that no neighbour is misled."""
    told = next((one.mac_address for one in subnet.allocations if one.mac_address), None)
    digest = hashlib.sha256(name.encode()).digest()
    return (told or ":".join(f"{byte:02x}" for byte in (0x02, *digest[:5]))).lower()


def _route(inside: IPRoute, seen: _Seen, cable: Cable) -> None:
    """What comes to an address is answered by that address's own cable and gateway, whatever others there are."""
    subnet, index = cable.subnet, seen.links[cable.inner]["index"]
    table = _FIRST_TABLE + index
    ruled = {(rule.get("src"), rule.get("table")) for rule in seen.rules}
    for allocation, address in zip(subnet.allocations, cable.addresses, strict=True):
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
        if (address.text, table) not in ruled:
            rule = {"family": address.family, "src": address.text, "src_len": address.bits, "table": table}
            inside.rule("add", priority=_RULE, **rule)


def _leave_only(inside: IPRoute, wanted: Collection[str], seen: _Seen | None = None) -> None:
    """No other cables are plugged in, complete or not, and what was made for them is gone."""
    seen = seen or _look(inside)
    tables = set()
    for name, link in seen.links.items():
        if link["index"] == 1 or name in wanted:
            tables.add(_FIRST_TABLE + link["index"])
        else:
            inside.link("del", index=link["index"])
    for rule in seen.rules:
        if rule.get("table") not in tables:
            its = {"src": rule.get("src"), "src_len": rule["src_len"], "table": rule.get("table")}
            inside.rule("del", family=rule["family"], priority=_RULE, **its)
