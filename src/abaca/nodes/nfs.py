# SPDX-License-Identifier: Apache-2.0
"""NFS 4.2, mounted hard: a server that is away makes programs wait, it never makes them lose data."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

from abaca.nodes import distributions
from abaca.nodes.contract import Distribution, Mount, Mounter

_SOURCE = re.compile(
    r"(?P<host>\[[0-9a-fA-F:.]+(?:%[\w.-]+)?\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?):(?P<path>/.*)"
)
_PACKAGES: Mapping[str, str] = {
    "debian": "nfs-common",
    "fedora": "nfs-utils",
    "suse": "nfs-client",
    "alpine": "nfs-utils",
}


class Nfs(Mounter):
    """Mounts `host:/path`; a request is repeated after 60 s, and again, before the kernel says "not responding"."""

    protocols = ("NFS",)
    fstype = "nfs4"
    program = "mount.nfs4"

    def __init__(self, *, port: int = 2049, more: tuple[str, ...] = ("nosuid", "nodev")) -> None:
        """`port` is where the servers listen, for those that cannot use 2049; `more` are options of every mount."""
        self.port = port
        self.more = more

    def packages(self, distribution: Distribution) -> tuple[str, ...]:
        family = distributions.family(distribution)
        return (_PACKAGES[family],) if family else ()

    def check(self, source: str) -> str | None:
        found = _SOURCE.fullmatch(source)
        if found is None or not source.isprintable() or "\\" in source or len(source) > 1024:
            return f"{source!r} is no NFS export: address:/path is"
        if found["host"].startswith("["):
            try:
                ipaddress.IPv6Address(found["host"][1:-1])
            except ValueError:
                return f"{found['host']} is no IPv6 address"
        return None

    def options(self, mount: Mount) -> tuple[str, ...]:
        port = () if self.port == 2049 else (f"port={self.port}",)
        level = "ro" if mount.is_read_only else "rw"
        return (level, "vers=4.2", "hard", "timeo=600", "retrans=2", *port, *self.more)

    def plain_options(self, mount: Mount) -> tuple[str, ...] | None:
        found = _SOURCE.fullmatch(mount.source)
        address = found["host"].strip("[]") if found else ""
        try:
            ipaddress.ip_address(address)
        except ValueError:
            return None  # the kernel resolves no names
        return (*self.options(mount), f"addr={address}")
