# SPDX-License-Identifier: Apache-2.0
"""Machines in tenants' networks: a network namespace each, plugged into the bridge of a segment."""

import contextlib
import ipaddress
import itertools
import socket
from pathlib import Path

from abaca.drivers.clients import namespaces
from lab import processes
from tests.conftest import wait_until

_NUMBERS = itertools.count(1)


def bridge_of(harness, segment):
    """The bridge that the driver made for a segment."""
    alias = f"abaca {harness.directory} segment {segment}"
    links = Path("/sys/class/net").glob("*/ifalias")
    return next(link.parent.name for link in links if link.read_text().strip() == alias)


class Machine:
    """A client with these addresses on a bridge; `close` takes it away."""

    def __init__(self, run, bridge, *addresses):
        self.number = next(_NUMBERS)
        self.name = f"{run.prefix}c{self.number}"
        self.place = Path("/run/netns", self.name)
        processes.command(["ip", "netns", "add", self.name])
        self.ip("link", "set", "lo", "up")
        self.run = run
        self.device = self.plug_in(bridge, *addresses)

    def plug_in(self, bridge, *addresses):
        """Give it a cable to one bridge more."""
        number = next(_NUMBERS)
        outer, inner = f"{self.run.prefix}p{number}", f"{self.run.prefix}q{number}"
        processes.command(["ip", "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", self.name])
        processes.command(["ip", "link", "set", outer, "master", bridge, "up"])
        for address in addresses:
            self.ip("address", "add", address, "dev", inner, *(["nodad"] if ":" in address else []))
        self.ip("link", "set", inner, "up")
        return inner

    def ip(self, *words):
        return processes.command(["ip", "-n", self.name, *words])

    def command(self, *argv):
        return processes.command(["nsenter", f"--net={self.place}", *argv])

    def sees(self, address, share, kind="shares"):
        """What it finds in the share at the address; None when it may not mount it or nobody is there."""
        try:
            place = f"nfs://{address}/{kind}/{share.id}?version=4"
            return self.command("timeout", "-s", "KILL", "5", "nfs-ls", place)
        except processes.LabError:
            return None

    def finds(self, address, share, kind="shares"):
        """What it sees in the share as soon as it may mount it: a network takes its time to come up."""
        return wait_until(lambda: self.sees(address, share, kind))

    def connects(self, address, port=2049, within_s=1.0):
        """Whether somebody accepts a connection there just now."""

        def connect():
            family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
            with socket.socket(family) as client:
                client.settimeout(within_s)
                return client.connect_ex((address, port)) == 0

        return namespaces.inside(self.place, connect)

    def reaches(self, address, port=2049):
        """Returns when somebody accepts a connection there."""
        wait_until(lambda: self.connects(address, port))

    def shout(self, text, *addresses):
        """Send a datagram to each address, and to all neighbours."""

        def send():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, self.device.encode())
                for address in (*addresses, "255.255.255.255"):
                    with contextlib.suppress(OSError):
                        client.sendto(text.encode(), (address, 9999))

        namespaces.inside(self.place, send)

    def close(self):
        processes.command(["ip", "netns", "delete", self.name])


class Ear:
    """Hears every packet that comes into a namespace."""

    def __init__(self, place):
        self.socket = namespaces.inside(
            place, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        )

    def heard(self, text, within_s):
        """Whether a packet with the text comes in that time; all that comes before it is passed over."""
        self.socket.settimeout(within_s)
        with contextlib.suppress(TimeoutError):
            while True:
                if text.encode() in self.socket.recv(65535):
                    return True
        return False

    def close(self):
        self.socket.close()
