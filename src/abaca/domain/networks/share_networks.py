# SPDX-License-Identifier: Apache-2.0
"""Share networks and their subnets: where share servers of a project shall be reached."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Literal

import msgspec

from abaca import errors
from abaca.domain.state_machine import StateMachine

Status = Literal["active", "error", "network_change"]

SHARE_NETWORK = StateMachine(
    "share network",
    # at               event      to
    ("none",           "create",  "active"),
    ("active",         "change",  "network_change"),
    ("network_change", "changed", "active"),
    ("network_change", "failed",  "error"),
    ("error",          "changed", "active"),
    busy=("network_change",),
    resettable=("active", "error", "network_change"),
)  # fmt: skip


class ShareNetwork(msgspec.Struct, frozen=True, gc=False):
    """A share network. Times are naive UTC."""

    id: str
    project_id: str
    user_id: str | None
    name: str | None
    description: str | None
    status: Status
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


class Subnet(msgspec.Struct, frozen=True, gc=False):
    """A subnet of a share network.

    Without an `availability_zone` it is for all zones that have no subnet of their own. Type, segment and addresses are
    None until the network plug-in was asked for them; `mtu` is in bytes.
    """

    id: str
    share_network_id: str
    availability_zone: str | None
    neutron_net_id: str | None
    neutron_subnet_id: str | None
    network_type: str | None
    segmentation_id: int | None
    cidr: str | None
    gateway: str | None
    ip_version: int | None
    mtu: int | None
    metadata: dict[str, str]
    created_at: datetime.datetime
    updated_at: datetime.datetime | None


def check_neutron_ids(net_id: str | None, subnet_id: str | None) -> None:
    """Raises `Invalid` for one without the other."""
    if bool(net_id) != bool(subnet_id):
        raise errors.Invalid("Give neutron_net_id and neutron_subnet_id together, or neither of them.")


def default(subnets: Sequence[Subnet]) -> Subnet | None:
    """The oldest subnet that is for all zones: what a network was before it could have several."""
    return next((subnet for subnet in subnets if subnet.availability_zone is None), None)


def only_default(network_id: str, subnets: Sequence[Subnet]) -> Subnet:
    """The one subnet of a network whose Neutron ids may change. Raises `Invalid` where that is not clear."""
    found = [subnet for subnet in subnets if subnet.availability_zone is None]
    if len(found) != 1:
        raise errors.Invalid(
            f"Share network {network_id} has {len(found)} default subnets; the Neutron ids can be changed of a network "
            "with exactly one. Create a subnet with the new ids, and delete the old one."
        )
    return found[0]
