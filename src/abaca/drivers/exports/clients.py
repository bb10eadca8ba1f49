# SPDX-License-Identifier: Apache-2.0
"""Access rules as an ordered list of networks, so that the first match is the longest prefix.

NFS-Ganesha lets the first matching client block decide, so single addresses come before networks and narrow networks
before wide ones. Its own parser (4.3) takes neither a prefix of 0 nor an IPv6 prefix of three digits; worse, it then
drops the whole list without a word. What it cannot take is written in another form, or answered as an error.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from abaca.drivers import contract

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Client(NamedTuple):
    """Addresses, as a network's canonical text, and what they may do."""

    network: str
    level: contract.AccessLevel


def from_rules(rules: Sequence[contract.AccessRule]) -> tuple[list[Client], dict[str, contract.AccessOutcome]]:
    """The rules as ordered clients, and an outcome for each rule that cannot be honoured.

    A network that is named twice keeps its widest right.
    """
    widest: dict[Network, contract.AccessLevel] = {}
    outcomes = {}
    for rule in rules:
        try:
            network = _network(rule)
        except ValueError as error:
            outcomes[rule.id] = contract.AccessOutcome(state="error", reason=str(error))
        else:
            widest[network] = "rw" if "rw" in (rule.level, widest.get(network)) else "ro"
    return [Client(str(network), widest[network]) for network in sorted(widest, key=_rank)], outcomes


def _network(rule: contract.AccessRule) -> Network:
    if rule.type != "ip":
        raise ValueError(f"access by {rule.type} is not supported, only by ip")
    network = ipaddress.ip_network(rule.to, strict=False)
    if isinstance(network, ipaddress.IPv6Network):
        if network.network_address.scope_id:
            raise ValueError(f"{rule.to} is only valid on one link")
        mapped = network.network_address.ipv4_mapped
        if mapped and network.prefixlen >= 96:
            return ipaddress.IPv4Network((mapped, network.prefixlen - 96))
        if 100 <= network.prefixlen < 120:
            raise ValueError("NFS-Ganesha takes no IPv6 networks of /100 to /119: use /99, or /120 and longer")
    return network


def _rank(network: Network) -> tuple[int, int, int]:
    return network.max_prefixlen - network.prefixlen, network.version, int(network.network_address)


def forms(network: str) -> list[str]:
    """The same addresses as networks that NFS-Ganesha reads."""
    address, _, prefix = network.partition("/")
    if prefix == "0":
        return [str(half) for half in ipaddress.ip_network(network).subnets()]
    if ":" in address and len(prefix) == 3 and prefix != "128":
        return [str(one) for one in ipaddress.ip_network(network).subnets(new_prefix=128)]
    return [network]


def word(form: str) -> str:
    """One of the `forms` as NFS-Ganesha reads it: a single address without its prefix."""
    return form.removesuffix("/128" if ":" in form else "/32")


def matching(clients: Iterable[Client], address: str) -> contract.AccessLevel | None:
    """What the first match lets the address do; None is nothing."""
    wanted = ipaddress.ip_address(address)
    return next((client.level for client in clients if wanted in ipaddress.ip_network(client.network)), None)
