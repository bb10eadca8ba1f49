# SPDX-License-Identifier: Apache-2.0
"""From which of a share's export locations a server mounts it: one on its own subnet before all others."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence


def address_of(path: str) -> str:
    """The address, or the name, at the beginning of an export location: `fd77::1` of `[fd77::1]:/shares/x`."""
    host = path[1:].partition("]")[0] if path.startswith("[") else path.partition(":")[0]
    return host if host != path else ""


def version_of(path: str) -> int:
    """Of which address family an export location is."""
    return 6 if path.startswith("[") else 4


def is_on_link(cidr: str | None, addresses: Sequence[str]) -> bool:
    """Whether one of a machine's addresses lies in the subnet: no router is between them."""
    if cidr is None:
        return False
    network = ipaddress.ip_network(cidr, strict=False)
    return any(ipaddress.ip_address(one) in network for one in addresses)


def choose(paths: Sequence[str], cidrs: Mapping[str, str], addresses: Sequence[str], current: str | None) -> str | None:
    """Where a machine with these addresses mounts from, of `paths`, the preferred first; None where there are none.

    Of those that its address families can reach it is one that is on-link, if there is one; `cidrs` has the subnets of
    the addresses that export. Of several as near the one in use, else the first. Where it reaches none all count.
    """
    families = {ipaddress.ip_address(address).version for address in addresses}
    reachable = [path for path in paths if version_of(path) in families] or paths
    near = [path for path in reachable if is_on_link(cidrs.get(address_of(path)), addresses)]
    best = near or reachable
    return current if current in best else next(iter(best), None)
