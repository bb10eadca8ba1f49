# SPDX-License-Identifier: Apache-2.0
"""What the kernel is told of links, addresses, routes and rules: many requests at once, by a plain socket.

The messages are pyroute2's. Its own connections run an event loop for each request, which takes many times as long as
what the kernel does for it, and none of that side by side with other threads.
"""

from __future__ import annotations

import errno
import itertools
import os
import socket
import struct
from collections.abc import Hashable, Iterator, Mapping
from typing import NamedTuple

from pyroute2.netlink import nlmsg
from pyroute2.netlink.rtnl import (
    RTM_DELADDR,
    RTM_DELLINK,
    RTM_DELRULE,
    RTM_GETADDR,
    RTM_GETLINK,
    RTM_GETRULE,
    RTM_NEWADDR,
    RTM_NEWLINK,
    RTM_NEWROUTE,
    RTM_NEWRULE,
    RTM_SETLINK,
)
from pyroute2.netlink.rtnl.fibmsg import fibmsg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

_REQUEST, _ACK, _DUMP, _REPLACE, _EXCLUSIVE, _CREATE = 0x1, 0x4, 0x300, 0x100, 0x200, 0x400
_IS_INTERRUPTED = 0x10
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("IHHII")
_CODE = struct.Struct("i")
_BUFFER = 1 << 17
# So many requests go in one message: their answers have room in the socket.
_AT_ONCE = 64
_UP = 0x1
_NO_DAD = 0x02  # usable at once: nobody is asked whether somebody else has the address
_ON_LINK = 4  # the gateway is there, whatever the prefix says
_STATIC, _UNICAST, _TO_TABLE = 4, 1, 1
# Numbers of tables that do not fit into a header are said beside it.
MAIN_TABLE, _OTHER_TABLE = 254, 252


class _Request(NamedTuple):
    whose: Hashable
    kind: int
    flags: int
    message: nlmsg
    # of which the kernel may say that it is not so, or already so
    passes: int


class Route(NamedTuple):
    """The way to a network, such as `0.0.0.0/0`, by a link; its table is the main one if no other is said."""

    family: int
    network: str
    link: int
    table: int = MAIN_TABLE
    priority: int | None = None
    gateway: str | None = None
    is_on_link: bool = False


class Batch:
    """Requests that go to the kernel together, each for the one that `whose` was at that moment."""

    def __init__(self) -> None:
        self.requests: list[_Request] = []
        self.whose: Hashable = None

    def add_bridge(self, name: str) -> None:
        """A bridge that forwards at once, and everything."""
        data = {"IFLA_BR_STP_STATE": 0, "IFLA_BR_FORWARD_DELAY": 0, "IFLA_BR_MCAST_SNOOPING": 0}
        self._add(RTM_NEWLINK, _link({"ifname": name, "linkinfo": _kind("bridge", data)}), _CREATE | _EXCLUSIVE)

    def add_cable(self, outer: str, inner: str, namespace: int, bridge: int, mac: str, mtu: int | None) -> None:
        """A pair of links, both off: one here, in the bridge of that index, and one in the open namespace."""
        size = {"mtu": mtu} if mtu else {}
        peer = _link({"ifname": inner, "net_ns_fd": namespace, "address": mac, **size})
        info = _kind("veth", {"VETH_INFO_PEER": {"attrs": peer["attrs"]}})
        made = _link({"ifname": outer, "master": bridge, "linkinfo": info, **size})
        self._add(RTM_NEWLINK, made, _CREATE | _EXCLUSIVE)

    def set_link(self, name: str, so: Mapping[str, object] | None = None, *, is_up: bool = False) -> None:
        """Change what is said of it: `mtu`, `address`, the index of a `master`, its `ifalias`; have it on."""
        self._add(RTM_SETLINK, _link({"ifname": name, **(so or {})}, is_up=is_up))

    def remove_link(self, name: str) -> None:
        """With its other end; absent is success."""
        self._add(RTM_DELLINK, _link({"ifname": name}), passes=errno.ENODEV)

    def add_address(self, index: int, family: int, address: str, prefix: int) -> None:
        """Have it, at once; that it is there is success."""
        self._address(RTM_NEWADDR, (index, family, address, prefix), _CREATE | _EXCLUSIVE, errno.EEXIST)

    def remove_address(self, index: int, family: int, address: str, prefix: int) -> None:
        """Absent is success."""
        self._address(RTM_DELADDR, (index, family, address, prefix), 0, errno.EADDRNOTAVAIL)

    def _address(self, kind: int, what: tuple[int, int, str, int], flags: int, passes: int) -> None:
        index, family, address, prefix = what
        message = ifaddrmsg()
        message.update(family=family, prefixlen=prefix, index=index)
        message["flags"] = _NO_DAD if family == socket.AF_INET6 else 0
        local = [("IFA_LOCAL", address)] if family == socket.AF_INET else []
        message["attrs"] = [("IFA_ADDRESS", address), *local]
        self._add(kind, message, flags, passes)

    def set_route(self, route: Route) -> None:
        """Have it in the place of others to the same network."""
        destination, _, length = route.network.partition("/")
        message = rtmsg()
        message.update(family=route.family, dst_len=int(length), table=_in_header(route.table))
        message.update(proto=_STATIC, type=_UNICAST, scope=0, flags=_ON_LINK * route.is_on_link)
        found = {"dst": destination if int(length) else None, "oif": route.link, "table": route.table}
        found |= {"priority": route.priority, "gateway": route.gateway}
        message["attrs"] = [(f"RTA_{key.upper()}", value) for key, value in found.items() if value is not None]
        self._add(RTM_NEWROUTE, message, _CREATE | _REPLACE)

    def add_rule(self, family: int, source: str, table: int, priority: int) -> None:
        """What comes from the address goes by the table; that it is there is success."""
        self._rule(RTM_NEWRULE, (family, source, table, priority), _CREATE | _EXCLUSIVE, errno.EEXIST)

    def remove_rule(self, family: int, source: str, table: int, priority: int) -> None:
        """Absent is success."""
        self._rule(RTM_DELRULE, (family, source, table, priority), 0, errno.ENOENT)

    def _rule(self, kind: int, what: tuple[int, str, int, int], flags: int, passes: int) -> None:
        family, source, table, priority = what
        message = fibmsg()
        message.update(family=family, src_len=32 if family == socket.AF_INET else 128, action=_TO_TABLE)
        message["table"] = _in_header(table)
        message["attrs"] = [("FRA_SRC", source), ("FRA_TABLE", table), ("FRA_PRIORITY", priority)]
        self._add(kind, message, flags, passes)

    def _add(self, kind: int, message: nlmsg, flags: int = 0, passes: int = 0) -> None:
        self.requests.append(_Request(self.whose, kind, _REQUEST | _ACK | flags, message, passes))


class Kernel:
    """A connection to the network that the thread was in which has made it."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.bind((0, 0))
        self._numbers = itertools.count(1)

    def close(self) -> None:
        """No more of it."""
        self._socket.close()

    def do(self, batch: Batch) -> None:
        """Each request, one after the other. Raises OSError, the first one's that was refused."""
        for error in self.attempt(batch).values():
            raise error

    def attempt(self, batch: Batch) -> dict[Hashable, OSError]:
        """The same; by whose requests were refused the first such error."""
        failed: dict[Hashable, OSError] = {}
        left = iter(batch.requests)
        while some := list(itertools.islice(left, _AT_ONCE)):
            for request, code in zip(some, self._sent(some), strict=True):
                if code not in (0, request.passes):
                    failed.setdefault(request.whose, OSError(code, os.strerror(code)))
        return failed

    def links(self) -> list[nlmsg]:
        """All links there are."""
        return self._dump(RTM_GETLINK, _link({}))

    def addresses(self) -> list[nlmsg]:
        """All addresses, of both families."""
        return self._dump(RTM_GETADDR, ifaddrmsg())

    def rules(self) -> list[nlmsg]:
        """All rules, of both families."""
        return self._dump(RTM_GETRULE, fibmsg())

    def _sent(self, requests: list[_Request]) -> list[int]:
        """The error number of each; 0 where it was done."""
        numbers = [next(self._numbers) for _ in requests]
        encoded = zip(requests, numbers, strict=True)
        self._socket.send(b"".join(_encoded(one.message, one.kind, one.flags, number) for one, number in encoded))
        codes: dict[int, int] = {}
        while len(codes) < len(requests):
            for data, offset, kind, number, _ in self._received():
                if kind == _ERROR and number in numbers:
                    codes[number] = -_CODE.unpack_from(data, offset + _HEADER.size)[0]
        return [codes[number] for number in numbers]

    def _dump(self, kind: int, message: nlmsg) -> list[nlmsg]:
        asked = type(message)
        while True:
            number = next(self._numbers)
            one = asked()
            one.update(dict(message))
            self._socket.send(_encoded(one, kind, _REQUEST | _DUMP, number))
            found = self._answers(asked, number)
            if found is not None:
                return found

    def _answers(self, asked: type[nlmsg], number: int) -> list[nlmsg] | None:
        """None when something has changed meanwhile, and part of it may be missing."""
        found: list[nlmsg] = []
        is_whole = True
        while True:
            for data, offset, kind, of, flags in self._received():
                if of != number:
                    continue
                is_whole &= not flags & _IS_INTERRUPTED
                if kind == _DONE:
                    return found if is_whole else None
                if kind == _ERROR:
                    code = -_CODE.unpack_from(data, offset + _HEADER.size)[0]
                    raise OSError(code, os.strerror(code))
                message = asked(data, offset=offset)
                message.decode()
                found.append(message)

    def _received(self) -> Iterator[tuple[bytes, int, int, int, int]]:
        """Of each message in the next datagram: where it begins, its type, its number and its flags."""
        data, offset = self._socket.recv(_BUFFER), 0
        while offset < len(data):
            length, kind, flags, number, _ = _HEADER.unpack_from(data, offset)
            yield data, offset, kind, number, flags
            offset += (length + 3) & ~3


def _encoded(message: nlmsg, kind: int, flags: int, number: int) -> bytes:
    message["header"] = {"type": kind, "flags": flags, "sequence_number": number, "pid": 0}
    message.encode()
    return bytes(message.data)


def _link(so: Mapping[str, object], *, is_up: bool = False) -> nlmsg:
    """A message about a link, which is named if it is not made: by its index it would be renamed."""
    message = ifinfmsg()
    message.update(family=0, index=0, flags=_UP * is_up, change=_UP * is_up)
    message["attrs"] = [(f"IFLA_{key.upper()}", value) for key, value in so.items()]
    return message


def _in_header(table: int) -> int:
    return table if table < 256 else _OTHER_TABLE


def _kind(name: str, data: Mapping[str, object]) -> dict[str, object]:
    return {"attrs": [("IFLA_INFO_KIND", name), ("IFLA_INFO_DATA", {"attrs": list(data.items())})]}
