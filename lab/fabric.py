# SPDX-License-Identifier: Apache-2.0
"""A private network between this machine and its guests: a bridge with IPv4 and IPv6 networks that nobody else uses."""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import json
import os
import pathlib
import socket
from typing import Literal

from lab import processes, runs

_NETWORKS = range(1, 250)
_GUESTS = range(11, 250)


@dataclasses.dataclass(frozen=True)
class Port:
    """A place on the fabric: the network device of one client and the client's addresses."""

    device: str
    ipv4: str
    ipv6: str
    mac: str


def need() -> None:
    """Return if networks can be made on this machine; raises `processes.Missing` otherwise."""
    processes.need("ip", package="iproute2")
    if os.geteuid() != 0:
        raise processes.Missing("only root can make a network for guests")
    if not pathlib.Path("/dev/net/tun").exists():
        raise processes.Missing("/dev/net/tun is missing: this kernel has no TUN/TAP")


class Fabric:
    """A bridge in the host's network namespace, or in `netns`; the host has `host_ipv4` and `host_ipv6` on it.

    Networks are chosen free: 10.77.N.0/24 and fd77:0:0:N::/64. A driver may attach interfaces of its own to `bridge`.
    Raises `processes.Missing` without root or TUN/TAP.
    """

    def __init__(self, run: runs.Run, netns: str | None = None) -> None:
        need()
        self.run = run
        self.netns = netns
        self._claim, number = self._claim_network()
        run.at_end(self.close)
        self._number = number
        self.bridge = f"{run.prefix}{number:x}"
        self.network_v4 = ipaddress.IPv4Network(f"10.77.{number}.0/24")
        self.network_v6 = ipaddress.IPv6Network(f"fd77:0:0:{number:x}::/64")
        self.host_ipv4, self.host_ipv6 = str(self.network_v4[1]), str(self.network_v6[1])
        self._guests = iter(_GUESTS)
        # An address of its own: without one it takes another whenever a port goes, and its clients send to the old.
        own = ("address", f"02:77:ff:00:00:{number:02x}")
        self._ip("link", "add", self.bridge, *own, "type", "bridge", "forward_delay", "0", "stp_state", "0")
        self._ip("address", "add", f"{self.host_ipv4}/24", "dev", self.bridge)
        self._ip("address", "add", f"{self.host_ipv6}/64", "dev", self.bridge, "nodad")
        self._ip("link", "set", self.bridge, "up")

    def port(self, kind: Literal["tap", "veth"] = "tap") -> Port:
        """Return a new place for a client: a tap device on the bridge, or one end of a cable whose other end is."""
        guest = next(self._guests)
        device = plug = f"{self.bridge}t{guest}"
        if kind == "tap":
            self._ip("tuntap", "add", "dev", device, "mode", "tap")
            self._ip("link", "set", plug, "master", self.bridge, "up")
        else:
            device = f"{self.bridge}v{guest}"
            self.lay_cable(device)
        return Port(
            device=device,
            ipv4=str(self.network_v4[guest]),
            ipv6=str(self.network_v6[int(str(guest), 16)]),  # 10.77.1.11 and fd77:0:0:1::11 are the same guest
            mac=f"02:77:00:00:{self._number:02x}:{guest:02x}",
        )

    def lay_cable(self, device: str) -> None:
        """Make the cable of a `veth` port, anew if it has ended with the namespace that had it."""
        plug = f"{self.bridge}t{device.removeprefix(f'{self.bridge}v')}"
        self._quietly("link", "delete", plug)
        self._ip("link", "add", plug, "type", "veth", "peer", "name", device)
        self._ip("link", "set", plug, "master", self.bridge, "up")

    def move_port(self, port: Port, pid: int) -> None:
        """Put the device of a `veth` port into the network namespace of a process."""
        self._ip("link", "set", port.device, "netns", str(pid))

    def unplug(self, port: Port) -> None:
        """Pull the cable of a `tap` port: nothing travels there or back, and nobody is told."""
        self._ip("link", "set", port.device, "nomaster")

    def plug_in(self, port: Port) -> None:
        """Put the cable back."""
        self._ip("link", "set", port.device, "master", self.bridge)

    def remove_port(self, port: Port) -> None:
        """Take a client's place away; it is no error if it is gone."""
        self._quietly("link", "delete", port.device)

    def address(self, number: int) -> str:
        """An IPv4 address of the network that no guest and not the host has; `number` is from 2 to 10."""
        return str(self.network_v4[number])

    def add_address(self, address: str) -> None:
        """Give the host one more IPv4 address; the others stay when one of them is taken away."""
        where = ["ip", "netns", "exec", self.netns] if self.netns else []
        processes.command([*where, "sysctl", "-q", "-w", f"net.ipv4.conf.{self.bridge}.promote_secondaries=1"])
        self._ip("address", "add", f"{address}/24", "dev", self.bridge)

    def remove_address(self, address: str) -> None:
        """The host no longer has it: what travels to it gets no answer."""
        self._ip("address", "delete", f"{address}/24", "dev", self.bridge)

    def close(self) -> None:
        """Remove the bridge and the taps on it; it is no error if they are gone."""
        with contextlib.suppress(processes.LabError):
            for link in json.loads(self._ip("-j", "link", "show", "master", self.bridge) or "[]"):
                if link.get("ifname", "").startswith(self.run.prefix):
                    self._quietly("link", "delete", link["ifname"])
        self._quietly("link", "delete", self.bridge)
        self._claim.close()

    def _claim_network(self) -> tuple[socket.socket, int]:
        """Choose a network that no route knows, and claim it from other runs by a socket name, which dies with us."""
        for number in _NETWORKS:
            claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                claim.bind(f"\0abaca-lab/10.77.{number}")
            except OSError:
                claim.close()
                continue
            if not self._is_routed(ipaddress.ip_network(f"10.77.{number}.0/24")):
                return claim, number
            claim.close()
        raise processes.LabError("no free network 10.77.N.0/24 for guests")

    def _is_routed(self, network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
        routes = json.loads(self._ip("-j", "route", "show", "table", "all") or "[]")
        for route in routes:
            with contextlib.suppress(ValueError):
                known = ipaddress.ip_network(route["dst"], strict=False)
                if known.prefixlen > 0 and known.overlaps(network):
                    return True
        return False

    def _ip(self, *words: str) -> str:
        where = ["-n", self.netns] if self.netns else []
        return processes.command(["ip", *where, *words])

    def _quietly(self, *words: str) -> None:
        with contextlib.suppress(processes.LabError):
            self._ip(*words)
