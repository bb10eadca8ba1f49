# SPDX-License-Identifier: Apache-2.0
"""A pool: a part of a back end where shares are placed, and how much of it may still be given away.

A pool's host is `host@backend#pool`; that of the service that serves it `host@backend`. Sizes are in GiB.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from abaca.domain.catalog import extra_specs


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """A pool as the scheduler sees it.

    `total_gib` and `free_gib` are None where the back end cannot tell, inf where endless. `claimed_gib` was given away
    since `free_gib` was measured; `provisioned_gib` is the sum of the shares' sizes. A pool that `is_back_soon` is not
    up: its worker was told to stop a moment ago, as it is when it is restarted.
    """

    host: str
    service_host: str
    is_up: bool = True
    is_back_soon: bool = False
    is_disabled: bool = False
    availability_zone: str = "nova"
    total_gib: float | None = None
    free_gib: float | None = None
    claimed_gib: int = 0
    provisioned_gib: int = 0
    capabilities: Mapping[str, Any] = msgspec.field(default_factory=dict)
    reported_at: datetime.datetime | None = None

    @property
    def over_subscription_ratio(self) -> float:
        """How far a thin pool may be promised beyond its size."""
        return number(self.capabilities.get("max_over_subscription_ratio"), 1.0)

    def reports(self, capability: str) -> object:
        """What share types may ask for: what its back end reported, and its own name."""
        return parts(self.host)[2] if capability == "pool_name" else self.capabilities.get(capability)

    def is_thin_for(self, specs: Mapping[str, str]) -> bool:
        """Whether a share of this type takes room only as it fills."""
        reported = self.capabilities.get("thin_provisioning")
        can = any(reported) if isinstance(reported, list | tuple) else bool(reported)
        wanted = specs.get("thin_provisioning", specs.get("capabilities:thin_provisioning", ""))
        return can and extra_specs.truth(wanted) is not False and self.over_subscription_ratio >= 1

    def reserved_gib(self, kind: str) -> float:
        """What a kind of request (create, from_snapshot, extend) must leave; 0 where the size is not a number."""
        if self.total_gib is None or math.isinf(self.total_gib):
            return 0.0
        return self.total_gib * self.reserved_percentage(kind) / 100

    def reserved_percentage(self, kind: str) -> float:
        """The reserve for a kind of request; without one of its own, that of plain creates."""
        normal = number(self.capabilities.get("reserved_percentage"), 0.0)
        return number(self.capabilities.get(_RESERVES.get(kind, "")), 0.0) or normal

    def claim(self, size_gib: int, kind: str, specs: Mapping[str, str]) -> Claim:
        """What taking `size_gib` asks of this pool."""
        reserved = self.reserved_gib(kind)
        if not self.is_thin_for(specs) or self.total_gib is None:
            return Claim(host=self.host, size_gib=size_gib, reserved_gib=reserved)
        ratio = self.over_subscription_ratio
        return Claim(
            host=self.host,
            size_gib=size_gib,
            reserved_gib=reserved,
            ratio=ratio,
            provisionable_gib=self.total_gib * ratio,
        )


_RESERVES = {"from_snapshot": "reserved_snapshot_percentage", "extend": "reserved_share_extend_percentage"}


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Room to be taken in a pool, with the terms under which it may be; what the capacity filter and the claim check.

    Thick (`ratio` None): the free room less what others claimed and the reserve holds the size. Thin: the free room
    less the reserve, times the ratio, holds it, and all promises together stay within `provisionable_gib`.
    """

    host: str
    size_gib: int
    reserved_gib: float = 0.0
    ratio: float | None = None
    provisionable_gib: float | None = None


def host_of(service_host: str, pool: str) -> str:
    """`host@backend#pool`."""
    return f"{service_host}#{pool}"


def service_host_of(host: str) -> str:
    """`host@backend` of `host@backend#pool`."""
    return host.partition("#")[0]


def parts(host: str) -> tuple[str, str, str]:
    """Host, back end and pool of `host@backend#pool`; what is missing is empty."""
    service_host, _, pool = host.partition("#")
    name, _, backend = service_host.partition("@")
    return name, backend, pool


def number(value: object, default: float) -> float:
    """What a back end reported, if it is a number."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default
