# SPDX-License-Identifier: Apache-2.0
"""From which of a share's export locations a server mounts it: one on its own subnet before all others."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from abaca.domain.attachments import clients

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def address_of(path: str) -> str:
    """The address, or the name, at the beginning of an export location: `fd77::1` of `[fd77::1]:/shares/x`."""
    host = path[1:].partition("]")[0] if path.startswith("[") else path.partition(":")[0]
    return host if host != path else ""


def version_of(path: str) -> int:
    """Of which address family an export location is."""
    return 6 if path.startswith("[") else 4


def versions_of(addresses: Sequence[str]) -> set[int]:
    """Of which families a machine's addresses are; one that is let in by a network may stand as that."""
    return {ipaddress.ip_network(one).version for one in addresses}


def is_on_link(cidr: str | None, addresses: Sequence[str]) -> bool:
    """Whether one of a machine's addresses, or the network that it is let in by, lies in the subnet: no router is
    between them.
    """
    if cidr is None:
        return False
    subnet = ipaddress.ip_network(cidr, strict=False)
    return any(_is_within(ipaddress.ip_network(one), subnet) for one in addresses)


def _is_within(one: Network, other: Network) -> bool:
    return one.version == other.version and one[0] in other and one[-1] in other


def choose(paths: Sequence[str], cidrs: Mapping[str, str], addresses: Sequence[str], current: str | None) -> str | None:
    """Where a machine with these addresses mounts from, of `paths`, the preferred first; None where there are none.

    Of those that its address families can reach it is one that is on-link, if there is one; `cidrs` has the subnets of
    the addresses that export. Of several as near the one in use, else the first. Where it reaches none all count, and
    where it is let in by its certificate, not by addresses.
    """
    addresses = clients.addresses(addresses)
    families = versions_of(addresses)
    reachable = [path for path in paths if version_of(path) in families] or paths
    near = [path for path in reachable if is_on_link(cidrs.get(address_of(path)), addresses)]
    best = near or reachable
    return current if current in best else next(iter(best), None)
