# SPDX-License-Identifier: Apache-2.0
"""Which bridge of this host a subnet's segment is: one that the operator has named, or one that is made for it.

What is made has a name of a digest of the back end's directory and of ids, and that directory in its alias, which
tells ours from all others. Subnets of one segment share its bridge; between two bridges nothing leads, and the host
answers on none of ours: it has no address there, and takes no packet from there for those that it has elsewhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from abaca.drivers import contract
from abaca.drivers.clients.names import safe

if TYPE_CHECKING:
    from abaca.drivers.clients.rtnetlink import Batch, Kernel

_LONGEST_ALIAS = 255
# Networks of these types are told apart by their number alone, whoever names it.
_NUMBERED = ("vlan", "vxlan", "gre", "geneve")
# Of a bridge of ours: the host takes no packets from it as its own, routes none, and answers nobody who asks for it.
_DEAF = {
    "ipv4/conf/{}/rp_filter": "1",
    "ipv4/conf/{}/arp_ignore": "8",
    "ipv4/conf/{}/forwarding": "0",
    "ipv6/conf/{}/disable_ipv6": "1",
}


def link_name(kind: Literal["b", "v", "n"], *ids: str) -> str:
    """The name of a bridge, or of the host's or the server's end of a cable, from what it is for.

    One of 2^44 for each kind; what has the name and another alias is not ours.
    """
    digest = hashlib.sha256("\0".join(ids).encode()).hexdigest()[:11]
    return f"ab{kind}{digest}"


def segment_of(subnet: contract.Subnet) -> str:
    """What tells the subnet's segment from others, such as `vlan-101`; without a number each network is its own."""
    if subnet.network_type in _NUMBERED and subnet.segmentation_id is not None:
        return f"{subnet.network_type}-{subnet.segmentation_id}"
    return safe(subnet.neutron_net_id or subnet.id)


def numbers(subnets: Iterable[contract.Subnet]) -> set[str]:
    """The segments of those that have a number."""
    return {segment_of(one) for one in subnets if one.network_type in _NUMBERED and one.segmentation_id is not None}


class Segments:
    """The bridges of one back end; whoever works with them holds `lock`."""

    def __init__(self, state_dir: Path, mapping: Mapping[str, str]) -> None:
        self._mapping = mapping
        self._owner = str(state_dir)
        self.lock = threading.RLock()

    def mark(self, *words: str) -> str:
        """The alias of a link of ours that is for this."""
        alias = " ".join(["abaca", self._owner, *words])
        if len(alias) > _LONGEST_ALIAS:
            raise contract.Refused(reason=f"{self._owner} is too long for an alias: choose a shorter state_dir")
        return alias

    def cable_names(self, server_id: str, subnet_id: str) -> tuple[str, str]:
        """The host's and the server's end of the cable between a subnet's segment and a server."""
        ids = (self._owner, safe(server_id), safe(subnet_id))
        return link_name("v", *ids), link_name("n", *ids)

    def mapped(self, subnet: contract.Subnet) -> str | None:
        """The operator's bridge for the subnet; None when one is made for it."""
        names = (segment_of(subnet), subnet.neutron_net_id, subnet.id, subnet.network_type)
        return next((self._mapping[name] for name in names if name and name in self._mapping), None)

    def check(self, subnet: contract.Subnet) -> None:
        """Raises `contract.Unreachable` when the operator's bridge for it is not there."""
        name = self.mapped(subnet)
        if name is not None and not Path(f"/sys/class/net/{name}/bridge").is_dir():
            raise contract.Unreachable(reason=f"there is no bridge {name}, which segment_bridges names: make it")

    def bridge(self, host: Host, subnet: contract.Subnet) -> str:
        """The bridge's name, made now when it is one of ours. Raises `contract.Unreachable`, `Refused`."""
        self.check(subnet)
        name = self.mapped(subnet)
        if name is None:
            segment = segment_of(subnet)
            name = link_name("b", self._owner, segment)
            self._make_bridge(host, name, self.mark("segment", segment))
        return name

    def _make_bridge(self, host: Host, name: str, alias: str) -> None:
        if index_of(name) is None:
            made = host.batch()
            made.add_bridge(name)
            host.kernel.do(made)
        elif alias_of(name) == alias and is_up(name):
            return
        elif alias_of(name) not in {"", alias}:
            raise contract.Refused(reason=f"a link {name} is there that is not of this back end: rename it")
        set_kernel(_DEAF, name)
        said = host.batch()
        said.set_link(name, {"ifalias": alias}, is_up=True)
        host.kernel.do(said)

    def ours(self, kind: Literal["b", "v"], *words: str) -> list[str]:
        """The host's links of a kind that are marked with this, and more."""
        begin, found = f"{self.mark(*words)} ", []
        for link in Path("/sys/class/net").glob(f"ab{kind}*"):
            if f"{alias_of(link.name)} ".startswith(begin):
                found.append(link.name)
        return found

    def remove(self, *names: str) -> None:
        """Take these links away; absent is success."""
        there = [name for name in names if index_of(name) is not None]
        if there:
            with self.lock, contextlib.closing(Host()) as host:
                going = host.batch()
                for name in there:
                    going.remove_link(name)
                host.kernel.do(going)

    def sweep(self) -> None:
        """Take away the bridges of ours that nothing is plugged into."""
        with self.lock:
            self.remove(*(name for name in self.ours("b", "segment") if not has_ports(name)))


class Host:
    """The host's own network; the connection to the kernel is made when something is to be changed."""

    def __init__(self) -> None:
        self._kernel: Kernel | None = None

    @property
    def kernel(self) -> Kernel:
        if self._kernel is None:
            from abaca.drivers.clients import rtnetlink  # its library is of no use to hosts without share servers

            self._kernel = rtnetlink.Kernel()
        return self._kernel

    def batch(self) -> Batch:
        """Nothing to be changed yet."""
        from abaca.drivers.clients import rtnetlink

        return rtnetlink.Batch()

    def close(self) -> None:
        if self._kernel is not None:
            self._kernel.close()


def plug_in(batch: Batch, name: str, bridge: str, mtu: int | None) -> None:
    """Have the link up, in the bridge, and of that size, if one is said."""
    if master_of(name) == bridge and is_up(name) and mtu in {None, int(_said(name, "mtu") or 0)}:
        return
    batch.set_link(name, {"master": need_index(bridge)} | ({"mtu": mtu} if mtu else {}), is_up=True)


# What the host says of a link. It tells this much faster by files than by messages.


def index_of(name: str) -> int | None:
    """The index of the link; None when there is none."""
    said = _said(name, "ifindex")
    return int(said) if said else None


def need_index(name: str) -> int:
    """The index of a link that is there. Raises `contract.Unreachable`."""
    index = index_of(name)
    if index is None:
        raise _Gone(reason=f"the link {name} went away")
    return index


def alias_of(name: str) -> str:
    """The link's alias; empty when it has none, or is not there."""
    return _said(name, "ifalias")


def master_of(name: str) -> str | None:
    """The bridge that the link is plugged into; None when that is none."""
    try:
        return Path(f"/sys/class/net/{name}/master").readlink().name
    except OSError:
        return None


def is_up(name: str) -> bool:
    """Whether it is switched on."""
    return bool(int(_said(name, "flags") or "0", 16) & 1)


def has_ports(name: str) -> bool:
    """Whether anything is plugged into the bridge."""
    try:
        return any(Path(f"/sys/class/net/{name}/brif").iterdir())
    except OSError:
        return False


def _said(name: str, what: str) -> str:
    try:
        return Path(f"/sys/class/net/{name}/{what}").read_text().strip()
    except OSError:  # it is not there, or has just gone
        return ""


class _Gone(contract.Unreachable):
    """A link went away."""


def set_kernel(settings: Mapping[str, str], name: str = "") -> None:
    """Kernel settings of the network that this thread is in; those of IPv6 where the kernel knows it."""
    for setting, value in settings.items():
        with contextlib.suppress(FileNotFoundError):
            Path("/proc/sys/net", setting.format(name)).write_text(value)
