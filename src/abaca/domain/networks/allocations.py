# SPDX-License-Identifier: Apache-2.0
"""Addresses that share servers have, and what is known of the networks that they are of."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Literal

import msgspec

Version = Literal[4, 6]


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """What is beneath a subnet, as its network plug-in knows it.

    `key` names where addresses are unique; `mtu` is in bytes.
    """

    key: str
    cidr: str
    ip_version: Version
    gateway: str | None = None
    mtu: int | None = None
    network_type: str | None = None
    segmentation_id: int | None = None


class Allocation(msgspec.Struct, frozen=True, gc=False):
    """An address of a share server; without a subnet one of the operator's own network.

    Without a server it was left by one that was given up and still answers there: what `left_host` (host@backend) calls
    `left_identifier`. Nobody else gets it. With a server these two tell that it was so once.
    """

    id: str
    share_server_id: str | None
    share_network_subnet_id: str | None
    network: str
    ip_address: str
    ip_version: Version
    cidr: str
    gateway: str | None
    mtu: int | None
    network_type: str | None
    segmentation_id: int | None
    mac_address: str | None
    left_host: str | None
    left_identifier: str | None


class Address(msgspec.Struct, frozen=True, gc=False):
    """An address that a share server may get; with the id that the allocation shall have, if somebody else gave one."""

    ip: str
    mac: str | None = None
    id: str | None = None


def other_with_same_addresses(network: Network, others: Iterable[tuple[str, str]]) -> str | None:
    """The CIDR of one of these networks, by key and CIDR, that has addresses of this one and is not this one; or None.

    Whoever is on both could not tell which of two clients an address is of.
    """
    its = ipaddress.ip_network(network.cidr, strict=False)
    for key, cidr in others:
        if key != network.key and its.overlaps(ipaddress.ip_network(cidr, strict=False)):
            return cidr
    return None


def host_address(text: str, network: Network) -> str | None:
    """An address that a server on the network can have, in its shortest form; None for what is none."""
    try:
        address, beneath = ipaddress.ip_address(text), ipaddress.ip_network(network.cidr, strict=False)
    except ValueError:
        return None
    if "%" in text or address not in beneath:
        return None
    taken = {network.gateway and str(ipaddress.ip_address(network.gateway))}
    if beneath.num_addresses > 2:
        taken.add(str(beneath[0]))  # of IPv6 that of all routers
        if beneath.version == 4:
            taken.add(str(beneath[-1]))
    return None if str(address) in taken else str(address)
