# SPDX-License-Identifier: Apache-2.0
"""Addresses that share servers have, and what is known of the networks that they are of."""

from __future__ import annotations

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
    """An address of a share server; without a subnet one of the operator's own network."""

    id: str
    share_server_id: str
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


class Address(msgspec.Struct, frozen=True, gc=False):
    """An address that a share server may get; with the id that the allocation shall have, if somebody else gave one."""

    ip: str
    mac: str | None = None
    id: str | None = None
