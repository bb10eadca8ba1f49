# SPDX-License-Identifier: Apache-2.0
"""The network of one share server: a namespace, and from each subnet's segment a cable into it.

Whatever is there is compared with what shall be, so making it is mending it, and what is right is not touched. A cable
gets its alias when it is complete: one without was cut short, and is made anew.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import ipaddress
import socket
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

from pyroute2.netlink import nlmsg

from abaca import errors
from abaca.drivers import contract
from abaca.drivers.clients import namespaces, rtnetlink
from abaca.drivers.clients.rtnetlink import Route
from abaca.drivers.local import segments
from abaca.drivers.local.segments import Segments

T = TypeVar("T")

_UP = 0x1
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
        work = Work(self, subnets)
        work.attempt(lambda: self._begin(work))
        _plug_in([work], self._segments)
        work.attempt(lambda: self._inside(lambda kernel: _arrange(kernel, work.cables)))
        _complete([work], self._segments)
        work.conclude()
        with _complaining():
            self._segments.sweep()

    def _begin(self, work: Work) -> None:
        namespaces.make(self.place)
        work.there = self._inside(_names)

    def add(self, subnets: Sequence[contract.Subnet], had: Sequence[contract.Subnet]) -> None:
        """Have these, where it was made with those that it `had`. Raises `contract.Unreachable`, `Refused`."""
        work = Work(self, subnets, had)
        add_missing([work], self._segments)
        work.conclude()

    def remove(self) -> None:
        """Nothing of it is left; absent is success."""
        with _complaining():
            if namespaces.exists(self.place):
                self._inside(_clear)
            self._segments.remove(*self._segments.ours("v", "server", self._server_id))
            namespaces.remove(self.place)
            self._segments.sweep()

    def cable(self, subnet: contract.Subnet) -> Cable:
        """What leads to the subnet. Raises `contract.Refused`."""
        outer, inner = self._segments.cable_names(self._server_id, subnet.id)
        alias = self._segments.mark("server", self._server_id, subnet.id)
        return Cable(outer, inner, alias, subnet, addresses(subnet))

    def _inside(self, work: Callable[[rtnetlink.Kernel], T]) -> T:
        return namespaces.inside(self.place, lambda: _connected(work))


class Work:
    """What is done to the network of one server, beside others'; what goes wrong there is kept, and is its own."""

    def __init__(
        self, network: ServerNetwork, subnets: Sequence[contract.Subnet], had: Sequence[contract.Subnet] = ()
    ) -> None:
        self.network = network
        self.had = had
        self.cables: Sequence[Cable] = []
        # the names of all links inside; None: nobody has looked, and what it had is believed to be as it was made
        self.there: Collection[str] | None = None
        # the cables that are made now, there having been none, or a part of one
        self.fresh: list[Cable] = []
        self.error: errors.BackendError | None = None
        self.attempt(lambda: self._plan(subnets))

    def _plan(self, subnets: Sequence[contract.Subnet]) -> None:
        self.cables = [self.network.cable(subnet) for subnet in subnets]

    def attempt(self, what: Callable[[], object]) -> None:
        """Do it, unless something has gone wrong before."""
        if self.error is not None:
            return
        try:
            with _complaining():
                what()
        except errors.BackendError as error:
            self.error = error

    def believes(self, cable: Cable) -> bool:
        """Whether the other end of a complete cable is in the server, with what belongs to it."""
        return cable.subnet in self.had if self.there is None else cable.inner in self.there

    def conclude(self) -> None:
        """Raises what has gone wrong."""
        if self.error is not None:
            raise self.error


def add_missing(works: Sequence[Work], segments: Segments) -> None:
    """Have what several servers had not, at once; what they had is not looked at where its cables are complete."""
    _plug_in(works, segments)
    fresh = [work for work in works if work.fresh and work.error is None]
    if fresh:
        namespaces.aside(lambda: _enter_all(fresh))
        _complete(fresh, segments)


def _enter_all(works: Sequence[Work]) -> None:
    for work in works:
        work.attempt(functools.partial(_enter, work))


def _enter(work: Work) -> None:
    namespaces.enter(work.network.place)
    _connected(lambda kernel: _arrange_fresh(kernel, work.fresh))


def _connected(work: Callable[[rtnetlink.Kernel], T]) -> T:
    with contextlib.closing(rtnetlink.Kernel()) as kernel:
        return work(kernel)


def _plug_in(works: Sequence[Work], of: Segments) -> None:
    """Have all cables in their bridges; those that are made now are not complete yet.

    Nobody else of the back end changes links of the host meanwhile, and so takes no bridge away that gets a cable.
    """
    with of.lock, contextlib.closing(segments.Host()) as host, contextlib.ExitStack() as files:
        made, on = rtnetlink.Batch(), rtnetlink.Batch()
        for work in works:
            made.whose = on.whose = work
            work.attempt(functools.partial(_connect, work, of, host, (made, on), files))
        _send(host, made)
        for work in works:
            on.whose = work
            work.attempt(functools.partial(_switch_on, work, on))
        _send(host, on)


def _connect(
    work: Work,
    of: Segments,
    host: segments.Host,
    batches: tuple[rtnetlink.Batch, rtnetlink.Batch],
    files: contextlib.ExitStack,
) -> None:
    """What is missing at the host is made by the first batch, what differs is changed by the second."""
    made, on = batches
    for cable in work.cables:
        held, mtu = segments.alias_of(cable.outer), cable.subnet.mtu
        is_whole = held == cable.alias and work.believes(cable)
        if is_whole and work.there is None:
            continue
        bridge = of.bridge(host, cable.subnet)
        if is_whole:
            segments.plug_in(on, cable.outer, bridge, mtu)
            continue
        if held not in {"", cable.alias}:
            raise contract.Refused(reason=f"a link {cable.outer} is there that is not of this back end: rename it")
        if segments.index_of(cable.outer) is not None:
            made.remove_link(cable.outer)
        namespace = files.enter_context(work.network.place.open("rb")).fileno()
        mac = _mac(cable.inner, cable.subnet)
        made.add_cable(cable.outer, cable.inner, namespace, segments.need_index(bridge), mac, mtu)
        work.fresh.append(cable)


def _switch_on(work: Work, on: rtnetlink.Batch) -> None:
    for cable in work.fresh:
        segments.set_kernel(_PORT, cable.outer)
        on.set_link(cable.outer, is_up=True)


def _complete(works: Sequence[Work], of: Segments) -> None:
    """Say of the cables that were made that they are whole, by their aliases."""
    said = rtnetlink.Batch()
    for work in works:
        said.whose = work
        for cable in work.fresh if work.error is None else ():
            said.set_link(cable.outer, {"ifalias": cable.alias})
    with of.lock, contextlib.closing(segments.Host()) as host:
        _send(host, said)


def _send(host: segments.Host, batch: rtnetlink.Batch) -> None:
    """What is refused goes wrong for whose it was."""
    failed = host.kernel.attempt(batch) if batch.requests else {}
    for work, error in failed.items():
        cast("Work", work).attempt(functools.partial(_raise, error))


def _raise(error: OSError) -> None:
    raise error


@contextlib.contextmanager
def _complaining() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.EPERM:
            raise contract.Refused(
                reason="networks of share servers take CAP_NET_ADMIN: give it to the worker"
            ) from error
        said = error.strerror or str(error)
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


def _names(kernel: rtnetlink.Kernel) -> set[str]:
    """Of all links there are."""
    return {str(link.get("ifname")) for link in kernel.links()}


class _Seen(NamedTuple):
    """What there is in the namespace: links by name, addresses by link, and the rules that were made here."""

    links: dict[str, nlmsg]
    addresses: dict[int, list[Address]]
    rules: list[nlmsg]


def _look(kernel: rtnetlink.Kernel) -> _Seen:
    held: dict[int, list[Address]] = {}
    for seen in kernel.addresses():
        if seen["scope"] == 0:
            one = Address(str(ipaddress.ip_address(seen.get("address"))), seen["prefixlen"])
            held.setdefault(seen["index"], []).append(one)
    rules = [seen for seen in kernel.rules() if seen.get("priority") == _RULE]
    return _Seen({str(link.get("ifname")): link for link in kernel.links()}, held, rules)


def _arrange(kernel: rtnetlink.Kernel, cables: Sequence[Cable]) -> None:
    """Have the server's ends of these as they shall be, and no others."""
    segments.set_kernel(_STILL)
    seen, batch = _look(kernel), rtnetlink.Batch()
    if not seen.links["lo"]["flags"] & _UP:
        batch.set_link("lo", is_up=True)
    for cable in cables:
        link, mtu = seen.links[cable.inner], cable.subnet.mtu
        wanted = {"address": _mac(cable.inner, cable.subnet)} | ({"mtu": mtu} if mtu else {})
        differing = {key: value for key, value in wanted.items() if link.get(key) != value}
        if differing:
            batch.set_link(cable.inner, differing)
        _address(batch, cable, link["index"], seen.addresses.get(link["index"], []))
        if not link["flags"] & _UP:
            batch.set_link(cable.inner, is_up=True)
        _route(batch, cable, link["index"])
    _leave_only(batch, {cable.inner for cable in cables}, seen)
    kernel.do(batch)


def _arrange_fresh(kernel: rtnetlink.Kernel, cables: Sequence[Cable]) -> None:
    """The same for those that were just made, whatever others there are."""
    batch = rtnetlink.Batch()
    for cable in cables:
        index = socket.if_nametoindex(cable.inner)
        _address(batch, cable, index, [])
        batch.set_link(cable.inner, is_up=True)
        _route(batch, cable, index)
    kernel.do(batch)


def _address(batch: rtnetlink.Batch, cable: Cable, index: int, held: Collection[Address]) -> None:
    """What the server's end has before it is up, so that its neighbours are told of it all."""
    segments.set_kernel(_END, cable.inner)
    for address in held:
        if address not in cable.addresses:
            batch.remove_address(index, address.family, address.text, address.prefix)
    for address in cable.addresses:
        if address not in held:
            batch.add_address(index, address.family, address.text, address.prefix)


def _mac(name: str, subnet: contract.Subnet) -> str:
    """That of the network's own allocation, or one of ours; the same for ever, so that no neighbour is misled."""
    told = next((one.mac_address for one in subnet.allocations if one.mac_address), None)
    digest = hashlib.sha256(name.encode()).digest()
    return (told or ":".join(f"{byte:02x}" for byte in (0x02, *digest[:5]))).lower()


def _route(batch: rtnetlink.Batch, cable: Cable, index: int) -> None:
    """What comes to an address is answered by that address's own cable and gateway, whatever others there are."""
    table = _FIRST_TABLE + index
    for allocation, address in zip(cable.subnet.allocations, cable.addresses, strict=True):
        network = ipaddress.ip_network(f"{address.text}/{address.prefix}", strict=False)
        batch.set_route(Route(address.family, str(network), index, table))
        gateway = allocation.gateway or cable.subnet.gateway
        if gateway and ipaddress.ip_address(gateway).version == network.version:
            default = "::/0" if network.version == 6 else "0.0.0.0/0"
            is_on_link = ipaddress.ip_address(gateway) not in network
            way = Route(address.family, default, index, table, None, gateway, is_on_link)
            batch.set_route(way)
            batch.set_route(way._replace(table=rtnetlink.MAIN_TABLE, priority=_FIRST_METRIC + index))
        batch.add_rule(address.family, address.text, table, _RULE)


def _clear(kernel: rtnetlink.Kernel) -> None:
    """No cable is plugged in any more."""
    batch = rtnetlink.Batch()
    _leave_only(batch, (), _look(kernel))
    kernel.do(batch)


def _leave_only(batch: rtnetlink.Batch, wanted: Collection[str], seen: _Seen) -> None:
    """No other cables are plugged in, complete or not, and what was made for them is gone."""
    tables = set()
    for name, link in seen.links.items():
        if link["index"] == 1 or name in wanted:
            tables.add(_FIRST_TABLE + link["index"])
        else:
            batch.remove_link(name)
    for rule in seen.rules:
        if rule.get("table") not in tables:
            batch.remove_rule(rule["family"], rule.get("src"), rule.get("table"), _RULE)
